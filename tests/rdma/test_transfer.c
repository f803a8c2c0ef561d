/* READ and WRITE between two RDMA devices: every length, wherever it begins, alone and in batches,
 * by handle and by address; every byte is looked at, those around it, too. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/rdma/rdma_fixture.h"

#define REGION  (64 * MIB + 64)
#define MARGIN  32u
#define BATCH   64u
#define REGIONS 8u

#define PATIENCE_MS 120000

static struct ends ends;

static int test_setup(void **state)
{
    (void)state;
    ends_begin(&ends, REGION);
    return 0;
}

static int test_teardown(void **state)
{
    (void)state;
    ends_end(&ends);
    return 0;
}

/* Large ones take their time where the CPU is emulated, and computes every packet's checksum. */
static void moved_expect(struct tesup_request *request, const char *what)
{
    struct tesup_completion done;

    request->deadline_ms = PATIENCE_MS;
    party_submit(ends.left.channel, request);
    while (tesup_poll(ends.left.channel, &done, 1) == 0)
        party_check(tesup_wait(ends.left.channel, PATIENCE_MS), what);
    party_check(done.status, what);
    assert_int_equal(done.bytes, request->length);
}

/* `length` bytes there and back, at offsets that no word begins at. */
static void length_expect(uint64_t length, uint64_t from, uint64_t to)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, length, NULL);
    char what[64];

    snprintf(what, sizeof(what), "%llu bytes", (unsigned long long)length);
    request.local_offset = from;
    request.remote_offset = to;
    party_fill(ends.local.bytes + from, length, length);
    memset(ends.remote.bytes + to - MARGIN, 0xee, MARGIN);
    memset(ends.remote.bytes + to + length, 0xee, MARGIN);
    moved_expect(&request, what);
    party_verify(ends.remote.bytes + to, length, length, what);
    party_verify_byte(ends.remote.bytes + to - MARGIN, MARGIN, 0xee, what);
    party_verify_byte(ends.remote.bytes + to + length, MARGIN, 0xee, what);

    memset(ends.local.bytes + from - MARGIN, 0xdd, length + MARGIN + MARGIN);
    request.op = TESUP_OP_READ;
    moved_expect(&request, what);
    party_verify(ends.local.bytes + from, length, length, what);
    party_verify_byte(ends.local.bytes + from - MARGIN, MARGIN, 0xdd, what);
    party_verify_byte(ends.local.bytes + from + length, MARGIN, 0xdd, what);
}

static void every_length_and_place(void **state)
{
    static const uint64_t lengths[] = {1,     2,       7,    63,      64,          65,      1023,
                                       1024,  1025,    4095, 4096,    4097,        65535,   65536,
                                       65537, MIB - 1, MIB,  MIB + 1, 3 * MIB + 5, 64 * MIB};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        length_expect(lengths[i], MARGIN, MARGIN);
    for (size_t i = 0; i < 18; i++)
        length_expect(lengths[i], MARGIN + 1 + i, MARGIN + 13 - i / 2);
}

/* The packets leave by one device and come in by the other: nothing takes a short cut. */
static void bytes_cross_from_device_to_device(void **state)
{
    struct counters_segment *counters = endpoints_open(rdma_site.left);
    uint64_t sent = rdma_hw_count(RDMA_LEFT, "sent_pkts");
    uint64_t came = rdma_hw_count(RDMA_RIGHT, "rcvd_pkts");
    struct rdma_endpoint endpoint;

    (void)state;
    length_expect(4 * MIB, MARGIN, MARGIN);
    endpoint = rdma_endpoint(counters);
    assert_string_equal(endpoint.state, "ready");
    assert_string_equal(endpoint.fabric, "verbs");
    assert_string_equal(endpoint.notify, "native");
    assert_true(rdma_hw_count(RDMA_LEFT, "sent_pkts") - sent >= 1024); /* of at most 4 KiB */
    assert_true(rdma_hw_count(RDMA_RIGHT, "rcvd_pkts") - came >= 1024);
    counters_unmap(counters);
}

static void by_address(void **state)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 70000, NULL);

    (void)state;
    request.flags = TESUP_REMOTE_ADDR;
    request.remote_region = 0;
    request.remote_offset = (uintptr_t)ends.remote.bytes + 4099;
    party_fill(ends.local.bytes, 70000, 3);
    party_check(party_do(ends.left.channel, &request).status, "by address");
    party_verify(ends.remote.bytes + 4099, 70000, 3, "by address");
    request.remote_offset = (uintptr_t)ends.remote.bytes + REGION - 69999;
    party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_NOT_FOUND);
    request.remote_offset = 4096;
    party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_NOT_FOUND);
}

static void a_batch_in_one_call(void **state)
{
    struct tesup_request request[BATCH];
    uint64_t tickets[BATCH], sum = 0;
    uint32_t accepted = 0;

    (void)state;
    party_fill(ends.local.bytes, BATCH * 5000, 4);
    memset(ends.remote.bytes, 0, BATCH * 5000);
    for (uint32_t i = 0; i < BATCH; i++) {
        request[i] = ends_request(&ends, TESUP_OP_WRITE, 5000, NULL);
        request[i].cookie = i + 1;
        request[i].local_offset = request[i].remote_offset = i * UINT64_C(5000);
    }
    party_check(tesup_submit(ends.left.channel, request, BATCH, tickets, &accepted), "batch");
    assert_int_equal(accepted, BATCH);
    for (uint32_t i = 0; i < BATCH; i++) {
        struct tesup_completion done = party_complete(ends.left.channel);

        party_check(done.status, "of the batch");
        sum += done.cookie;
    }
    assert_int_equal(sum, BATCH * (BATCH + 1) / 2);
    party_verify(ends.remote.bytes, BATCH * 5000, 4, "a batch");
}

/* Several regions by turns, each with its own keys; their rights are the owner's. */
static void several_regions(void **state)
{
    struct party_region region[REGIONS], locked;
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 9000, NULL);

    (void)state;
    for (unsigned i = 0; i < REGIONS; i++)
        party_region_create(&ends.right, PARTY_MEMORY_ALLOC, 16384, READ_WRITE, &region[i]);
    party_region_create(&ends.right, PARTY_MEMORY_ALLOC, 16384, TESUP_ACCESS_REMOTE_READ, &locked);
    for (unsigned i = 0; i < 4 * REGIONS; i++) {
        party_fill(ends.local.bytes, 9000, i);
        request.remote_region = region[i % REGIONS].handle;
        request.remote_offset = i;
        party_check(party_do(ends.left.channel, &request).status, "to one of several");
        party_verify(region[i % REGIONS].bytes + i, 9000, i, "one of several");
    }
    request.remote_region = locked.handle;
    party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_DENIED);
    party_verify_byte(locked.bytes, locked.size, 0, "memory that is read-only");
    request.op = TESUP_OP_READ;
    party_check(party_do(ends.left.channel, &request).status, "READ");
    for (unsigned i = 0; i < REGIONS; i++)
        party_region_free(&ends.right, &region[i]);
    request.remote_region = region[0].handle;
    party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_GONE);
    request.remote_region = locked.handle;
    party_check(party_do(ends.left.channel, &request).status, "the next READ");
}

static void both_ways_at_once(void **state)
{
    struct tesup_request out = ends_request(&ends, TESUP_OP_WRITE, 8 * MIB, NULL);
    struct tesup_request back = {.op = TESUP_OP_WRITE,
                                 .remote =
                                     party_open(&ends.right, tesup_segment_name(ends.left.session)),
                                 .local_region = ends.remote.handle,
                                 .local_offset = 16 * MIB,
                                 .remote_region = ends.local.handle,
                                 .remote_offset = 16 * MIB,
                                 .length = 8 * MIB};

    (void)state;
    party_fill(ends.local.bytes, out.length, 21);
    party_fill(ends.remote.bytes + back.local_offset, back.length, 22);
    party_submit(ends.left.channel, &out);
    party_submit(ends.right.channel, &back);
    party_check(party_complete(ends.left.channel).status, "to the right");
    party_check(party_complete(ends.right.channel).status, "to the left");
    party_verify(ends.remote.bytes, out.length, 21, "to the right");
    party_verify(ends.local.bytes + back.remote_offset, back.length, 22, "to the left");
}

#define ON(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(every_length_and_place),
        ON(bytes_cross_from_device_to_device),
        ON(by_address),
        ON(a_batch_in_one_call),
        ON(several_regions),
        ON(both_ways_at_once),
    };

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
