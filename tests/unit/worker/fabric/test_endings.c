/* What every fabric promises of the end of a transfer: once it is said, no byte lands any more. */
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/pair.h"

#define LARGE (8u * 1024u * 1024u)

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

static int teardown(void **state)
{
    (void)state;
    pair_end(&pair);
    return 0;
}

/* A transfer that is well under way: its target has bytes, and not all of them. */
static uint64_t under_way(enum sqe_op op)
{
    const struct sqe sqe = pair_move(op, 0, LARGE);
    const uint8_t *to = op == SQE_WRITE ? pair.there : pair.here;
    uint64_t ticket;

    memset(op == SQE_WRITE ? pair.here : pair.there, 'n', PAIR_MEMORY);
    memset(op == SQE_WRITE ? pair.there : pair.here, 'o', PAIR_MEMORY);
    ticket = job_submit(channel, &sqe, NULL);
    host_until(to[LARGE / 4] == 'n');
    assert_int_equal(to[LARGE - 1], 'o');
    assert_non_null(job_request(channel, ticket));
    return ticket;
}

/* The memory is the job's own again. */
static void expect_untouched(uint8_t *bytes)
{
    static uint8_t mine[PAIR_MEMORY];

    pair_fill(mine, sizeof(mine), 3);
    memcpy(bytes, mine, sizeof(mine));
    host_turns(200);
    assert_memory_equal(bytes, mine, sizeof(mine));
}

static void expect_works(void)
{
    const struct sqe sqe = pair_move(SQE_WRITE, 0, 100);

    assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
}

static void test_cancel(void **state)
{
    struct cqe cqe;
    uint64_t ticket;

    (void)state;
    for (enum sqe_op op = SQE_READ; op <= SQE_WRITE; op++) {
        ticket = under_way(op);
        job_cancel(channel, ticket);
        cqe = job_completion(channel, ticket);
        assert_int_equal(cqe.status, TS_ERR_CANCELLED);
        assert_true(cqe.bytes < LARGE);
        expect_untouched(op == SQE_WRITE ? pair.there : pair.here);
        expect_works();
    }
}

/* In the turn of its submission: the worker sees both at once. */
static void test_cancel_at_once(void **state)
{
    const struct sqe sqe = pair_move(SQE_WRITE, 0, LARGE);
    uint64_t ticket = job_submit(channel, &sqe, NULL);

    (void)state;
    memset(pair.here, 'n', PAIR_MEMORY);
    job_cancel(channel, ticket);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_CANCELLED);
    host_turns(20);
    assert_int_not_equal(pair.there[0], 'n');
    expect_works();
}

static void test_owner_takes_its_region_back(void **state)
{
    struct host *host = pair_owner_host(&pair);
    uint64_t ticket;

    (void)state;
    ticket = under_way(SQE_WRITE);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    host_until(host_answer(host, 42) != NULL);
    assert_int_equal(host_answer(host, 42)->status, TS_OK);
    expect_untouched(pair.there);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
}

static void test_user_takes_its_region_back(void **state)
{
    uint64_t ticket;

    (void)state;
    ticket = under_way(SQE_READ);
    assert_int_equal(region_delete(pair.user.session, JOB_HANDLE(0), 42), TS_OK);
    host_until(host_answer(&pair.a, 42) != NULL);
    expect_untouched(pair.here);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
}

static void test_owner_leaves(void **state)
{
    const struct job_shape again = {.handle = 3, .segment = "owner"};
    const struct sqe next = pair_move(SQE_WRITE, 0, 100);
    uint64_t ticket;

    (void)state;
    ticket = under_way(SQE_WRITE);
    job_detach(&pair.owner);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
    job_attach(&pair.owner, pair_owner_host(&pair), &again);
    pair.there = job_memory(&pair.owner, 0, PAIR_MEMORY, REGION_ACCESS_MASK);
    expect_untouched(pair.there); /* not mistaken for the one before it */
    ticket = job_submit(channel, &next, NULL);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
}

/* Nobody is left to be told; nothing of it may be left either. */
static void test_user_leaves(void **state)
{
    const struct job_shape again = {.handle = 3, .segment = "user"};

    (void)state;
    under_way(SQE_READ);
    job_detach(&pair.user);
    host_until(host_stat(&pair.a.worker.stats->regions) == (pair.fabric == PAIR_SELF));
    job_attach(&pair.user, &pair.a, &again);
    pair.here = job_memory(&pair.user, 0, PAIR_MEMORY, REGION_ACCESS_MASK);
    expect_untouched(pair.here);
}

static void test_lost_link(void **state)
{
    uint64_t ticket;

    (void)state;
    ticket = under_way(SQE_WRITE);
    link_on_lost(pair.link.b->link, TS_ERR_UNREACHABLE, "the test cuts it");
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    expect_untouched(pair.there);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    host_turns(1);
    assert_int_equal(host_answer(&pair.b, 42)->status, TS_OK); /* nobody holds it any more */
}

#define ON(fabric, test)                                             \
    {                                                                \
#test " over " #fabric, test, setup_##fabric, teardown, NULL \
    }
#define ON_ALL(test) ON(tcp, test), ON(local, test), ON(self, test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(test_cancel),
        ON_ALL(test_cancel_at_once),
        ON_ALL(test_owner_takes_its_region_back),
        ON_ALL(test_user_takes_its_region_back),
        ON_ALL(test_owner_leaves),
        ON_ALL(test_user_leaves),
        ON(tcp, test_lost_link),
        ON(local, test_lost_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
