/* Copies between two mappings: one slice of each a turn; what fits one slice is done at once.  Seen
 * through the link of a worker to itself, which is little more than a queue of copies. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/pair.h"

static struct pair pair;
static struct job_channel *const channel = &pair.user.main;

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

static uint64_t submit(uint64_t offset, uint64_t length)
{
    const struct sqe sqe = pair_move(SQE_WRITE, offset, length);

    return job_submit(channel, &sqe, NULL);
}

static uint64_t moved(uint64_t ticket)
{
    assert_non_null(job_request(channel, ticket));
    return job_request(channel, ticket)->transfer.moved;
}

static void test_a_slice_is_done_in_its_first_turn(void **state)
{
    struct cqe cqe;

    (void)state;
    submit(0, HOST_SLICE);
    host_turn(&pair.a);
    assert_true(job_complete(channel, &cqe));
    assert_int_equal(cqe.status, TS_OK);
    assert_int_equal(cqe.bytes, HOST_SLICE);
}

static void test_more_takes_more_turns(void **state)
{
    uint64_t ticket = submit(0, 2 * HOST_SLICE + 1);
    struct cqe cqe;

    (void)state;
    pair_fill(pair.here, 3 * HOST_SLICE, 1);
    host_turn(&pair.a);
    assert_int_equal(moved(ticket), HOST_SLICE);
    assert_memory_equal(pair.there, pair.here, HOST_SLICE);
    assert_int_equal(pair.there[HOST_SLICE + 1], 0); /* not yet */
    host_turn(&pair.a);
    assert_int_equal(moved(ticket), 2 * HOST_SLICE);
    host_turn(&pair.a);
    assert_true(job_complete(channel, &cqe));
    assert_int_equal(cqe.bytes, 2 * HOST_SLICE + 1);
    assert_memory_equal(pair.there, pair.here, 2 * HOST_SLICE + 1);
}

static void test_each_has_its_turn(void **state)
{
    uint64_t tickets[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        tickets[i] = submit(i * 10 * HOST_SLICE, 10 * HOST_SLICE);
    for (unsigned turn = 1; turn < 10; turn++) {
        host_turn(&pair.a);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(moved(tickets[i]), turn * HOST_SLICE);
    }
    for (unsigned i = 0; i < 3; i++)
        job_completion(channel, tickets[i]);
}

/* Small ones do not overtake within the queue, and do not wait for the end of the large one. */
static void test_behind_a_large_one(void **state)
{
    uint64_t large = submit(0, 100 * HOST_SLICE), small;
    struct cqe cqe;

    (void)state;
    host_turn(&pair.a);
    small = submit(200 * HOST_SLICE, 10);
    host_turn(&pair.a);
    assert_true(job_complete(channel, &cqe));
    assert_int_equal(cqe.ticket, small);
    assert_int_equal(moved(large), 2 * HOST_SLICE);
    job_completion(channel, large);
}

static void test_cancel_says_what_was_moved(void **state)
{
    uint64_t ticket = submit(0, 10 * HOST_SLICE);
    struct cqe cqe;

    (void)state;
    memset(pair.here, 'x', 10 * HOST_SLICE);
    host_turn(&pair.a);
    host_turn(&pair.a);
    job_cancel(channel, ticket);
    cqe = job_completion(channel, ticket);
    assert_int_equal(cqe.status, TS_ERR_CANCELLED);
    assert_int_equal(cqe.bytes, 2 * HOST_SLICE);
    assert_int_equal(pair.there[2 * HOST_SLICE - 1], 'x');
    assert_int_equal(pair.there[2 * HOST_SLICE], 0);
}

/* Several copies touch the region that goes, and others do not. */
static void test_revoke_ends_the_right_ones(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, 10 * HOST_SLICE);
    uint64_t first, second, third;

    (void)state;
    job_memory(&pair.owner, 1, 10 * HOST_SLICE, REGION_ACCESS_MASK);
    first = job_submit(channel, &sqe, NULL);
    sqe.remote_region = JOB_HANDLE(1);
    second = job_submit(channel, &sqe, NULL);
    sqe.remote_region = JOB_HANDLE(0);
    third = job_submit(channel, &sqe, NULL);
    host_turn(&pair.a);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    host_turn(&pair.a);
    assert_int_equal(host_answer(&pair.a, 42)->status, TS_OK);
    assert_int_equal(job_completion(channel, first).status, TS_ERR_GONE);
    assert_int_equal(job_completion(channel, third).status, TS_ERR_GONE);
    assert_int_equal(job_completion(channel, second).status, TS_OK);
    assert_int_equal(job_region_of(&pair.owner, 1)->references, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_slice_is_done_in_its_first_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_takes_more_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_has_its_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_behind_a_large_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_says_what_was_moved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_revoke_ends_the_right_ones, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
