/* The link of a worker to itself: frames in order, and each in a later turn than the one that sent
 * it; the same rights as for a stranger. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/pair.h"

static struct pair pair;
static struct job_channel *const channel = &pair.user.main;
static const struct sqe notify = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};

static int setup(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_SELF);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_end(&pair);
    return 0;
}

static void test_frames_arrive_in_order(void **state)
{
    struct job_mail mail;
    struct cqe cqe;
    char text[8];

    (void)state;
    for (int i = 0; i < 200; i++) { /* more than the mailbox holds */
        const struct job_note note = {.msg = text,
                                      .msg_len = (uint32_t)snprintf(text, sizeof(text), "%d", i)};

        job_submit(channel, &notify, &note);
        host_until(job_complete(channel, &cqe));
        assert_int_equal(cqe.status, TS_OK);
    }
    assert_true(host_stat(&pair.a.worker.stats->notify_parked) > 0);
    for (int i = 0; i < 200; i++) {
        host_until(job_mail(&pair.owner, &mail));
        mail.msg[mail.record.msg_len] = '\0';
        snprintf(text, sizeof(text), "%d", i);
        assert_string_equal((char *)mail.msg, text);
    }
}

/* A segment that is not shared is not opened because its owner happens to be next door. */
static void test_rights(void **state)
{
    const struct job_shape shape = {.handle = 3, .segment = "stranger", .uid = JOB_UID + 1};
    struct job stranger;

    (void)state;
    job_attach(&stranger, &pair.a, &shape);
    job_open(&stranger, 0, pair.a.worker.self, "owner", 200);
    host_until(host_answer(&pair.a, 200) != NULL);
    assert_int_equal(host_answer(&pair.a, 200)->status, TS_ERR_DENIED);
    job_open(&stranger, 1, pair.a.worker.self, "nobody", 201);
    host_until(host_answer(&pair.a, 201) != NULL);
    assert_int_equal(host_answer(&pair.a, 201)->status, TS_ERR_NOT_FOUND);
    job_detach(&stranger);
}

static void test_access(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, 8);
    uint64_t ticket;

    (void)state;
    memset(job_memory(&pair.owner, 1, 4096, REGION_ACCESS_READ), 'r', 4096);
    sqe.remote_region = JOB_HANDLE(1);
    ticket = job_submit(channel, &sqe, NULL);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_DENIED);
    assert_int_equal(pair.owner.memory[1].bytes[0], 'r');
    sqe.op = SQE_READ;
    ticket = job_submit(channel, &sqe, NULL);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    assert_int_equal(pair.here[0], 'r');
    sqe.remote_offset = 4089;
    ticket = job_submit(channel, &sqe, NULL);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_INVALID);
    sqe.remote_region = JOB_HANDLE(7);
    ticket = job_submit(channel, &sqe, NULL);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_NOT_FOUND);
}

static void test_a_job_and_its_own_segment(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, 100);
    const struct job_note note = {.msg = "to myself", .msg_len = 9};
    struct job_mail mail;
    uint64_t ticket;

    (void)state;
    job_open(&pair.owner, 5, pair.a.worker.self, "owner", 200);
    job_memory(&pair.owner, 1, 4096, REGION_ACCESS_MASK);
    pair_fill(pair.there, 100, 5);
    sqe.remote = JOB_HANDLE(5);
    sqe.remote_region = JOB_HANDLE(1);
    ticket = job_submit(&pair.owner.main, &sqe, &note);
    assert_int_equal(job_completion(&pair.owner.main, ticket).status, TS_OK);
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(mail.msg, "to myself", 9);
    assert_memory_equal(pair.owner.memory[1].bytes, pair.there, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frames_arrive_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_access, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_job_and_its_own_segment, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
