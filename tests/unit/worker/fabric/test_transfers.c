/* What every fabric promises of a transfer: the bytes, all of them and no others, and a
 * notification that comes after them. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/pair.h"

static struct pair pair;
static struct job_channel *const channel = &pair.user.main;

static int setup_tcp(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_TCP);
    return 0;
}

static int setup_local(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_LOCAL);
    return 0;
}

static int setup_self(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_SELF);
    return 0;
}

static int setup_verbs(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_VERBS);
    pair.device_a->pace = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_end(&pair);
    return 0;
}

static struct cqe move(const struct sqe *sqe)
{
    return job_completion(channel, job_submit(channel, sqe, NULL));
}

/* Sizes around a slice, and up to thousands of them. */
static void test_sizes(void **state)
{
    static const uint64_t sizes[] = {
        1, 7, HOST_SLICE - 1, HOST_SLICE, HOST_SLICE + 1, 65536 + 3, 1024 * 1024, 8 * 1024 * 1024};
    struct sqe sqe;
    struct cqe cqe;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (enum sqe_op op = SQE_READ; op <= SQE_WRITE; op++) {
            uint8_t *from = op == SQE_WRITE ? pair.here : pair.there;
            uint8_t *to = op == SQE_WRITE ? pair.there : pair.here;
            uint64_t size = sizes[i];

            pair_fill(from, PAIR_MEMORY, (uint8_t)(op + i));
            memset(to, 0xee, PAIR_MEMORY);
            sqe = pair_move(op, 17, size);
            cqe = move(&sqe);
            assert_int_equal(cqe.status, TS_OK);
            assert_int_equal(cqe.bytes, size);
            assert_memory_equal(to + 17, from + 17, size);
            assert_int_equal(to[16], 0xee);
            assert_int_equal(to[17 + size], 0xee);
        }
}

static void test_many_at_once(void **state)
{
    uint64_t tickets[12], offset = 0;
    bool done[12] = {false};
    struct cqe cqe;

    (void)state;
    pair_fill(pair.here, PAIR_MEMORY, 1);
    for (unsigned i = 0; i < 12; i++) {
        struct sqe sqe = pair_move(SQE_WRITE, offset, 1000 + 7919 * i);

        offset += sqe.length;
        tickets[i] = job_submit(channel, &sqe, NULL);
    }
    for (unsigned i = 0; i < 12; i++) {
        host_until(job_complete(channel, &cqe));
        assert_int_equal(cqe.status, TS_OK);
        done[cqe.ticket - tickets[0]] = true;
    }
    for (unsigned i = 0; i < 12; i++)
        assert_true(done[i]);
    assert_memory_equal(pair.there, pair.here, offset);
    assert_int_equal(pair.there[offset], 0);
}

/* At the very turn in which the notification arrives the last byte must be there. */
static void test_notification_behind_the_data(void **state)
{
    const struct sqe sqe = pair_move(SQE_WRITE, 0, 1024 * 1024);
    const struct job_note note = {.name = "block", .name_len = 5, .msg = "17", .msg_len = 2};
    struct job_mail mail;
    uint64_t ticket;

    (void)state;
    for (uint8_t round = 1; round < 4; round++) {
        pair_fill(pair.here, sqe.length, round);
        ticket = job_submit(channel, &sqe, &note);
        host_until(job_mail(&pair.owner, &mail));
        assert_memory_equal(pair.there, pair.here, sqe.length);
        assert_int_equal(mail.record.status, TS_OK);
        assert_int_equal(mail.record.bytes, sqe.length);
        assert_memory_equal(mail.name, "block", 5);
        assert_memory_equal(mail.msg, "17", 2);
        assert_string_equal(mail.from, "127.0.0.1:1/user");
        assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    }
}

static void test_notification_of_a_read(void **state)
{
    const struct sqe sqe = pair_move(SQE_READ, 0, 100000);
    const struct job_note note = {.msg = "free", .msg_len = 4};
    struct job_mail mail;
    uint64_t ticket;

    (void)state;
    pair_fill(pair.there, sqe.length, 9);
    ticket = job_submit(channel, &sqe, &note);
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(pair.here, pair.there, sqe.length);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
}

/* A failed WRITE announces nothing; with NOTIFY_ALWAYS it announces that. */
static void test_notification_of_a_failed_write(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, PAIR_MEMORY - 8, 8);
    const struct job_note silent = {.msg = "silent", .msg_len = 6};
    const struct job_note always = {.msg = "always", .msg_len = 6};
    struct job_mail mail;
    uint64_t ticket;

    (void)state;
    sqe.remote_offset++;
    ticket = job_submit(channel, &sqe, &silent);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_INVALID);
    sqe.flags = SQE_FLAG_NOTIFY_ALWAYS;
    ticket = job_submit(channel, &sqe, &always);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_INVALID);
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(mail.msg, "always", 6);
    assert_int_equal(mail.record.status, TS_ERR_INVALID);
    assert_int_equal(mail.record.bytes, 0);
}

/* A small transfer must not wait for the end of a large one that was there before. */
static void test_small_beside_large(void **state)
{
    const struct sqe large = pair_move(SQE_WRITE, 0, 8 * 1024 * 1024);
    struct sqe small = pair_move(SQE_WRITE, PAIR_MEMORY - 8, 8);
    uint64_t first, second;
    struct cqe cqe;

    (void)state;
    for (small.op = SQE_READ; small.op <= SQE_WRITE; small.op++) {
        first = job_submit(channel, &large, NULL);
        host_until(job_request(channel, first) != NULL &&
                   job_request(channel, first)->transfer.moved > 0);
        second = job_submit(channel, &small, NULL);
        cqe = job_completion(channel, second);
        assert_int_equal(cqe.status, TS_OK);
        assert_true(job_request(channel, first)->transfer.moved < large.length / 2);
        assert_int_equal(job_completion(channel, first).status, TS_OK);
    }
}

#define ON(fabric, test)                                             \
    {                                                                \
#test " over " #fabric, test, setup_##fabric, teardown, NULL \
    }
#define ON_THREE(test) ON(tcp, test), ON(local, test), ON(self, test)
#define ON_ALL(test)   ON_THREE(test), ON(verbs, test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(test_sizes),
        ON_ALL(test_many_at_once),
        ON_ALL(test_notification_behind_the_data),
        ON_ALL(test_notification_of_a_read),
        ON_ALL(test_notification_of_a_failed_write),
        ON_THREE(test_small_beside_large), /* verbs: test_move.c */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
