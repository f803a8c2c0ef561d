/* Registration: once per file, range and rights; large ones by a thread; and refusals that say what
 * to do. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/segment.h"
#include "tests/unit/worker/fabric/verbs/region_fixture.h"
#include "worker/fabric/verbs/mr.h"

#define SMALL 4096u
#define LARGE (4u * 1024u * 1024u + 4096u)

static struct host host;
static struct job job;
static struct fake_device *device;
static unsigned pools; /* regions that are no job's */

static int setup_job(void **state)
{
    const struct job_shape shape = {.handle = 1, .segment = "job"};
    struct proto_worker_config config;

    (void)state;
    fake_reset();
    device = fake_device_add("fake0");
    config = host_config_verbs("a", "fake0");
    host_start(&host, &config);
    job_attach(&job, &host, &shape);
    pools = device->mrs;
    return 0;
}

static int teardown_job(void **state)
{
    (void)state;
    fake_gate(false);
    job_detach(&job);
    host_until(device->mrs == pools);
    assert_int_equal(host_stat(&host.worker.stats->pinned_bytes), 0);
    host_stop(&host);
    return 0;
}

static int region(uint32_t index, int file, uint64_t offset, uint64_t length, uint32_t access)
{
    return region_try(&job, index, fcntl(file, F_DUPFD_CLOEXEC, 0), offset, length, access);
}

static void test_once_per_file(void **state)
{
    int file = segment_create("shared", 4 * SMALL);

    (void)state;
    assert_int_equal(region(0, file, 0, SMALL, REGION_ACCESS_MASK), TS_OK);
    assert_int_equal(device->mrs, pools + 1);
    assert_int_equal(region(1, file, 0, SMALL, REGION_ACCESS_MASK), TS_OK); /* the same */
    assert_int_equal(device->mrs, pools + 1);
    assert_int_equal(host_stat(&host.worker.stats->pinned_bytes), SMALL);
    assert_int_equal(region(2, file, 0, SMALL, REGION_ACCESS_READ), TS_OK); /* other rights */
    assert_int_equal(region(3, file, SMALL, SMALL, REGION_ACCESS_MASK), TS_OK);
    assert_int_equal(region(4, file, 0, 2 * SMALL, REGION_ACCESS_MASK), TS_OK);
    assert_int_equal(device->mrs, pools + 4);
    assert_int_equal(host_stat(&host.worker.stats->pinned_bytes), 5 * SMALL);
    assert_int_equal(region_delete(job.session, JOB_HANDLE(0), 1), TS_OK);
    assert_int_equal(device->mrs, pools + 4); /* the second one still uses it */
    assert_int_equal(region_delete(job.session, JOB_HANDLE(1), 2), TS_OK);
    assert_int_equal(device->mrs, pools + 3);
    close(file);
}

static void test_rights(void **state)
{
    int file = segment_create("rights", SMALL);
    uint32_t lkey;
    uint64_t address, left;

    (void)state;
    assert_int_equal(region(0, file, 0, SMALL, 0), TS_OK);
    assert_int_equal(verbs_mr_access(job_region_of(&job, 0)) & IBV_ACCESS_REMOTE_READ, 0);
    assert_int_equal(region(1, file, 0, SMALL, REGION_ACCESS_READ), TS_OK);
    assert_int_equal(verbs_mr_access(job_region_of(&job, 1)) & IBV_ACCESS_REMOTE_WRITE, 0);
    assert_int_equal(verbs_mr_local(job_region_of(&job, 1), 100, &lkey, &address, &left), TS_OK);
    assert_int_equal(lkey, job_region_of(&job, 1)->mr->lkeys[0]);
    assert_int_equal(address, job_region_of(&job, 1)->mr->base + 100);
    assert_int_equal(left, VERBS_PIECE - 100);
    close(file);
}

/* Two pieces: each has its key, and no slice goes over the edge. The file is sparse and the
 * stand-in pins nothing. */
static void test_pieces(void **state)
{
    int file = memfd_create("two pieces", MFD_CLOEXEC);
    uint32_t lkey;
    uint64_t address, left;
    struct region *made;

    (void)state;
    assert_int_equal(ftruncate(file, (off_t)(VERBS_PIECE + SMALL)), 0);
    assert_int_equal(region(0, file, 0, VERBS_PIECE + SMALL, REGION_ACCESS_MASK), TS_OK);
    host_until(!job_region_of(&job, 0)->registering);
    made = job_region_of(&job, 0);
    assert_int_equal(made->mr->count, 2);
    assert_int_equal(device->mrs, pools + 2);
    assert_int_equal(verbs_mr_local(made, VERBS_PIECE - 1, &lkey, &address, &left), TS_OK);
    assert_int_equal(lkey, made->mr->lkeys[0]);
    assert_int_equal(left, 1);
    assert_int_equal(verbs_mr_local(made, VERBS_PIECE, &lkey, &address, &left), TS_OK);
    assert_int_equal(lkey, made->mr->lkeys[1]);
    assert_int_equal(host_stat(&host.worker.stats->pinned_bytes), VERBS_PIECE + SMALL);
    close(file);
}

/* The second piece is refused: the first one does not stay. */
static void test_second_piece_is_refused(void **state)
{
    int file = memfd_create("two pieces", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(ftruncate(file, (off_t)(VERBS_PIECE + SMALL)), 0);
    fake_fail(device, FAKE_REG_MR, 1, 1, ENOMEM);
    assert_int_equal(region(0, file, 0, VERBS_PIECE + SMALL, REGION_ACCESS_MASK), TS_OK);
    host_until(job_region_of(&job, 0) == NULL);
    assert_int_equal(device->mrs, pools);
    close(file);
}

static void test_too_many_pieces(void **state)
{
    int file = memfd_create("more than can be exported", MFD_CLOEXEC);
    const uint64_t length = (FRAME_KEYS_MAX + 1) * VERBS_PIECE;

    (void)state;
    assert_int_equal(ftruncate(file, (off_t)length), 0);
    assert_int_equal(region(0, file, 0, length, REGION_ACCESS_MASK), TS_ERR_NO_MEMORY);
    assert_int_equal(device->mrs, pools);
    close(file);
}

static void expect_advice(const char *text)
{
    assert_non_null(strstr(text, "fake0 port 1 cannot register"));
    assert_non_null(strstr(text, "Locked memory of the daemon is limited to"));
    assert_non_null(strstr(text, "LimitMEMLOCK=infinity in its unit, or ulimit -l; the device "
                                 "allows 4096 regions"));
}

static void test_small_one_is_refused(void **state)
{
    int file = segment_create("refused", SMALL);

    (void)state;
    fake_fail(device, FAKE_REG_MR, 0, 1, ENOMEM);
    assert_int_equal(region(0, file, 0, SMALL, REGION_ACCESS_MASK), TS_ERR_NO_MEMORY);
    expect_advice(region_text);
    assert_int_equal(region(0, file, 0, SMALL, REGION_ACCESS_MASK), TS_OK); /* now there is room */
    close(file);
}

/* The job waits for its answer, and gets the sentence with it. */
static void test_large_one_is_refused(void **state)
{
    int file = segment_create("refused", LARGE);

    (void)state;
    fake_fail(device, FAKE_REG_MR, 0, 1, ENOMEM);
    assert_int_equal(region(0, file, 0, LARGE, REGION_ACCESS_MASK), TS_OK);
    assert_true(region_answer_later(job.session, JOB_HANDLE(0), 77));
    host_until(host_answer(&host, 77) != NULL);
    assert_int_equal(host_answer(&host, 77)->status, TS_ERR_NO_MEMORY);
    expect_advice(host_answer(&host, 77)->text);
    assert_null(job_region_of(&job, 0));
    close(file);
}

/* ---- while it is being registered ---- */

static int large_begin(uint32_t index)
{
    int file = segment_create("large", LARGE);

    fake_gate(true);
    assert_int_equal(region(index, file, 0, LARGE, REGION_ACCESS_MASK), TS_OK);
    assert_true(job_region_of(&job, index)->registering);
    host_until(fake_gate_waiting() == 1);
    return file;
}

static void test_loop_goes_on(void **state)
{
    uint32_t lkey;
    uint64_t address, left;
    int file;

    (void)state;
    file = large_begin(0);
    host_turns(10);
    assert_int_equal(verbs_mr_local(job_region_of(&job, 0), 0, &lkey, &address, &left), TS_AGAIN);
    assert_true(region_answer_later(job.session, JOB_HANDLE(0), 77));
    host_turns(2);
    assert_null(host_answer(&host, 77));
    fake_gate(false);
    host_until(host_answer(&host, 77) != NULL);
    assert_int_equal(host_answer(&host, 77)->status, TS_OK);
    assert_int_equal(host_stat(&host.worker.stats->pinned_bytes), LARGE);
    close(file);
}

/* Two regions of one file wait for one registration. */
static void test_two_wait_for_one(void **state)
{
    int file;

    (void)state;
    file = large_begin(0);
    assert_int_equal(region(1, file, 0, LARGE, REGION_ACCESS_MASK), TS_OK);
    assert_true(job_region_of(&job, 1)->registering);
    fake_gate(false);
    host_until(!job_region_of(&job, 0)->registering);
    assert_false(job_region_of(&job, 1)->registering);
    assert_int_equal(device->mrs, pools + 1);
    close(file);
}

static void test_both_are_refused(void **state)
{
    int file;

    (void)state;
    file = large_begin(0);
    assert_int_equal(region(1, file, 0, LARGE, REGION_ACCESS_MASK), TS_OK);
    assert_true(region_answer_later(job.session, JOB_HANDLE(0), 77));
    assert_true(region_answer_later(job.session, JOB_HANDLE(1), 78));
    fake_fail(device, FAKE_REG_MR, 0, 1, ENOMEM);
    fake_gate(false);
    host_until(host_answer(&host, 77) != NULL && host_answer(&host, 78) != NULL);
    assert_int_equal(host_answer(&host, 77)->status, TS_ERR_NO_MEMORY);
    assert_int_equal(host_answer(&host, 78)->status, TS_ERR_NO_MEMORY);
    host_turns(2);
    assert_int_equal(host_stat(&host.worker.stats->regions), 0);
    close(file);
}

static void test_deleted_meanwhile(void **state)
{
    int file;

    (void)state;
    file = large_begin(0);
    assert_int_equal(region_delete(job.session, JOB_HANDLE(0), 42), TS_OK);
    fake_gate(false);
    host_until(host_answer(&host, 42) != NULL);
    host_until(device->mrs == pools);
    close(file);
}

static void test_job_leaves_meanwhile(void **state)
{
    const struct job_shape again = {.handle = 2, .segment = "again"};
    int file;

    (void)state;
    file = large_begin(0);
    job_detach(&job);
    fake_gate(false);
    host_until(host_stat(&host.worker.stats->regions) == 0);
    host_until(device->mrs == pools);
    job_attach(&job, &host, &again);
    close(file);
}

/* The worker leaves with registrations under way and more behind it. */
static void test_worker_leaves_meanwhile(void **state)
{
    struct proto_worker_config config = host_config_verbs("a", "fake0");
    const struct job_shape again = {.handle = 2, .segment = "again"};
    int file, more = segment_create("more", LARGE);

    (void)state;
    file = large_begin(0);
    assert_int_equal(region(1, more, 0, LARGE, REGION_ACCESS_MASK), TS_OK);
    job_detach(&job);
    fake_gate(false);
    host_stop(&host);
    fake_reset(); /* aborts if anything of it were left */
    device = fake_device_add("fake0");
    host_start(&host, &config);
    job_attach(&job, &host, &again);
    close(file);
    close(more);
}

/* The transfer that came too early waits for the local registration. */
static void test_transfer_waits(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, 8);
    uint64_t ticket;
    struct cqe cqe;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 8), TS_OK);
    fake_gate(true);
    assert_int_equal(
        region_try(&pair.user, 1, segment_create("large", LARGE), 0, LARGE, REGION_ACCESS_MASK),
        TS_OK);
    sqe.local_region = JOB_HANDLE(1);
    ticket = job_submit(channel, &sqe, NULL);
    host_turns(10);
    assert_false(job_complete(channel, &cqe));
    assert_int_equal(job_request(channel, ticket)->transfer.started, 0);
    fake_gate(false);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
}

#define TEST_JOB(name) cmocka_unit_test_setup_teardown(name, setup_job, teardown_job)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_JOB(test_once_per_file),
        TEST_JOB(test_rights),
        TEST_JOB(test_pieces),
        TEST_JOB(test_second_piece_is_refused),
        TEST_JOB(test_too_many_pieces),
        TEST_JOB(test_small_one_is_refused),
        TEST_JOB(test_large_one_is_refused),
        TEST_JOB(test_loop_goes_on),
        TEST_JOB(test_two_wait_for_one),
        TEST_JOB(test_both_are_refused),
        TEST_JOB(test_deleted_meanwhile),
        TEST_JOB(test_job_leaves_meanwhile),
        TEST_JOB(test_worker_leaves_meanwhile),
        TEST(test_transfer_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
