/* Native notifications over real verbs: any bytes, in order, none twice, never before their data,
 * and one endpoint with its two queue pairs for all of it. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/job.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define SENDERS  6u
#define EACH     256u
#define ONESELF  128u
#define ENDPOINT 2u /* queue pairs: one for data, one for notifications */

static struct ends ends;

static int test_setup(void **state)
{
    (void)state;
    ends_begin(&ends, 2 * MIB);
    return 0;
}

static int test_teardown(void **state)
{
    (void)state;
    ends_end(&ends);
    return 0;
}

static void note_expect(struct tesup_channel *channel, const void *name, uint32_t name_len,
                        const void *msg, uint32_t msg_len)
{
    struct tesup_notification next = party_next(channel);

    assert_int_equal(next.kind, TESUP_NOTIFICATION_MESSAGE);
    party_expect(next.status, TESUP_OK);
    assert_int_equal(next.name_len, name_len);
    assert_int_equal(next.msg_len, msg_len);
    assert_memory_equal(next.name, name, name_len);
    assert_memory_equal(next.msg, msg, msg_len);
    party_check(tesup_notify_release(channel), "release");
}

/* ---- any bytes ---- */

static void bytes_expect(const uint8_t *bytes, uint32_t name_len, uint32_t msg_len)
{
    struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                    .remote = ends.there,
                                    .name = bytes,
                                    .name_len = name_len,
                                    .msg = bytes + name_len,
                                    .msg_len = msg_len};

    party_check(party_do(ends.left.channel, &request).status, "notification");
    note_expect(ends.right.channel, bytes, name_len, bytes + name_len, msg_len);
}

/* Lengths around a packet (4 KiB with 16 bytes of its own and a frame header of 64), and the
 * largest there is, which needs seventeen. */
static void any_bytes_of_any_length(void **state)
{
    static const uint32_t lengths[][2] = {{0, 0},
                                          {1, 0},
                                          {0, 1},
                                          {8, 56},
                                          {3, 1000},
                                          {16, 3984},
                                          {16, 3999},
                                          {16, 4000},
                                          {16, 4001},
                                          {16, 4064},
                                          {16, 4080},
                                          {255, 8192},
                                          {4096, 4096},
                                          {TESUP_NOTIFY_MAX, 0},
                                          {0, TESUP_NOTIFY_MAX},
                                          {28, TESUP_NOTIFY_MAX - 28}};
    static uint8_t bytes[TESUP_NOTIFY_MAX + 1];
    struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                    .remote = ends.there,
                                    .name = bytes,
                                    .name_len = 1,
                                    .msg = bytes,
                                    .msg_len = TESUP_NOTIFY_MAX};
    uint32_t accepted = 7;

    (void)state;
    for (int fill = 0; fill < 3; fill++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = fill == 0 ? 0x00 : fill == 1 ? 0xff : (uint8_t)(i * 7);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
            bytes_expect(bytes, lengths[i][0], lengths[i][1]);
    }
    party_expect(tesup_submit(ends.left.channel, &request, 1, NULL, &accepted), TESUP_ERR_TOO_LONG);
    assert_int_equal(accepted, 0);
    bytes_expect(bytes, 5, 6);
}

/* ---- bound to a transfer ---- */

/* Below and above what goes over the notification queue pair with its transfer. */
static const uint64_t block_lengths[] = {1, 4096, 64 * KIB, 64 * KIB + 1, MIB + 24};

static void write_is_there_before_its_note(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(block_lengths) / sizeof(block_lengths[0]); i++) {
        struct tesup_request request =
            ends_request(&ends, TESUP_OP_WRITE, block_lengths[i], "write");

        for (uint64_t seed = 0; seed < 20; seed++) {
            party_fill(ends.local.bytes, block_lengths[i], seed + i);
            party_submit(ends.left.channel, &request);
            note_expect(ends.right.channel, "write", 5, "", 0);
            party_verify(ends.remote.bytes, block_lengths[i], seed + i, "at the notification");
            party_check(party_complete(ends.left.channel).status, "WRITE");
        }
    }
}

/* The owner may use its memory again as soon as it sees the notification. */
static void read_is_over_before_its_note(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(block_lengths) / sizeof(block_lengths[0]); i++) {
        struct tesup_request request = ends_request(&ends, TESUP_OP_READ, block_lengths[i], "read");

        for (uint64_t seed = 0; seed < 20; seed++) {
            party_fill(ends.remote.bytes, block_lengths[i], seed + i);
            party_submit(ends.left.channel, &request);
            note_expect(ends.right.channel, "read", 4, "", 0);
            memset(ends.remote.bytes, 0xcc, block_lengths[i]);
            party_check(party_complete(ends.left.channel).status, "READ");
            party_verify(ends.local.bytes, block_lengths[i], seed + i, "what was read");
        }
    }
}

/* In order, each behind its own block, though sizes take different queue pairs. */
static void mixed_sizes_keep_their_order(void **state)
{
    struct tesup_request request;
    char name[16];

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        int length = snprintf(name, sizeof(name), "mixed %u", i);

        request = ends_request(&ends, i % 3 == 2 ? TESUP_OP_READ : TESUP_OP_WRITE,
                               block_lengths[i * 7 % 5], NULL);
        request.name = name;
        request.name_len = (uint32_t)length;
        if (i % 4 == 3)
            request.op = TESUP_OP_NOTIFY;
        party_submit(ends.left.channel, &request);
    }
    for (unsigned i = 0; i < 60; i++) {
        int length = snprintf(name, sizeof(name), "mixed %u", i);

        note_expect(ends.right.channel, name, (uint32_t)length, "", 0);
    }
    for (unsigned i = 0; i < 60; i++)
        party_check(party_complete(ends.left.channel).status, "one of many");
}

/* ---- one endpoint ---- */

static void one_endpoint_for_everything(void **state)
{
    struct tesup_request write = ends_request(&ends, TESUP_OP_WRITE, 4096, "write");
    struct tesup_request note = ends_request(&ends, TESUP_OP_NOTIFY, 0, "alone");
    struct tesup_request read = ends_request(&ends, TESUP_OP_READ, 4096, "read");
    struct tesup_request large = ends_request(&ends, TESUP_OP_WRITE, MIB, "large");
    struct tesup_request *const requests[] = {&write, &note, &read, &large};
    pid_t worker = status_worker_ready(rdma_site.left, 0);

    (void)state;
    for (int i = 0; i < 12; i++) {
        const struct tesup_request *request = requests[i % 4];

        party_check(party_do(ends.left.channel, request).status, request->name);
        note_expect(ends.right.channel, request->name, request->name_len, "", 0);
        assert_int_equal(rdma_objects(worker).qps, ENDPOINT);
    }
    assert_int_equal(rdma_objects(status_worker_ready(rdma_site.right, 0)).qps, ENDPOINT);
    assert_int_equal(status_worker_count(rdma_site.left, "endpoint_lost"), 0);
}

/* ---- many ---- */

struct crowd {
    char target[LAYOUT_NAME_MAX];
    _Atomic uint64_t index;
};

static void sender_run(void *argument)
{
    struct crowd *crowd = argument;
    uint32_t index = (uint32_t)atomic_fetch_add(&crowd->index, 1), done = 0;
    struct tesup_request request = {.op = TESUP_OP_NOTIFY};
    struct party party;

    party_attach(&party, rdma_site.left, NULL);
    request.remote = party_open(&party, crowd->target);
    for (uint32_t i = 0; i < EACH; i++) {
        uint32_t words[2] = {index, i};

        request.name = words;
        request.name_len = sizeof(words);
        party_submit(party.channel, &request);
    }
    for (; done < EACH; done++)
        party_check(party_complete(party.channel).status, "one of a crowd");
    party_detach(&party);
}

/* Each exactly once, those of one sender in order. */
static void crowd_arrives_once_and_in_order(void **state)
{
    struct crowd *crowd = job_board_create(sizeof(*crowd));
    uint32_t next[SENDERS] = {0};
    struct job job[SENDERS];

    (void)state;
    snprintf(crowd->target, sizeof(crowd->target), "%s", tesup_segment_name(ends.right.session));
    for (unsigned i = 0; i < SENDERS; i++)
        job_start(&job[i], "sender", sender_run, crowd);
    for (unsigned i = 0; i < SENDERS * EACH; i++) {
        struct tesup_notification note = party_next(ends.right.channel);
        uint32_t words[2];

        assert_int_equal(note.name_len, sizeof(words));
        memcpy(words, note.name, sizeof(words));
        assert_true(words[0] < SENDERS);
        assert_int_equal(words[1], next[words[0]]++);
        party_check(tesup_notify_release(ends.right.channel), "release");
    }
    party_expect_silence(ends.right.channel, 50);
    for (unsigned i = 0; i < SENDERS; i++)
        job_expect_success(&job[i], WAIT_MS);
    job_board_free(crowd, sizeof(*crowd));
}

static void numbers_submit(const struct party *party, tesup_remote_t remote, uint32_t count)
{
    struct tesup_request request = {.op = TESUP_OP_NOTIFY, .remote = remote};

    for (uint32_t i = 0; i < count; i++) {
        request.name = &i;
        request.name_len = sizeof(i);
        party_submit(party->channel, &request);
    }
}

static void numbers_expect(const struct party *party, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        note_expect(party->channel, &i, sizeof(i), "", 0);
    for (uint32_t i = 0; i < count; i++)
        party_check(party_complete(party->channel).status, "one of a row");
}

static void both_send_first(void **state)
{
    tesup_remote_t back = party_open(&ends.right, tesup_segment_name(ends.left.session));

    (void)state;
    numbers_submit(&ends.left, ends.there, EACH);
    numbers_submit(&ends.right, back, EACH);
    numbers_expect(&ends.left, EACH);
    numbers_expect(&ends.right, EACH);
}

static void to_oneself(void **state)
{
    tesup_remote_t self = party_open(&ends.left, tesup_segment_name(ends.left.session));

    (void)state;
    numbers_submit(&ends.left, self, ONESELF);
    numbers_expect(&ends.left, ONESELF);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(any_bytes_of_any_length),
        ON(write_is_there_before_its_note),
        ON(read_is_over_before_its_note),
        ON(mixed_sizes_keep_their_order),
        ON(one_endpoint_for_everything),
        ON(crowd_arrives_once_and_in_order),
        ON(both_send_first),
        ON(to_oneself),
    };

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
