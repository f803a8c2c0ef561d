/* Nothing is left behind: queue pairs, completion queues, registrations and descriptors of both
 * workers before and after jobs that come, work, fail and go, and connections that end. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/job.h"
#include "tests/harness/process.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define ROUNDS    3u
#define LINGER_MS 30000u /* an endpoint that nobody uses is kept for 10 s */

struct census {
    struct rdma_objects objects;
    unsigned fds;
};

static struct census census_take(const struct daemon *daemon)
{
    pid_t worker = status_worker_ready(daemon, 0);

    return (struct census){.objects = rdma_objects(worker), .fds = process_fd_count(worker)};
}

/* Jobs of all kinds of memory, transfers of all kinds, one refused; they leave in order. */
static void jobs_run(void)
{
    static const enum party_memory kinds[] = {PARTY_MEMORY_ALLOC, PARTY_MEMORY_MEMFD,
                                              PARTY_MEMORY_PRIVATE};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct tesup_request request;
        struct party_region extra;
        struct ends ends;

        ends_begin(&ends, MIB);
        party_region_create(&ends.right, kinds[i], MIB, READ_WRITE, &extra);
        request = ends_request(&ends, TESUP_OP_WRITE, MIB, "leak");
        request.remote_region = extra.handle;
        party_check(party_do(ends.left.channel, &request).status, party_memory_names[kinds[i]]);
        request.op = TESUP_OP_READ;
        party_check(party_do(ends.left.channel, &request).status, party_memory_names[kinds[i]]);
        request.remote_offset = 1;
        party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_INVALID);
        party_region_free(&ends.right, &extra);
        request.remote_offset = 0;
        party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_GONE);
        ends_end(&ends);
    }
}

static void victim_run(void *argument)
{
    _Atomic uint64_t *ready = argument;
    struct tesup_request request;
    struct ends ends;

    ends_begin(&ends, 4 * MIB);
    request = ends_request(&ends, TESUP_OP_WRITE, 4 * MIB, "victim");
    party_check(party_do(ends.left.channel, &request).status, "victim");
    for (;;) {
        party_submit(ends.left.channel, &request);
        atomic_publish(ready, 1);
        if (tesup_wait(ends.left.channel, 10) == TESUP_OK)
            (void)party_complete(ends.left.channel);
        (void)tesup_notify_release(ends.right.channel); /* when there is one */
    }
}

static void killed_job_run(void)
{
    _Atomic uint64_t *ready = job_board_create(sizeof(*ready));
    struct job job;

    job_start(&job, "victim", victim_run, ready);
    wait_word(ready, 1, "the victim works");
    job_kill(&job);
    job_board_free(ready, sizeof(*ready));
}

/* Until both workers have forgotten their jobs and each other. */
static void rest_wait(void)
{
    struct wait wait = wait_begin("both workers are at rest", LINGER_MS);

    while (status_sessions(rdma_site.left) > 0 || status_sessions(rdma_site.right) > 0 ||
           rdma_objects(status_worker_ready(rdma_site.left, 0)).qps > 0 ||
           rdma_objects(status_worker_ready(rdma_site.right, 0)).qps > 0)
        wait_step(&wait);
}

static void census_expect(const struct census *before, const struct census *after,
                          const char *where)
{
    if (memcmp(&before->objects, &after->objects, sizeof(before->objects)) != 0 ||
        before->fds != after->fds)
        fail_msg("%s: %u QPs, %u CQs, %u MRs, %u PDs, %u descriptors before; "
                 "%u, %u, %u, %u, %u after",
                 where, before->objects.qps, before->objects.cqs, before->objects.mrs,
                 before->objects.pds, before->fds, after->objects.qps, after->objects.cqs,
                 after->objects.mrs, after->objects.pds, after->fds);
}

static void census_expect_both(const struct census before[RDMA_SIDES])
{
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        struct census after = census_take(&rdma_daemon[side]);

        census_expect(&before[side], &after, rdma_daemon[side].name);
    }
}

static void at_rest_as_before(void **state)
{
    struct census before[RDMA_SIDES], after;

    (void)state;
    jobs_run(); /* makes what is made once: the first buffers */
    killed_job_run();
    rest_wait();
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        before[side] = census_take(&rdma_daemon[side]);
        assert_int_equal(before[side].objects.qps, 0);
        assert_int_equal(before[side].objects.cqs, 2);
        assert_int_equal(before[side].objects.pds, 1);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        jobs_run();
        killed_job_run();
    }
    rest_wait();
    census_expect_both(before);
    /* The one that stays has nothing left of those that were killed. */
    for (unsigned i = 0; i < ROUNDS; i++) {
        pid_t pid = status_worker_ready(rdma_site.right, 0);

        jobs_run();
        assert_int_equal(kill(pid, SIGKILL), 0);
        (void)status_worker_ready(rdma_site.right, pid);
    }
    rest_wait();
    after = census_take(rdma_site.left);
    census_expect(&before[RDMA_LEFT], &after, "left, after deaths of its peer");
}

/* A process that has ended has nothing, whatever it was doing. */
static void nothing_is_left_of_a_dead_worker(void **state)
{
    pid_t pid = status_worker_ready(rdma_site.right, 0);
    struct rdma_objects left;

    (void)state;
    jobs_run();
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)status_worker_ready(rdma_site.right, pid);
    left = rdma_objects(pid);
    assert_int_equal(left.qps + left.cqs + left.mrs + left.pds, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_rest_as_before),
        cmocka_unit_test(nothing_is_left_of_a_dead_worker),
    };

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
