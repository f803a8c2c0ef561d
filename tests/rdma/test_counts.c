/* What a WRITE with its notification costs, counted: two work requests behind one doorbell and one
 * signalled completion at the sender, one completion at the receiver; besides them only the packets
 * that give credit back, a few per hundred. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/rdma/rdma_fixture.h"

#define OPERATIONS 200u
#define WINDOW     64u /* packets that a peer may send ahead: half of it comes back as one packet */
#define CREDITS    (2u * OPERATIONS / WINDOW + 2u)

struct counts {
    uint64_t requests, doorbells, sent, received, errors, stale;
};

static struct counts counts_take(const struct counters_segment *counters)
{
    const struct counters_worker_stats *stats = &counters->worker[0].stats;

    return (struct counts){.requests = atomic_peek(&stats->rdma_work_requests),
                           .doorbells = atomic_peek(&stats->rdma_doorbells),
                           .sent = atomic_peek(&stats->rdma_sent),
                           .received = atomic_peek(&stats->rdma_received),
                           .errors = atomic_peek(&stats->rdma_errors),
                           .stale = atomic_peek(&stats->stale_completions)};
}

static void between_expect(uint64_t before, uint64_t after, uint64_t least, uint64_t extra,
                           const char *what)
{
    uint64_t grown = after - before;

    if (grown < least || grown > least + extra)
        fail_msg("%s: %llu for %u operations, expected %llu and at most %llu more", what,
                 (unsigned long long)grown, OPERATIONS, (unsigned long long)least,
                 (unsigned long long)extra);
}

static void operation_do(struct ends *ends, const struct tesup_request *request)
{
    struct tesup_notification note;

    party_submit(ends->left.channel, request);
    note = party_next(ends->right.channel);
    assert_true(party_name_is(&note, "counted"));
    party_check(tesup_notify_release(ends->right.channel), "release");
    party_check(party_complete(ends->left.channel).status, "operation");
}

static void counts_expect(uint32_t op, uint64_t length)
{
    struct counters_segment *left = endpoints_open(rdma_site.left);
    struct counters_segment *right = endpoints_open(rdma_site.right);
    struct counts out[2], in[2];
    struct tesup_request request;
    struct ends ends;

    ends_begin(&ends, MIB);
    request = ends_request(&ends, op, length, "counted");
    operation_do(&ends, &request); /* connects, asks for the keys */
    out[0] = counts_take(left);
    in[0] = counts_take(right);
    for (unsigned i = 0; i < OPERATIONS; i++)
        operation_do(&ends, &request);
    out[1] = counts_take(left);
    in[1] = counts_take(right);
    between_expect(out[0].requests, out[1].requests, 2 * OPERATIONS, CREDITS, "work requests");
    between_expect(out[0].doorbells, out[1].doorbells, OPERATIONS, CREDITS, "doorbells");
    between_expect(out[0].sent, out[1].sent, OPERATIONS, CREDITS, "completions of the sender");
    between_expect(in[0].received, in[1].received, OPERATIONS, CREDITS, "packets that came");
    between_expect(in[0].requests, in[1].requests, 0, CREDITS, "work requests of the receiver");
    between_expect(out[0].received, out[1].received, 0, CREDITS, "packets that came back");
    assert_int_equal(out[1].errors, 0);
    assert_int_equal(in[1].errors, 0);
    assert_int_equal(out[1].stale, 0);
    assert_int_equal(in[1].stale, 0);
    ends_end(&ends);
    counters_unmap(left);
    counters_unmap(right);
}

static void write_and_note(void **state)
{
    (void)state;
    counts_expect(TESUP_OP_WRITE, 4096);
    counts_expect(TESUP_OP_WRITE, 64 * KIB);
}

static void read_and_note(void **state)
{
    (void)state;
    counts_expect(TESUP_OP_READ, 4096);
}

/* A hundred in one call: fewer doorbells than operations. */
static void batch_shares_doorbells(void **state)
{
    struct counters_segment *left = endpoints_open(rdma_site.left);
    struct tesup_request request[100];
    struct counts out[2];
    uint32_t accepted = 0;
    struct ends ends;

    (void)state;
    ends_begin(&ends, MIB);
    for (unsigned i = 0; i < 100; i++)
        request[i] = ends_request(&ends, TESUP_OP_WRITE, 64, "counted");
    operation_do(&ends, &request[0]);
    out[0] = counts_take(left);
    party_check(tesup_submit(ends.left.channel, request, 100, NULL, &accepted), "batch");
    assert_int_equal(accepted, 100);
    for (unsigned i = 0; i < 100; i++) {
        struct tesup_notification note = party_next(ends.right.channel);

        assert_true(party_name_is(&note, "counted"));
        party_check(tesup_notify_release(ends.right.channel), "release");
        party_check(party_complete(ends.left.channel).status, "of the batch");
    }
    out[1] = counts_take(left);
    assert_true(out[1].requests - out[0].requests <= 200 + CREDITS);
    assert_true(out[1].doorbells - out[0].doorbells < 50);
    assert_true(out[1].sent - out[0].sent <= out[1].doorbells - out[0].doorbells + 1);
    ends_end(&ends);
    counters_unmap(left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_and_note),
        cmocka_unit_test(read_and_note),
        cmocka_unit_test(batch_shares_doorbells),
    };

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
