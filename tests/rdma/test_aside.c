/* Memory that a device does not know (files open for reading only, private memory of a job that may
 * lock none) moves over the TCP connection beside the queue pairs: every byte right, its
 * notification behind it and in order with native ones, and counted. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/harness/job.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define SIZE (MIB + 17)
#define MANY 40u

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

/* A file with content, registered by a descriptor that cannot write. */
static tesup_region_t read_only_create(const struct party *party, uint64_t seed, uint32_t access)
{
    int fd = memfd_create("tesup-test", MFD_CLOEXEC), again;
    tesup_region_t region;
    char path[32];
    uint8_t *bytes;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    party_fill(bytes, SIZE, seed);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(again >= 0);
    party_check(tesup_mem_register_fd(party->session, again, 0, SIZE, NULL, access, &region),
                "a file that is open for reading only");
    munmap(bytes, SIZE);
    close(again);
    close(fd);
    return region;
}

static void note_expect(struct tesup_channel *channel, const void *name, uint32_t name_len)
{
    struct tesup_notification note = party_next(channel);

    assert_int_equal(note.name_len, name_len);
    assert_memory_equal(note.name, name, name_len);
    party_expect(note.status, TESUP_OK);
    party_check(tesup_notify_release(channel), "release");
}

static void read_only_source(void **state)
{
    uint64_t before = status_worker_count(rdma_site.left, "rdma_aside");
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, SIZE, "aside");

    (void)state;
    request.local_region = read_only_create(&ends.left, 31, TESUP_ACCESS_LOCAL);
    party_submit(ends.left.channel, &request);
    note_expect(ends.right.channel, "aside", 5);
    party_verify(ends.remote.bytes, SIZE, 31, "at the notification");
    party_check(party_complete(ends.left.channel).status, "WRITE");
    assert_int_equal(status_worker_count(rdma_site.left, "rdma_aside"), before + 1);
    assert_true(status_worker_erred(rdma_site.left, "moves by TCP"));
}

static void read_only_target(void **state)
{
    uint64_t before = status_worker_count(rdma_site.left, "rdma_aside");
    struct tesup_request request = ends_request(&ends, TESUP_OP_READ, SIZE, "aside");

    (void)state;
    request.remote_region = read_only_create(&ends.right, 32, TESUP_ACCESS_REMOTE_READ);
    for (int i = 0; i < 2; i++) {
        memset(ends.local.bytes, 0, SIZE);
        party_check(party_do(ends.left.channel, &request).status, "READ");
        note_expect(ends.right.channel, "aside", 5);
        party_verify(ends.local.bytes, SIZE, 32, "what was read");
    }
    assert_int_equal(status_worker_count(rdma_site.left, "rdma_aside"), before + 2);
    request.op = TESUP_OP_WRITE;
    party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_DENIED);
    request.op = TESUP_OP_READ;
    request.remote_offset = 1;
    party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_INVALID);
}

/* By turns: what goes natively does not overtake what goes aside. */
static void one_order_for_both_ways(void **state)
{
    tesup_region_t aside = read_only_create(&ends.left, 33, TESUP_ACCESS_LOCAL);

    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 70000, NULL);

        request.name = &i;
        request.name_len = sizeof(i);
        if (i % 3 == 0)
            request.local_region = aside;
        else if (i % 3 == 1)
            request.op = TESUP_OP_NOTIFY;
        party_submit(ends.left.channel, &request);
    }
    for (uint32_t i = 0; i < MANY; i++)
        note_expect(ends.right.channel, &i, sizeof(i));
    for (uint32_t i = 0; i < MANY; i++)
        party_check(party_complete(ends.left.channel).status, "one of many");
}

/* On return of tesup_mem_unregister no byte of it moves any more. */
static void unregistered_while_it_moves(void **state)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, SIZE, NULL);

    (void)state;
    for (int round = 0; round < 10; round++) {
        struct tesup_completion done;

        request.local_region = read_only_create(&ends.left, 34, TESUP_ACCESS_LOCAL);
        party_submit(ends.left.channel, &request);
        party_check(tesup_mem_unregister(ends.left.session, request.local_region), "unregister");
        done = party_complete(ends.left.channel);
        if (done.status != TESUP_OK)
            party_expect(done.status, TESUP_ERR_GONE);
    }
    request = ends_request(&ends, TESUP_OP_WRITE, SIZE, NULL);
    party_check(party_do(ends.left.channel, &request).status, "the next WRITE");
}

static void capability_drop(unsigned capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[capability / 32].effective &= ~(1u << capability % 32);
    data[capability / 32].permitted &= ~(1u << capability % 32);
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* A job that may lock 64 KiB: its private memory cannot be pinned, and works all the same. */
static void limited_run(void *argument)
{
    const struct rlimit limit = {64 * KIB, 64 * KIB};
    struct party_region private;
    struct tesup_request request;
    struct ends own;

    (void)argument;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    capability_drop(CAP_IPC_LOCK);
    ends_begin(&own, 2 * MIB);
    party_region_create(&own.left, PARTY_MEMORY_PRIVATE, 2 * MIB, READ_WRITE, &private);
    request = ends_request(&own, TESUP_OP_WRITE, SIZE, "private");
    request.local_region = private.handle;
    party_fill(private.bytes, SIZE, 35);
    party_submit(own.left.channel, &request);
    note_expect(own.right.channel, "private", 7);
    party_verify(own.remote.bytes, SIZE, 35, "at the notification");
    party_check(party_complete(own.left.channel).status, "WRITE");
    memset(private.bytes, 0, SIZE);
    request.op = TESUP_OP_READ;
    party_check(party_do(own.left.channel, &request).status, "READ");
    party_verify(private.bytes, SIZE, 35, "what was read");
    party_region_free(&own.left, &private);
    ends_end(&own);
}

static void private_memory_that_cannot_be_pinned(void **state)
{
    uint64_t before = status_worker_count(rdma_site.left, "rdma_aside");
    struct job job;

    (void)state;
    job_start(&job, "limited", limited_run, NULL);
    job_expect_success(&job, 2 * WAIT_MS);
    assert_int_equal(status_worker_count(rdma_site.left, "rdma_aside"), before + 2);
    assert_true(status_worker_erred(rdma_site.left, "cannot register its private memory"));
}

/* What can be pinned goes by the device: no byte of it beside. */
static void private_memory_in_place(void **state)
{
    uint64_t before = status_worker_count(rdma_site.left, "rdma_aside");
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, SIZE, "private");
    struct party_region private;

    (void)state;
    party_region_create(&ends.left, PARTY_MEMORY_PRIVATE, 2 * MIB, READ_WRITE, &private);
    request.local_region = private.handle;
    party_fill(private.bytes, SIZE, 36);
    party_check(party_do(ends.left.channel, &request).status, "WRITE");
    note_expect(ends.right.channel, "private", 7);
    party_verify(ends.remote.bytes, SIZE, 36, "from private memory");
    assert_int_equal(status_worker_count(rdma_site.left, "rdma_aside"), before);
    party_region_free(&ends.left, &private);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(read_only_source),
        ON(read_only_target),
        ON(one_order_for_both_ways),
        ON(unregistered_while_it_moves),
        ON(private_memory_that_cannot_be_pinned),
        ON(private_memory_in_place),
    };

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
