/* Requests that cannot begin: each is completed at once with its reason, and nothing is sent. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"

#define READ_ONLY_REGION 1u
#define DELETED_REGION   2u

static struct stage stage;

static int setup(void **state)
{
    (void)state;
    stage_begin(&stage);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

static void regions_make(void)
{
    const struct proto_region ask = {
        .kind = REGION_KIND_SHARED, .access = REGION_ACCESS_READ, .length = 4096};
    char path[64];
    int fd = job_region_of(&stage.job, 0)->memory.fd;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    job_region(&stage.job, READ_ONLY_REGION, &ask, open(path, O_RDONLY | O_CLOEXEC));
    job_memory(&stage.job, DELETED_REGION, 4096, REGION_ACCESS_MASK);
    assert_int_equal(region_delete(stage.job.session, JOB_HANDLE(DELETED_REGION), 0), TS_OK);
}

static const struct {
    const char *what;
    struct sqe sqe;
    int status;
} refusals[] = {
    {"a segment that was never opened",
     {.op = SQE_WRITE, .remote = JOB_HANDLE(7)},
     TS_ERR_NOT_FOUND},
    {"no segment at all", {.op = SQE_WRITE}, TS_ERR_NOT_FOUND},
    {"a region that was never there",
     {.op = SQE_WRITE, .remote = JOB_HANDLE(0), .local_region = JOB_HANDLE(7), .length = 1},
     TS_ERR_NOT_FOUND},
    {"a region that is gone",
     {.op = SQE_WRITE,
      .remote = JOB_HANDLE(0),
      .local_region = JOB_HANDLE(DELETED_REGION),
      .length = 1},
     TS_ERR_GONE},
    {"one byte too many",
     {.op = SQE_WRITE,
      .remote = JOB_HANDLE(0),
      .local_region = JOB_HANDLE(0),
      .local_offset = 1,
      .length = STAGE_MEMORY},
     TS_ERR_INVALID},
    {"an offset that wraps around",
     {.op = SQE_WRITE,
      .remote = JOB_HANDLE(0),
      .local_region = JOB_HANDLE(0),
      .local_offset = UINT64_MAX - 3,
      .length = 8},
     TS_ERR_INVALID},
    {"a remote range that wraps around",
     {.op = SQE_WRITE,
      .remote = JOB_HANDLE(0),
      .local_region = JOB_HANDLE(0),
      .remote_offset = UINT64_MAX - 3,
      .length = 8},
     TS_ERR_INVALID},
    {"a READ into memory that cannot be written",
     {.op = SQE_READ,
      .remote = JOB_HANDLE(0),
      .local_region = JOB_HANDLE(READ_ONLY_REGION),
      .length = 8},
     TS_ERR_DENIED},
    {"a notification without one", {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)}, TS_ERR_INVALID},
};

static void test_refused(void **state)
{
    (void)state;
    regions_make();
    stage_open(&stage, 0, "there", 1000);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        uint64_t ticket = job_submit(&stage.job.main, &refusals[i].sqe, NULL);
        struct cqe cqe = job_completion(&stage.job.main, ticket);

        if (cqe.status != refusals[i].status)
            fail_msg("%s: %s", refusals[i].what, err_name(cqe.status));
        assert_int_equal(cqe.bytes, 0);
    }
    assert_true(peer_is_quiet(&stage.peer));
    assert_int_equal(job_region_of(&stage.job, 0)->references, 0);
}

/* The largest ranges that are still right. */
static void test_not_refused(void **state)
{
    const struct sqe whole = {.op = SQE_WRITE,
                              .remote = JOB_HANDLE(0),
                              .local_region = JOB_HANDLE(0),
                              .length = STAGE_MEMORY,
                              .remote_offset = UINT64_MAX - STAGE_MEMORY};
    const struct sqe readable = {.op = SQE_WRITE,
                                 .remote = JOB_HANDLE(0),
                                 .local_region = JOB_HANDLE(READ_ONLY_REGION),
                                 .length = 4096};

    (void)state;
    regions_make();
    stage_open(&stage, 0, "there", 0);
    job_submit(&stage.job.main, &whole, NULL);
    for (unsigned slice = 0; slice < STAGE_MEMORY / HOST_SLICE; slice++)
        peer_expect(&stage.peer, FRAME_WRITE);
    assert_int_equal(stage.peer.frame.flags, FRAME_FLAG_LAST);
    assert_int_equal(stage.peer.frame.offset, UINT64_MAX - HOST_SLICE);
    job_submit(&stage.job.main, &readable, NULL);
    peer_expect(&stage.peer, FRAME_WRITE);
}

static void test_nothing_to_move(void **state)
{
    const struct sqe nop = {.op = SQE_NOP};
    struct sqe empty = {.op = SQE_WRITE, .remote = JOB_HANDLE(0), .local_region = JOB_HANDLE(0)};
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    ticket = job_submit(&stage.job.main, &nop, NULL);
    assert_int_equal(job_completion(&stage.job.main, ticket).status, TS_OK);
    ticket = job_submit(&stage.job.main, &empty, NULL);
    assert_int_equal(job_completion(&stage.job.main, ticket).status, TS_OK);
    empty.op = SQE_READ;
    ticket = job_submit(&stage.job.main, &empty, NULL);
    assert_int_equal(job_completion(&stage.job.main, ticket).status, TS_OK);
    assert_true(peer_is_quiet(&stage.peer));
}

/* The segment is gone: its reason comes back for everything that is asked of it. */
static void test_gone(void **state)
{
    const struct sqe sqe = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};
    const struct job_note note = {.msg = "hello", .msg_len = 5};
    struct remote *remote = stage_open(&stage, 0, "there", 1000);
    const struct frame gone = {.type = FRAME_GONE, .request = remote->wire};
    uint64_t ticket;

    (void)state;
    peer_send(&stage.peer, &gone, NULL);
    ticket = job_submit(&stage.job.main, &sqe, &note);
    assert_int_equal(job_completion(&stage.job.main, ticket).status, TS_ERR_GONE);
    assert_true(peer_is_quiet(&stage.peer));
}

/* Its region goes while the request waits: it must not come alive later and read freed memory. */
static void test_region_goes_first(void **state)
{
    const struct sqe sqe = {.op = SQE_WRITE,
                            .remote = JOB_HANDLE(0),
                            .local_region = JOB_HANDLE(DELETED_REGION),
                            .length = 8};
    const struct remote *remote = stage_ask(&stage, 0, "there");
    uint64_t ticket;

    (void)state;
    job_memory(&stage.job, DELETED_REGION, 4096, REGION_ACCESS_MASK);
    ticket = job_submit(&stage.job.main, &sqe, NULL);
    host_turns(1);
    assert_int_equal(region_delete(stage.job.session, JOB_HANDLE(DELETED_REGION), 55), TS_OK);
    assert_int_equal(job_completion(&stage.job.main, ticket).status, TS_ERR_GONE);
    assert_int_equal(host_answer(&stage.host, 55)->status, TS_OK);
    stage_allow(&stage, remote, 0);
    assert_true(peer_is_quiet(&stage.peer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_to_move, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_region_goes_first, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
