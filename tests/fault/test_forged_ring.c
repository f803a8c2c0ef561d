/* A hostile job writes whatever it likes into its rings: its own session ends, with a counter, and
 * the other jobs of the same worker do not notice. */
#include "tests/harness/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "shm/err.h"
#include "shm/segment.h"
#include "shm/table.h"
#include "tests/fault/forged_fixture.h"
#include "tests/harness/forge.h"
#include "tests/harness/wait.h"

#define HANGUP_MS 5000u
#define MEMORY    65536u

static int group_setup(void **state)
{
    return forged_group_setup(state, &left, "--fabric tcp");
}

static void forge_expect_killed(struct forge *forge, uint64_t killed_before)
{
    forge_expect_hangup(forge->socket, HANGUP_MS);
    assert_int_equal(status_worker_count(&left, "sessions_killed"), killed_before + 1);
    forge_leave(forge);
    others_expect_unharmed();
}

static void nops_put(struct forge *forge, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct sqe nop = {.op = SQE_NOP, .slot = (uint16_t)i};

        forge_sqe(forge, &nop);
    }
}

/* Fills the completion ring and empties it: with the next one the worker must look at its head. */
static void completions_wear(struct forge *forge)
{
    nops_put(forge, forge->map.slots);
    forge_publish(forge);
    for (unsigned taken = 0; taken < forge->map.slots; taken++)
        (void)forge_complete(forge);
}

/* ---- counters ---- */

static void sq_tail_try(uint64_t tail)
{
    uint64_t killed = status_worker_count(&left, "sessions_killed");
    struct forge forge;

    forge_attach(&forge, &left, NULL);
    completions_wear(&forge);
    atomic_publish(&forge.map.header->sq_words.tail, tail);
    forge_wake(&forge);
    forge_expect_killed(&forge, killed);
}

static void test_sq_tail(void **state)
{
    (void)state;
    sq_tail_try(16 + 17); /* one more than the ring holds */
    sq_tail_try(UINT64_C(1) << 63);
    sq_tail_try(15); /* backwards */
    sq_tail_try(0);
}

static void cq_head_try(uint64_t head)
{
    uint64_t killed = status_worker_count(&left, "sessions_killed");
    struct forge forge;

    forge_attach(&forge, &left, NULL);
    completions_wear(&forge);
    atomic_publish(&forge.map.header->cq_words.head, head);
    nops_put(&forge, 1);
    forge_publish(&forge);
    forge_expect_killed(&forge, killed);
}

static void test_cq_head(void **state)
{
    (void)state;
    cq_head_try(17); /* read what was not written */
    cq_head_try(UINT64_C(1) << 40);
    cq_head_try((uint64_t)-1);
}

/* A job that reads no completion gets no more of them; nobody spins for it and nothing is lost. */
static void test_cq_never_read(void **state)
{
    struct forge forge;

    (void)state;
    forge_attach(&forge, &left, NULL);
    nops_put(&forge, forge.map.slots);
    forge_publish(&forge);
    wait_word(&forge.map.header->sq_words.head, forge.sq.tail, "the worker takes the requests");
    forge.sq.head = forge.sq.tail;
    nops_put(&forge, forge.map.slots);
    forge_publish(&forge);
    others_expect_unharmed();
    for (unsigned taken = 0; taken < 2 * forge.map.slots; taken++) {
        forge_wake(&forge);
        assert_int_equal(forge_complete(&forge).status, TS_OK);
    }
    forge_leave(&forge);
}

/* The worker looks at nrx when it delivers: the forger sends to itself until the ring is full. */
static void nrx_head_try(uint64_t head)
{
    uint64_t killed = status_worker_count(&left, "sessions_killed");
    struct wait wait = wait_begin("the worker looks at the mailbox", WAIT_MS);
    struct forge forge;
    uint32_t remote;

    forge_attach(&forge, &left, NULL);
    remote = forge_open(&forge, forge.name);
    atomic_publish(&forge.map.header->nrx_words.head, head);
    for (uint16_t slot = 0; status_worker_count(&left, "sessions_killed") == killed;) {
        struct sqe sqe = {
            .op = SQE_NOTIFY, .flags = SQE_FLAG_NOTIFY, .slot = slot, .remote = remote};
        uint64_t ready = 0;

        wait_step(&wait);
        if (slot < forge.map.slots) {
            sqe.notify_len = (uint32_t)ring_record_size(0, 8, 60000);
            sqe.notify_pos = forge_record(&forge, 8, 60000);
            forge_sqe(&forge, &sqe);
            forge_publish(&forge);
            slot++;
        } else if (ring_consumer_ready(&forge.cq, &ready) == TS_OK && ready == 16) {
            fail_msg("a forged mailbox was filled");
        }
    }
    forge_expect_killed(&forge, killed);
}

static void test_nrx_head(void **state)
{
    (void)state;
    nrx_head_try(UINT64_C(1) << 40);
    nrx_head_try((uint64_t)-8);
}

/* ---- descriptors that only a broken library writes ---- */

static void sqe_expect_killed(const struct sqe *sqe)
{
    uint64_t killed = status_worker_count(&left, "sessions_killed");
    struct forge forge;

    forge_attach(&forge, &left, NULL);
    nops_put(&forge, 3); /* the batch is killed in its middle */
    forge_sqe(&forge, sqe);
    forge_publish(&forge);
    forge_expect_killed(&forge, killed);
}

static void test_descriptor(void **state)
{
    const struct sqe bad[] = {
        {.op = SQE_OP_COUNT, .slot = 5},
        {.op = 255, .slot = 5},
        {.op = SQE_WRITE, .flags = SQE_FLAG_MASK + 1, .slot = 5}, /* the first that is free */
        {.op = SQE_WRITE, .flags = 0xff, .slot = 5},
        {.op = SQE_NOP, .slot = 16},
        {.op = SQE_NOP, .slot = UINT16_MAX},
        {.op = SQE_CANCEL, .slot = UINT16_MAX},
        {.op = SQE_NOP, .slot = 1}, /* in use: taken by the batch before */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        sqe_expect_killed(&bad[i]);
}

/* ---- notification records ---- */

enum record_lie { LIE_POSITION, LIE_BACKWARDS, LIE_LENGTH, LIE_SIZE, LIE_NAME, LIE_KIND, LIES };

static void record_try(enum record_lie lie)
{
    uint64_t killed = status_worker_count(&left, "sessions_killed");
    struct notify_record *record;
    struct sqe sqe = {.op = SQE_NOTIFY, .flags = SQE_FLAG_NOTIFY};
    struct forge forge;

    forge_attach(&forge, &left, NULL);
    sqe.remote = forge_open(&forge, forge.name);
    sqe.notify_pos = forge_record(&forge, 8, 24);
    sqe.notify_len = 64;
    record = (void *)((uint8_t *)channel_bytes(&forge.map, &forge.map.ntx) + sqe.notify_pos);
    switch (lie) {
    case LIE_POSITION:
        sqe.notify_pos += UINT64_C(1) << 32;
        break;
    case LIE_BACKWARDS:
        sqe.notify_pos -= 64;
        break;
    case LIE_LENGTH:
        sqe.notify_len = 128;
        break;
    case LIE_SIZE:
        record->size = UINT32_MAX & ~7u;
        break;
    case LIE_NAME:
        record->name_len = UINT32_MAX - 20;
        break;
    default:
        record->kind = NOTIFY_KIND_EVENT;
        break;
    }
    forge_sqe(&forge, &sqe);
    forge_publish(&forge);
    forge_expect_killed(&forge, killed);
}

static void test_records(void **state)
{
    (void)state;
    for (enum record_lie lie = 0; lie < LIES; lie++)
        record_try(lie);
}

/* ---- handles and ranges: an application's mistake, answered with an error ---- */

static int32_t sqe_status(struct forge *forge, const struct sqe *sqe)
{
    forge_sqe(forge, sqe);
    forge_publish(forge);
    return forge_complete(forge).status;
}

static void test_handles_and_ranges(void **state)
{
    uint64_t killed = status_worker_count(&left, "sessions_killed");
    int fd = segment_create("forged", MEMORY);
    struct forge forge, other;
    uint32_t region, stranger, gone;
    struct wire_message message;

    (void)state;
    forge_attach(&forge, &left, NULL);
    forge_attach(&other, &left, NULL);
    uint32_t remote = forge_open(&forge, load->target_name);
    assert_int_equal(forge_region(&forge, fd, MEMORY, 0, &region), TS_OK);
    assert_int_equal(forge_region(&forge, fd, MEMORY, 0, &gone), TS_OK);
    for (int i = 0; i < 3; i++) /* a handle that only the other job has */
        assert_int_equal(forge_region(&other, fd, MEMORY, 3, &stranger), TS_OK);
    wire_message_init(&message, WIRE_REGION_DEL);
    message.body.handle.handle = gone;
    assert_int_equal(forge_ask(&forge, &message), TS_OK);

    const struct sqe good = {.op = SQE_WRITE,
                             .length = 8,
                             .local_region = region,
                             .remote_region = load->target_region,
                             /* a place that the load does not use */
                             .remote_offset = (uint64_t)LOAD_SOURCES * LOAD_SLOTS * LOAD_SLOT - 8,
                             .remote = remote};
    const struct {
        uint64_t local_offset, remote_offset, length;
        uint32_t local_region, remote_region, remote;
        int32_t status;
    } bad[] = {
        {0, 0, 8, stranger, good.remote_region, remote, TS_ERR_NOT_FOUND},
        {0, 0, 8, gone, good.remote_region, remote, TS_ERR_GONE},
        {0, 0, 8, 0, good.remote_region, remote, TS_ERR_NOT_FOUND},
        {0, 0, 8, UINT32_MAX, good.remote_region, remote, TS_ERR_NOT_FOUND},
        {0, 0, 8, region, 0, remote, TS_ERR_NOT_FOUND},
        {0, 0, 8, region, UINT32_MAX, remote, TS_ERR_NOT_FOUND},
        {0, 0, 8, region, good.remote_region, 0, TS_ERR_NOT_FOUND},
        {0, 0, 8, region, good.remote_region, UINT32_MAX, TS_ERR_NOT_FOUND},
        {MEMORY - 7, 0, 8, region, good.remote_region, remote, TS_ERR_INVALID},
        {UINT64_MAX, 0, 8, region, good.remote_region, remote, TS_ERR_INVALID},
        {UINT64_MAX - 7, 0, 16, region, good.remote_region, remote, TS_ERR_INVALID},
        {0, 0, UINT64_MAX, region, good.remote_region, remote, TS_ERR_INVALID},
        {0, UINT64_MAX, 8, region, good.remote_region, remote, TS_ERR_INVALID},
        {0, UINT64_MAX - 7, 8, region, good.remote_region, remote, TS_ERR_INVALID},
        {0, UINT64_C(1) << 62, 8, region, good.remote_region, remote, TS_ERR_INVALID},
    };

    assert_int_equal(sqe_status(&forge, &good), TS_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (unsigned op = SQE_READ; op <= SQE_WRITE; op++) {
            const struct sqe sqe = {.op = (uint8_t)op,
                                    .length = bad[i].length,
                                    .local_offset = bad[i].local_offset,
                                    .remote_offset = bad[i].remote_offset,
                                    .local_region = bad[i].local_region,
                                    .remote_region = bad[i].remote_region,
                                    .remote = bad[i].remote};
            int32_t status = sqe_status(&forge, &sqe);

            if (status != bad[i].status)
                fail_msg("case %zu: '%s' instead of '%s'", i, err_name(status),
                         err_name(bad[i].status));
        }
    }
    assert_int_equal(sqe_status(&forge, &good), TS_OK);
    assert_int_equal(status_worker_count(&left, "sessions_killed"), killed);
    forge_leave(&forge);
    forge_leave(&other);
    close(fd);
    others_expect_unharmed();
}

/* ---- everything at once, while the worker reads ---- */

static _Atomic uint64_t scribble_end;

static void *scribble(void *argument)
{
    struct forge *forge = argument;
    uint8_t *bytes = (uint8_t *)forge->map.header;
    uint64_t word = 88172645463325252;

    while (atomic_peek(&scribble_end) == 0) {
        uint64_t at;

        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        at = word % (forge->map.size / 8) * 8;
        if (word % 3 == 0) /* the counters and bells more often than the rest */
            at = offsetof(struct channel_header, worker_bell) + word % (13 * LAYOUT_LINE / 8) * 8;
        memcpy(bytes + at, &word, sizeof(word));
        if (word % 64 == 0)
            forge_wake(forge);
    }
    return NULL;
}

static void test_scribble(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        uint64_t killed = status_worker_count(&left, "sessions_killed");
        struct forge forge;
        pthread_t thread;

        forge_attach(&forge, &left, NULL);
        (void)forge_open(&forge, forge.name);
        nops_put(&forge, 8);
        forge_publish(&forge);
        atomic_set(&scribble_end, 0);
        assert_int_equal(pthread_create(&thread, NULL, scribble, &forge), 0);
        forge_expect_hangup(forge.socket, HANGUP_MS);
        atomic_set(&scribble_end, 1);
        pthread_join(thread, NULL);
        assert_int_equal(status_worker_count(&left, "sessions_killed"), killed + 1);
        forge_leave(&forge);
    }
    others_expect_unharmed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sq_tail),
        cmocka_unit_test(test_cq_head),
        cmocka_unit_test(test_cq_never_read),
        cmocka_unit_test(test_nrx_head),
        cmocka_unit_test(test_descriptor),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_handles_and_ranges),
        cmocka_unit_test(test_scribble),
    };

    return cmocka_run_group_tests_name("forged rings", tests, group_setup, group_teardown);
}
