/* READ and WRITE between GPU memory and GPU or host memory, over every fabric that stages or copies
 * it: every byte, notifications never before them, and nothing left in any process. */
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/gpu.h"
#include "tests/harness/site.h"
#include "tests/harness/standin.h"
#include "tests/harness/wait.h"

#define MIB        (UINT64_C(1) << 20)
#define SIZE       (MIB * 2)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

/* One end: memory of a GPU or of the host. */
struct end {
    struct party party;
    bool gpu;
    uint64_t size;
    cuda_pointer at;
    struct party_region host;
    tesup_region_t handle;
};

static void end_open(struct end *end, const struct daemon *daemon, bool gpu, uint64_t size)
{
    *end = (struct end){.gpu = gpu, .size = size};
    party_attach(&end->party, daemon, NULL);
    if (gpu) {
        end->at = gpu_alloc(size);
        end->handle = gpu_register(&end->party, end->at, size, READ_WRITE);
    } else {
        party_region_create(&end->party, PARTY_MEMORY_ALLOC, size, READ_WRITE, &end->host);
        end->handle = end->host.handle;
    }
}

static void end_close(struct end *end)
{
    if (end->gpu) {
        party_check(tesup_mem_unregister(end->party.session, end->handle), "unregister");
        gpu_free(end->at);
    }
    party_detach(&end->party);
}

static void end_fill(const struct end *end, uint64_t offset, uint64_t length, uint64_t seed)
{
    if (end->gpu)
        gpu_fill(end->at + offset, length, seed);
    else
        party_fill(end->host.bytes + offset, length, seed);
}

static void end_clear(const struct end *end)
{
    if (end->gpu)
        gpu_set(end->at, end->size, 0xee);
    else
        memset(end->host.bytes, 0xee, end->size);
}

/* The block is right, and nothing beside it was touched. */
static void end_verify(const struct end *end, uint64_t offset, uint64_t length, uint64_t seed)
{
    uint8_t *bytes = end->host.bytes;

    if (end->gpu) {
        bytes = malloc(end->size);
        assert_non_null(bytes);
        gpu_check(gpu_driver.cuMemcpyDtoH(bytes, end->at, end->size));
    }
    party_verify_byte(bytes, offset, 0xee, "before the block");
    party_verify(bytes + offset, length, seed, "the block");
    party_verify_byte(bytes + offset + length, end->size - offset - length, 0xee, "behind it");
    if (end->gpu)
        free(bytes);
}

static void transfer(const struct end *left, const struct end *right, tesup_remote_t remote,
                     uint32_t op, uint64_t length)
{
    static uint64_t seed = 1;
    const struct end *from = op == TESUP_OP_WRITE ? left : right;
    const struct end *to = op == TESUP_OP_WRITE ? right : left;
    uint64_t offsets[2] = {3, 4093}; /* local, remote */
    struct tesup_request request = {.op = op,
                                    .remote = remote,
                                    .local_region = left->handle,
                                    .local_offset = offsets[0],
                                    .remote_region = right->handle,
                                    .remote_offset = offsets[1],
                                    .length = length,
                                    .name = "there",
                                    .name_len = 5};
    struct tesup_completion done;
    struct tesup_notification note;

    seed++;
    end_clear(to);
    end_fill(from, from == left ? offsets[0] : offsets[1], length, seed);
    party_submit(left->party.channel, &request);
    note = party_next(right->party.channel);
    assert_int_equal(note.status, TESUP_OK);
    assert_int_equal(note.bytes, length);
    assert_true(party_name_is(&note, "there"));
    party_check(tesup_notify_release(right->party.channel), "release");
    if (to == right) /* the news is there: so are the bytes */
        end_verify(to, offsets[1], length, seed);
    done = party_complete(left->party.channel);
    party_check(done.status, op == TESUP_OP_WRITE ? "WRITE" : "READ");
    assert_int_equal(done.bytes, length);
    end_verify(to, to == left ? offsets[0] : offsets[1], length, seed);
}

static void pairs_run(const struct site *site)
{
    static const uint64_t sizes[] = {1, 15, 4096, 65537, 256 * 1024, MIB + 12345};

    for (int pair = 1; pair < 4; pair++) {
        struct end left, right;
        tesup_remote_t remote;

        end_open(&left, site->left, (pair & 1) != 0, SIZE);
        end_open(&right, site->right, (pair & 2) != 0, SIZE);
        remote = party_open(&left.party, tesup_segment_name(right.party.session));
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            transfer(&left, &right, remote, TESUP_OP_WRITE, sizes[i]);
            transfer(&left, &right, remote, TESUP_OP_READ, sizes[i]);
        }
        end_close(&left);
        end_close(&right);
    }
}

static void large_run(const struct site *site)
{
    struct end left, right;
    tesup_remote_t remote;

    end_open(&left, site->left, true, 64 * MIB + 8192);
    end_open(&right, site->right, true, 64 * MIB + 8192);
    remote = party_open(&left.party, tesup_segment_name(right.party.session));
    transfer(&left, &right, remote, TESUP_OP_WRITE, 64 * MIB + 1);
    transfer(&left, &right, remote, TESUP_OP_READ, 64 * MIB + 1);
    end_close(&left);
    end_close(&right);
}

static void pairs_over_tcp(void **state)
{
    (void)state;
    pairs_run(&sites[SITE_TCP]);
}

/* What goes out is read ahead of the socket, and what comes in is still being copied while more is
 * received; the pinned memory is what it was after the first transfer. */
static void large_over_tcp(void **state)
{
    struct standin_counters before = gpu_worker_counters(sites[SITE_TCP].left), after;

    (void)state;
    large_run(&sites[SITE_TCP]);
    for (int side = 0; side < 2; side++) {
        after = gpu_worker_counters(side == 0 ? sites[SITE_TCP].left : sites[SITE_TCP].right);
        assert_true(after.copies_queued_most > 1);
        assert_int_equal(after.copies_pageable, 0);
        assert_int_equal(after.pinned_bytes_most, before.pinned_bytes);
    }
    /* A byte is copied once on each side: nothing goes through the host twice. */
    assert_true(after.bytes_to_device - before.bytes_to_device < 70 * MIB);
}

static void pairs_over_local(void **state)
{
    (void)state;
    pairs_run(&sites[SITE_LOCAL]);
}

static void pairs_within_worker(void **state)
{
    (void)state;
    pairs_run(&sites[SITE_WORKER]);
}

/* From device to device nothing comes to the host. */
static void large_over_local(void **state)
{
    const struct site *site = &sites[SITE_LOCAL];
    struct standin_counters before = gpu_worker_counters(site->left), after;

    (void)state;
    large_run(site);
    after = gpu_worker_counters(site->left);
    assert_int_equal(after.bytes_to_host, before.bytes_to_host);
    assert_int_equal(after.bytes_to_device, before.bytes_to_device);
    assert_int_equal(after.bytes_on_device - before.bytes_on_device, 2 * (64 * MIB + 1));
    assert_true(after.copies_queued_most > 1);
}

/* Two GPUs of one host. */
static void two_gpus(void **state)
{
    const struct site *site = &sites[SITE_LOCAL];
    struct standin_counters before = gpu_worker_counters(site->left), after;
    struct end left, right;
    tesup_remote_t remote;

    (void)state;
    end_open(&left, site->left, true, SIZE);
    gpu_use(1);
    end_open(&right, site->right, true, SIZE);
    remote = party_open(&left.party, tesup_segment_name(right.party.session));
    transfer(&left, &right, remote, TESUP_OP_WRITE, MIB + 3);
    transfer(&left, &right, remote, TESUP_OP_READ, MIB + 3);
    after = gpu_worker_counters(site->left);
    assert_int_equal(after.bytes_between - before.bytes_between, 2 * (MIB + 3));
    assert_int_equal(after.bytes_to_host, before.bytes_to_host);
    end_close(&right);
    gpu_use(0);
    end_close(&left);
}

static int group_setup(void **state)
{
    gpu_counters_begin();
    if (site_group_setup(state) < 0)
        return -1;
    gpu_begin();
    return 0;
}

static int group_teardown(void **state)
{
    int rc;

    gpu_end();
    rc = site_group_teardown(state);
    gpu_counters_expect_clean();
    gpu_counters_end();
    return rc;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_over_tcp),      cmocka_unit_test(large_over_tcp),
        cmocka_unit_test(pairs_over_local),    cmocka_unit_test(large_over_local),
        cmocka_unit_test(pairs_within_worker), cmocka_unit_test(two_gpus),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
