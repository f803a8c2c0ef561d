/* The registrar's thread and the worker's loop, under ThreadSanitizer too: regions of several jobs
 * come, go and are refused while others are being registered. */
#include "tests/harness/test.h"

#include <errno.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "tests/harness/worker/fake_verbs.h"
#include "tests/unit/worker/fabric/verbs/region_fixture.h"
#include "worker/fabric/verbs/mr.h"

#define LARGE  (4u * 1024u * 1024u + 4096u)
#define JOBS   3u
#define ROUNDS 60u

static struct host host;
static struct job jobs[JOBS];
static struct fake_device *device;

static void worker_begin(void)
{
    struct proto_worker_config config = host_config_verbs("a", "fake0");

    fake_reset();
    device = fake_device_add("fake0");
    host_start(&host, &config);
}

static void job_begin(unsigned index, unsigned round)
{
    const struct job_shape shape = {.handle = 1 + round * JOBS + index,
                                    .segment =
                                        index == 0 ? "first" : (index == 1 ? "second" : "third")};

    job_attach(&jobs[index], &host, &shape);
    for (uint32_t i = 0; i < 4; i++)
        (void)region_try(&jobs[index], i, segment_create("large", LARGE), 0, LARGE,
                         REGION_ACCESS_MASK);
}

static void test_regions_come_and_go(void **state)
{
    (void)state;
    worker_begin();
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (round % 4 == 3)
            fake_fail(device, FAKE_REG_MR, round % 3, 2, ENOMEM);
        for (unsigned i = 0; i < JOBS; i++)
            job_begin(i, round);
        host_turns(round % 5);
        (void)region_delete(jobs[0].session, JOB_HANDLE(round % 4), 0);
        job_detach(&jobs[1]); /* with what is being registered */
        host_turns(round % 3);
        host_until(host_stat(&host.worker.stats->regions) <= 2 * 4);
        job_detach(&jobs[0]);
        job_detach(&jobs[2]);
    }
    host_until(host_stat(&host.worker.stats->regions) == 0);
    host_stop(&host); /* what the thread still had is gone with it, or the device would abort */
}

/* The end of a worker, at any moment of a registration. */
static void test_worker_ends(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        worker_begin();
        job_begin(0, round);
        for (unsigned i = 0; i < round * 200; i++)
            __asm__ volatile("" ::: "memory");
        job_detach(&jobs[0]);
        if (round % 2 == 0)
            host_until(host_stat(&host.worker.stats->regions) == 0);
        host_stop(&host);
    }
    fake_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions_come_and_go),
        cmocka_unit_test(test_worker_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
