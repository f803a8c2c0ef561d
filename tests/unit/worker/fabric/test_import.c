/* Questions for the peer's regions: who waits behind whose, and whose answer it is. */
#include "tests/harness/test.h"

#include <string.h>
#include <sys/mman.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "tests/harness/worker/pair.h"
#include "worker/fabric/local/local.h"
#include "worker/fabric/verbs/link.h"

#define SOME 100u
#define BASE UINT64_C(0x7f0000000000) /* of the region that is asked for by address */

static struct pair pair;
static struct job_channel *const channel = &pair.user.main;

static int setup_local(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_LOCAL);
    return 0;
}

static int setup_verbs(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_VERBS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_end(&pair);
    return 0;
}

static uint64_t submit(struct sqe sqe)
{
    return job_submit(channel, &sqe, NULL);
}

/* What the owner's worker must refuse. */
static struct sqe beyond(void)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, SOME);

    sqe.remote_offset = PAIR_MEMORY;
    return sqe;
}

/* Each of these tickets ends so, in whatever order. */
static void expect_ends(const uint64_t *tickets, const int *statuses, size_t count)
{
    struct cqe cqe;

    for (size_t seen = 0; seen < count; seen++) {
        size_t i = 0;

        host_until(job_complete(channel, &cqe));
        while (i < count && tickets[i] != cqe.ticket)
            i++;
        assert_true(i < count);
        assert_int_equal(cqe.status, statuses[i]);
    }
}

/* The first asks for what is not there; the answer is about that, not about the region. */
static void test_only_the_asker_was_wrong(void **state)
{
    const int statuses[] = {TS_ERR_INVALID, TS_OK, TS_ERR_INVALID, TS_OK};
    uint64_t tickets[4];

    (void)state;
    tickets[0] = submit(beyond());
    tickets[1] = submit(pair_move(SQE_WRITE, 0, SOME));
    tickets[2] = submit(beyond());
    tickets[3] = submit(pair_move(SQE_READ, 0, SOME));
    expect_ends(tickets, statuses, 4);
}

static void test_a_region_that_is_gone_is_gone_for_all(void **state)
{
    const int statuses[] = {TS_ERR_NOT_FOUND, TS_ERR_NOT_FOUND, TS_OK};
    struct sqe sqe = pair_move(SQE_WRITE, 0, SOME);
    uint64_t tickets[3];

    (void)state;
    sqe.remote_region = JOB_HANDLE(5);
    tickets[0] = submit(sqe);
    tickets[1] = submit(sqe);
    tickets[2] = submit(pair_move(SQE_WRITE, 0, SOME));
    expect_ends(tickets, statuses, 3);
}

/* Who asked has gone meanwhile: the answer, whatever it says, is nobody's. */
static void test_the_asker_leaves(void **state)
{
    const int statuses[] = {TS_ERR_CANCELLED, TS_OK};
    uint64_t tickets[2];

    (void)state;
    tickets[0] = submit(beyond());
    tickets[1] = submit(pair_move(SQE_WRITE, 0, SOME));
    host_turn(&pair.a); /* the owner has no turn */
    job_cancel(channel, tickets[0]);
    host_turn(&pair.a);
    expect_ends(tickets, statuses, 2);
}

static unsigned imports_made(void)
{
    struct link *link = pair.remote->endpoint->link;
    struct imports *imports = pair.fabric == PAIR_VERBS
                                  ? &list_entry(link, struct verbs_link, link)->imports
                                  : &list_entry(link, struct local_link, link)->imports;

    return imports->table.used;
}

/* Many at once into one region by address: one question, one record of it on either side. */
static void test_by_address_it_is_asked_for_once(void **state)
{
    enum { COUNT = 12 };
    struct proto_region ask = {
        .kind = REGION_KIND_SHARED, .access = REGION_ACCESS_MASK, .base = BASE, .length = 4096};
    int statuses[COUNT], memory = segment_create("by address", 4096);
    uint8_t *there = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memory, 0);
    uint64_t tickets[COUNT];

    (void)state;
    assert_ptr_not_equal(there, MAP_FAILED);
    job_region(&pair.owner, 1, &ask, memory);
    pair_fill(pair.here, PAIR_MEMORY, 3);
    for (uint64_t i = 0; i < COUNT; i++) {
        struct sqe sqe = pair_move(SQE_WRITE, i * SOME, SOME);

        sqe.flags = SQE_FLAG_REMOTE_ADDR;
        sqe.remote_region = 0;
        sqe.remote_offset += i == 5 ? 0 : BASE;
        statuses[i] = i == 5 ? TS_ERR_NOT_FOUND : TS_OK;
        tickets[i] = submit(sqe);
    }
    expect_ends(tickets, statuses, COUNT);
    assert_int_equal(imports_made(), 1);
    assert_memory_equal(there, pair.here, 5 * SOME);
    assert_memory_equal(there + 6 * SOME, pair.here + 6 * SOME, 6 * SOME);
    munmap(there, 4096);
}

#define LOCAL(test)                                            \
    {                                                          \
#test " over local", test, setup_local, teardown, NULL \
    }
#define VERBS(test)                                            \
    {                                                          \
#test " over verbs", test, setup_verbs, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOCAL(test_only_the_asker_was_wrong),
        VERBS(test_only_the_asker_was_wrong),
        LOCAL(test_a_region_that_is_gone_is_gone_for_all),
        VERBS(test_a_region_that_is_gone_is_gone_for_all),
        LOCAL(test_the_asker_leaves),
        VERBS(test_the_asker_leaves),
        LOCAL(test_by_address_it_is_asked_for_once),
        VERBS(test_by_address_it_is_asked_for_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
