/* What a transfer must refuse, the same way over every fabric, and memory that is taken away. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/duo_fixture.h"

#define SMALL UINT64_C(8192)

/* Refused at once by the library, or by the completion: the same code either way. */
static void duo_expect(struct duo *duo, struct tesup_request request, int status)
{
    struct tesup_completion done;
    uint32_t accepted;

    for (uint32_t op = TESUP_OP_READ; op <= TESUP_OP_WRITE; op++) {
        request.op = op;
        int code = tesup_submit(duo->left.channel, &request, 1, NULL, &accepted);
        if (code == TESUP_OK) {
            done = party_complete(duo->left.channel);
            code = done.status;
            assert_int_equal(done.bytes, status == TESUP_OK ? request.length : 0);
        }
        if (code != status)
            fail_msg("%s over %s: '%s' instead of '%s'", op == TESUP_OP_READ ? "READ" : "WRITE",
                     duo->site->label, tesup_strerror(code), tesup_strerror(status));
    }
}

static void ranges_refuse(struct duo *duo)
{
    struct tesup_request request = duo->request;

    duo_expect(duo, request, TESUP_OK);
    request.length = 0;
    duo_expect(duo, request, TESUP_OK);
    request.length = SMALL;
    request.local_offset = 1;
    duo_expect(duo, request, TESUP_ERR_INVALID);
    request.local_offset = UINT64_MAX - 10;
    duo_expect(duo, request, TESUP_ERR_INVALID);
    request.local_offset = 0;
    request.remote_offset = 1;
    duo_expect(duo, request, TESUP_ERR_INVALID);
    request.remote_offset = UINT64_MAX - SMALL;
    duo_expect(duo, request, TESUP_ERR_INVALID);
    request.remote_offset = UINT64_MAX - 10;
    duo_expect(duo, request, TESUP_ERR_INVALID);
    request.remote_offset = 0;
    request.length = UINT64_MAX;
    duo_expect(duo, request, TESUP_ERR_INVALID);
    duo_expect(duo, duo->request, TESUP_OK);
}

static void ranges_outside_are_invalid(void **state)
{
    struct duo duo;

    (void)state;
    for (size_t i = 0; i < SITE_COUNT; i++) {
        duo_begin(&duo, &sites[i], SMALL);
        ranges_refuse(&duo);
        duo_end(&duo);
    }
}

static void access_flags_expect(struct duo *duo, uint32_t access, int read, int write)
{
    struct party_region region;
    struct tesup_request request = duo->request;
    struct tesup_completion done;

    party_region_create(&duo->right, PARTY_MEMORY_ALLOC, SMALL, access, &region);
    request.remote_region = region.handle;
    request.op = TESUP_OP_READ;
    done = party_do(duo->left.channel, &request);
    party_expect(done.status, read);
    request.op = TESUP_OP_WRITE;
    party_fill(duo->local.bytes, SMALL, 5);
    done = party_do(duo->left.channel, &request);
    party_expect(done.status, write);
    if (write != TESUP_OK)
        party_verify_byte(region.bytes, SMALL, 0, "memory that denies writing");
    /* By address the same flags hold. */
    request.flags = TESUP_REMOTE_ADDR;
    request.remote_offset = (uint64_t)(uintptr_t)region.bytes;
    done = party_do(duo->left.channel, &request);
    party_expect(done.status, write);
    party_region_free(&duo->right, &region);
}

static void access_flags_are_enforced(void **state)
{
    struct duo duo;

    (void)state;
    for (size_t i = 0; i < SITE_COUNT; i++) {
        duo_begin(&duo, &sites[i], SMALL);
        access_flags_expect(&duo, TESUP_ACCESS_LOCAL, TESUP_ERR_DENIED, TESUP_ERR_DENIED);
        access_flags_expect(&duo, TESUP_ACCESS_REMOTE_READ, TESUP_OK, TESUP_ERR_DENIED);
        access_flags_expect(&duo, TESUP_ACCESS_REMOTE_WRITE, TESUP_ERR_DENIED, TESUP_OK);
        duo_end(&duo);
    }
}

static void stale_regions_are_gone(void **state)
{
    struct party_region again;
    struct tesup_request request;
    struct duo duo;

    (void)state;
    for (size_t i = 0; i < SITE_COUNT; i++) {
        duo_begin(&duo, &sites[i], SMALL);
        request = duo.request;
        party_region_free(&duo.right, &duo.remote);
        duo_expect(&duo, request, TESUP_ERR_GONE);
        /* Its successor has the same index: the old handle still does not mean it. */
        party_region_create(&duo.right, PARTY_MEMORY_ALLOC, SMALL, READ_WRITE, &again);
        duo_expect(&duo, request, TESUP_ERR_GONE);
        request.remote_region = again.handle;
        duo_expect(&duo, request, TESUP_OK);
        party_region_free(&duo.left, &duo.local);
        duo_expect(&duo, request, TESUP_ERR_GONE);
        party_expect(tesup_mem_free(duo.left.session, duo.local.handle), TESUP_ERR_GONE);
        duo_end(&duo);
    }
}

static void unknown_addresses_are_refused(void **state)
{
    struct tesup_request request;
    struct duo duo;

    (void)state;
    for (size_t i = 0; i < SITE_COUNT; i++) {
        duo_begin(&duo, &sites[i], SMALL);
        request = duo.request;
        request.flags = TESUP_REMOTE_ADDR;
        request.remote_offset = (uint64_t)(uintptr_t)&duo; /* memory, but not registered */
        request.length = 16;
        duo_expect(&duo, request, TESUP_ERR_NOT_FOUND);
        request.remote_offset = (uint64_t)(uintptr_t)duo.remote.bytes + SMALL - 8;
        duo_expect(&duo, request, TESUP_ERR_NOT_FOUND);
        request.remote_offset = 0;
        duo_expect(&duo, request, TESUP_ERR_NOT_FOUND);
        duo_end(&duo);
    }
}

static void read_only_file_is_never_written(void **state)
{
    char path[64];
    tesup_region_t region;
    struct duo duo;

    (void)state;
    int fd = memfd_create("tesup-test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, SMALL), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int reader = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(reader >= 0);
    for (size_t i = 0; i < SITE_COUNT; i++) {
        duo_begin(&duo, &sites[i], SMALL);
        party_expect(tesup_mem_register_fd(duo.left.session, reader, 0, SMALL, NULL,
                                           TESUP_ACCESS_REMOTE_WRITE, &region),
                     TESUP_ERR_DENIED);
        party_check(tesup_mem_register_fd(duo.left.session, reader, 0, SMALL, NULL,
                                          TESUP_ACCESS_LOCAL, &region),
                    "a read-only file");
        struct tesup_request request = duo.request;
        request.local_region = region;
        party_check(party_do(duo.left.channel, &request).status, "WRITE from a read-only file");
        party_verify_byte(duo.remote.bytes, SMALL, 0, "zeros of the file");
        request.op = TESUP_OP_READ;
        party_expect(party_do(duo.left.channel, &request).status, TESUP_ERR_DENIED);
        duo_end(&duo);
    }
    close(reader);
    close(fd);
}

/* ---- unregister in the middle ---- */

#define BULK (64 * MIB)

static void unregister_expect_quiet(struct duo *duo, struct party_region *target)
{
    struct tesup_request request = duo->request;
    struct party_region source;
    struct tesup_completion done;
    uint8_t *bytes = target->bytes;

    party_region_create(&duo->left, PARTY_MEMORY_ALLOC, BULK, TESUP_ACCESS_LOCAL, &source);
    memset(source.bytes, 0x11, BULK);
    request.local_region = source.handle;
    request.remote_region = target->handle;
    request.length = BULK;
    for (int i = 0; i < 4; i++)
        party_submit(duo->left.channel, &request);
    party_check(tesup_mem_unregister(duo->right.session, target->handle), "unregister");
    memset(bytes, 0xcc, BULK); /* ours again: whatever lands now is a bug */
    for (int i = 0; i < 4; i++) {
        done = party_complete(duo->left.channel);
        if (done.status != TESUP_OK)
            party_expect(done.status, TESUP_ERR_GONE);
    }
    /* Four times 64 MiB do not pass before an unregister that was asked for at once. */
    party_expect(done.status, TESUP_ERR_GONE);
    party_verify_byte(bytes, BULK, 0xcc, "after tesup_mem_unregister");
    duo_expect(duo, duo->request, TESUP_OK);
    party_region_free(&duo->left, &source);
}

static void unregister_during_transfers(void **state)
{
    struct party_region target;
    struct duo duo;

    (void)state;
    for (size_t i = 0; i < SITE_COUNT; i++) {
        duo_begin(&duo, &sites[i], SMALL);
        party_region_create(&duo.right, PARTY_MEMORY_MEMFD, BULK, READ_WRITE, &target);
        unregister_expect_quiet(&duo, &target);
        munmap(target.bytes, BULK);
        close(target.fd);
        duo_end(&duo);
    }
}

/* The owner of the source takes it away while its own transfers run. */
static void unregister_of_local_memory_drains(void **state)
{
    struct party_region source, target;
    struct tesup_completion done;
    struct duo duo;

    (void)state;
    for (size_t i = 0; i < SITE_COUNT; i++) {
        duo_begin(&duo, &sites[i], SMALL);
        party_region_create(&duo.left, PARTY_MEMORY_MEMFD, BULK, TESUP_ACCESS_LOCAL, &source);
        party_region_create(&duo.right, PARTY_MEMORY_ALLOC, BULK, READ_WRITE, &target);
        struct tesup_request request = duo.request;
        request.op = TESUP_OP_READ;
        request.local_region = source.handle;
        request.remote_region = target.handle;
        request.length = BULK;
        party_submit(duo.left.channel, &request);
        party_submit(duo.left.channel, &request);
        party_check(tesup_mem_unregister(duo.left.session, source.handle), "unregister");
        memset(source.bytes, 0xcc, BULK);
        for (int j = 0; j < 2; j++) {
            done = party_complete(duo.left.channel);
            if (done.status != TESUP_OK)
                party_expect(done.status, TESUP_ERR_GONE);
        }
        party_verify_byte(source.bytes, BULK, 0xcc, "after tesup_mem_unregister");
        munmap(source.bytes, BULK);
        close(source.fd);
        duo_end(&duo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_outside_are_invalid),
        cmocka_unit_test(access_flags_are_enforced),
        cmocka_unit_test(stale_regions_are_gone),
        cmocka_unit_test(unknown_addresses_are_refused),
        cmocka_unit_test(read_only_file_is_never_written),
        cmocka_unit_test(unregister_during_transfers),
        cmocka_unit_test(unregister_of_local_memory_drains),
    };

    return cmocka_run_group_tests(tests, site_group_setup, site_group_teardown);
}
