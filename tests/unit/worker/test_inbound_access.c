/* What a peer may do with our regions: each request is checked anew, for handle, range and right.
 */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "tests/harness/worker/stage.h"

#define BASE      UINT64_C(0x700000000000) /* where region 4 says that it lies in its job */
#define PEER_WIRE PEER_HANDLE(21u)

enum { REGION_ALL, REGION_READABLE, REGION_WRITABLE, REGION_CLOSED, REGION_ADDRESSED, REGION_OLD };

static struct stage stage;
static struct stage_sender sender;

static int setup(void **state)
{
    const struct proto_region ask = {
        .kind = REGION_KIND_SHARED, .access = REGION_ACCESS_READ, .base = BASE, .length = 4096};
    struct job *job = &stage.job;

    (void)state;
    stage_begin(&stage);
    memset(job_memory(job, REGION_READABLE, 4096, REGION_ACCESS_READ), 'r', 4096);
    memset(job_memory(job, REGION_WRITABLE, 4096, REGION_ACCESS_WRITE), 'w', 4096);
    memset(job_memory(job, REGION_CLOSED, 4096, 0), 'c', 4096);
    job_region(job, REGION_ADDRESSED, &ask, segment_create("addressed", 4096));
    job_memory(job, REGION_OLD, 4096, REGION_ACCESS_MASK);
    assert_int_equal(region_delete(job->session, JOB_HANDLE(REGION_OLD), 0), TS_OK);
    sender = stage_sender(&stage, 1, JOB_UID);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

struct
try {
    const char *what;
    uint32_t region;
    uint64_t offset, length;
    int read, write; /* what either gets */
};

static const struct try tries[] = {
    {"both rights", JOB_HANDLE(REGION_ALL), 0, 16, TS_OK, TS_OK},
    {"the last bytes", JOB_HANDLE(REGION_ALL), STAGE_MEMORY - 16, 16, TS_OK, TS_OK},
    {"one byte beyond", JOB_HANDLE(REGION_ALL), STAGE_MEMORY - 15, 16, TS_ERR_INVALID,
     TS_ERR_INVALID},
    {"behind the end", JOB_HANDLE(REGION_ALL), STAGE_MEMORY, 1, TS_ERR_INVALID, TS_ERR_INVALID},
    {"offset + length wraps around", JOB_HANDLE(REGION_ALL), UINT64_MAX - 7, 16, TS_ERR_INVALID,
     TS_ERR_INVALID},
    {"only readable", JOB_HANDLE(REGION_READABLE), 0, 16, TS_OK, TS_ERR_DENIED},
    {"only writable", JOB_HANDLE(REGION_WRITABLE), 0, 16, TS_ERR_DENIED, TS_OK},
    {"for the job alone", JOB_HANDLE(REGION_CLOSED), 0, 16, TS_ERR_DENIED, TS_ERR_DENIED},
    {"one that is gone", JOB_HANDLE(REGION_OLD), 0, 16, TS_ERR_GONE, TS_ERR_GONE},
    {"one that never was", JOB_HANDLE(9), 0, 16, TS_ERR_NOT_FOUND, TS_ERR_NOT_FOUND},
    {"a generation to come", JOB_HANDLE(0) * 2, 0, 16, TS_ERR_NOT_FOUND, TS_ERR_NOT_FOUND},
    {"no handle", 0, 0, 16, TS_ERR_NOT_FOUND, TS_ERR_NOT_FOUND},
};

static void expect_status(const struct try *try, const char *op, int status)
{
    if (stage.peer.frame.status != status)
        fail_msg("%s of %s: %s", op, try->what, err_name(stage.peer.frame.status));
    assert_int_equal(stage.peer.frame.request, PEER_WIRE);
}

static void test_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        const struct try *try = &tries[i];
        const struct frame read = {.type = FRAME_READ,
                                   .open = sender.open,
                                   .request = PEER_WIRE,
                                   .region = try->region,
                                   .offset = try->offset,
                                   .value = try->length};

        peer_send(&stage.peer, &read, NULL);
        host_until(peer_take(&stage.peer));
        assert_int_equal(stage.peer.frame.type, try->read == TS_OK ? FRAME_DATA : FRAME_RESULT);
        expect_status(try, "READ", try->read);
    }
    assert_int_equal(job_region_of(&stage.job, REGION_ALL)->references, 0);
}

static void test_write(void **state)
{
    const uint8_t payload[16] = "0123456789abcde";

    (void)state;
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        const struct try *try = &tries[i];
        const struct frame write = {.type = FRAME_WRITE,
                                    .flags = FRAME_FLAG_LAST,
                                    .open = sender.open,
                                    .request = PEER_WIRE,
                                    .region = try->region,
                                    .offset = try->offset,
                                    .length = (uint32_t)try->length};

        peer_send(&stage.peer, &write, payload);
        peer_expect(&stage.peer, FRAME_RESULT);
        expect_status(try, "WRITE", try->write);
        assert_int_equal(stage.peer.frame.value, try->write == TS_OK ? try->length : 0);
    }
    assert_memory_equal(stage.bytes + STAGE_MEMORY - 16, payload, 16);
    assert_memory_equal(stage.job.memory[REGION_WRITABLE].bytes, payload, 16);
    assert_int_equal(stage.job.memory[REGION_READABLE].bytes[0], 'r');
    assert_int_equal(stage.job.memory[REGION_CLOSED].bytes[0], 'c');
    assert_int_equal(job_region_of(&stage.job, REGION_ALL)->references, 0);
}

/* By address: the owner's place of the memory, with the same checks. */
static void test_by_address(void **state)
{
    static const struct try places[] = {
        {"the first bytes", 0, BASE, 16, TS_OK, TS_ERR_DENIED},
        {"the last bytes", 0, BASE + 4080, 16, TS_OK, TS_ERR_DENIED},
        {"one byte before", 0, BASE - 1, 16, TS_ERR_NOT_FOUND, 0},
        {"one byte beyond", 0, BASE + 4081, 16, TS_ERR_NOT_FOUND, 0},
        {"address + length wraps around", 0, UINT64_MAX, 16, TS_ERR_NOT_FOUND, 0},
        {"address zero", 0, 0, 16, TS_ERR_NOT_FOUND, 0}, /* regions without a base are not there */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const struct try *try = &places[i];
        struct frame read = {.type = FRAME_READ,
                             .flags = FRAME_FLAG_ADDR,
                             .open = sender.open,
                             .request = PEER_WIRE,
                             .offset = try->offset,
                             .value = try->length};

        peer_send(&stage.peer, &read, NULL);
        host_until(peer_take(&stage.peer));
        expect_status(try, "READ", try->read);
        if (try->read != TS_OK)
            continue;
        read.type = FRAME_WRITE;
        read.flags |= FRAME_FLAG_LAST;
        read.length = 16;
        peer_send(&stage.peer, &read, "0123456789abcdef");
        peer_expect(&stage.peer, FRAME_RESULT);
        expect_status(try, "WRITE", try->write);
    }
}

/* The right to a segment is the right to that segment: another job's region has the same handle. */
static void test_handles_belong_to_the_segment(void **state)
{
    const struct job_shape shape = {.handle = 2, .segment = "other", .uid = JOB_UID + 1};
    const struct frame read = {.type = FRAME_READ,
                               .open = sender.open,
                               .request = PEER_WIRE,
                               .region = JOB_HANDLE(7),
                               .value = 16};
    struct job other;

    (void)state;
    job_attach(&other, &stage.host, &shape);
    job_memory(&other, 7, 4096, REGION_ACCESS_MASK);
    peer_send(&stage.peer, &read, NULL);
    assert_int_equal(peer_expect(&stage.peer, FRAME_RESULT)->status, TS_ERR_NOT_FOUND);
    job_detach(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_by_address, setup, teardown),
        cmocka_unit_test_setup_teardown(test_handles_belong_to_the_segment, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
