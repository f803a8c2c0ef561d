/* The link between two workers of one host: memory is mapped once, taken back when its owner wants
 * it, and a full ring loses no frame and no order. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/pair.h"
#include "worker/fabric/local/local.h"

static struct pair pair;
static struct job_channel *const channel = &pair.user.main;

static int setup(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_LOCAL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_end(&pair);
    return 0;
}

static struct local_link *user_link(void)
{
    return local_of(pair.link.a->link);
}

static int move(const struct sqe *sqe)
{
    return job_completion(channel, job_submit(channel, sqe, NULL)).status;
}

/* The first transfer asks for the memory, those at the same time wait with it, later ones use it.
 */
static void test_memory_is_mapped_once(void **state)
{
    const struct sqe sqe = pair_move(SQE_WRITE, 0, 100);
    uint64_t tickets[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        tickets[i] = job_submit(channel, &sqe, NULL);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(job_completion(channel, tickets[i]).status, TS_OK);
    assert_int_equal(user_link()->imports.table.used, 1);
    assert_int_equal(move(&sqe), TS_OK);
    assert_int_equal(user_link()->imports.table.used, 1);
    assert_int_equal(job_region_of(&pair.owner, 0)->references, 1); /* the export */
}

/* What the owner's worker was asked once is not asked again: the rights travel with the memory. */
static void test_rights(void **state)
{
    struct sqe sqe = pair_move(SQE_READ, 0, 8);

    (void)state;
    memset(job_memory(&pair.owner, 1, 4096, REGION_ACCESS_READ), 'r', 4096);
    job_memory(&pair.owner, 2, 4096, REGION_ACCESS_WRITE);
    job_memory(&pair.owner, 3, 4096, 0);
    sqe.remote_region = JOB_HANDLE(1);
    assert_int_equal(move(&sqe), TS_OK);
    sqe.op = SQE_WRITE;
    assert_int_equal(move(&sqe), TS_ERR_DENIED);
    sqe.remote_region = JOB_HANDLE(2);
    assert_int_equal(move(&sqe), TS_OK);
    sqe.op = SQE_READ;
    assert_int_equal(move(&sqe), TS_ERR_DENIED);
    sqe.remote_region = JOB_HANDLE(3);
    assert_int_equal(move(&sqe), TS_ERR_DENIED);
    sqe.remote_region = JOB_HANDLE(1);
    sqe.remote_offset = 4089;
    assert_int_equal(move(&sqe), TS_ERR_INVALID);
    sqe.remote_offset = UINT64_MAX - 16;
    assert_int_equal(move(&sqe), TS_ERR_INVALID);
    assert_int_equal(pair.owner.memory[1].bytes[0], 'r');
}

static void test_cancel_while_it_waits_for_the_memory(void **state)
{
    const struct sqe sqe = pair_move(SQE_WRITE, 0, 100);
    uint64_t first, second;

    (void)state;
    memset(pair.here, 'x', 100);
    first = job_submit(channel, &sqe, NULL);
    second = job_submit(channel, &sqe, NULL);
    host_turn(&pair.a); /* the owner's worker has no turn: its answer is not there */
    assert_int_equal(job_request(channel, first)->state, REQUEST_MOVING);
    job_cancel(channel, first);
    host_turn(&pair.a);
    assert_int_equal(job_completion(channel, first).status, TS_ERR_CANCELLED);
    assert_int_equal(job_completion(channel, second).status, TS_OK);
}

/* The owner's answer "let go" comes when the mapping is gone, also of memory that nobody uses. */
static void test_revoke_of_idle_memory(void **state)
{
    const struct sqe sqe = pair_move(SQE_WRITE, 0, 100);

    (void)state;
    assert_int_equal(move(&sqe), TS_OK);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    host_turn(&pair.b);
    assert_null(host_answer(&pair.b, 42)); /* the peer still has it */
    host_until(host_answer(&pair.b, 42) != NULL);
    assert_int_equal(user_link()->imports.table.used, 0);
    assert_int_equal(move(&sqe), TS_ERR_GONE);
}

/* The region's end crosses the question for it. */
static void test_region_ends_while_it_is_asked_for(void **state)
{
    const struct sqe sqe = pair_move(SQE_WRITE, 0, 100);
    uint64_t ticket = job_submit(channel, &sqe, NULL);

    (void)state;
    host_turn(&pair.a);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
    assert_int_equal(host_answer(&pair.b, 42)->status, TS_OK);
    assert_int_equal(user_link()->imports.table.used, 0);
}

/* More notifications than the ring between the workers holds, while the peer has no turn: they wait
 * in order, and one that would still fit does not overtake. */
static void test_full_ring(void **state)
{
    const struct sqe sqe = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};
    struct job_mail mail;
    uint8_t msg[HOST_NOTIFY_MAX] = {0};
    struct cqe cqe;
    uint32_t sent = 0;

    (void)state;
    while (list_empty(&user_link()->queue) || sent % 10 != 0) {
        bool full = !list_empty(&user_link()->queue);
        const struct job_note note = {.msg = msg, .msg_len = full ? sizeof(sent) : sizeof(msg)};

        memcpy(msg, &sent, sizeof(sent));
        job_submit(channel, &sqe, &note);
        host_turn(&pair.a);
        assert_true(job_complete(channel, &cqe));
        assert_int_equal(cqe.status, TS_OK);
        sent++;
    }
    assert_true(sent >= 10);
    for (uint32_t i = 0; i < sent; i++) {
        host_until(job_mail(&pair.owner, &mail));
        assert_memory_equal(mail.msg, &i, sizeof(i));
    }
    assert_true(list_empty(&user_link()->queue));
}

/* What the peer wrote before it went is still taken. */
static void test_last_words(void **state)
{
    const struct sqe sqe = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};
    const struct job_note note = {.msg = "farewell", .msg_len = 8};
    struct job_mail mail;

    (void)state;
    job_submit(channel, &sqe, &note);
    host_turn(&pair.a);
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "the test cuts it");
    host_turn(&pair.a);
    (void)reactor_wait(&pair.b.worker.reactor, 0); /* the end is seen before the ring is */
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(mail.msg, "farewell", 8);
    host_until(host_stat(&pair.b.worker.stats->endpoint_lost) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_is_mapped_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_while_it_waits_for_the_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_revoke_of_idle_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_region_ends_while_it_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_words, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
