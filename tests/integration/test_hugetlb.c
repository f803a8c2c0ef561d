/* Memory in hugetlb files: bytes move, ranges lie on whole pages, and no page is kept.
 *
 * Root lends itself some huge pages for the test.  Where that is not possible, only the refusals
 * are tested: they need no page. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/err.h"
#include "tests/harness/forge.h"
#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/wait.h"

#define PAGE       (UINT64_C(2) << 20)
#define PAGES      6 /* at most at a time */
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define POOL       "/sys/kernel/mm/hugepages/hugepages-2048kB/"

/* ---- the system's pool ---- */

static long pool_read(const char *name)
{
    char path[128], text[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), POOL "%s", name);
    file = fopen(path, "re");
    if (!file)
        return -1;
    if (!fgets(text, sizeof(text), file))
        text[0] = '\0';
    fclose(file);
    return strtol(text, NULL, 10);
}

/* False where this process may not change it. */
static bool pool_add(long pages)
{
    long now = pool_read("nr_hugepages");
    FILE *file = fopen(POOL "nr_hugepages", "we");
    bool done = file && now >= 0 && fprintf(file, "%ld\n", now + pages) > 0;

    if (file)
        done &= fclose(file) == 0;
    return done;
}

static bool lendable; /* the system lets us have some */
static long lent;     /* pages that are to be taken back */

static int group_setup(void **state)
{
    long before = pool_read("nr_hugepages");

    lendable = before >= 0 && pool_add(PAGES);
    if (lendable)
        lent = pool_read("nr_hugepages") - before;
    return site_group_setup(state);
}

static int group_teardown(void **state)
{
    int rc = site_group_teardown(state);

    if (lent > 0 && !pool_add(-lent))
        return -1;
    return rc;
}

/* ---- ranges ---- */

static int huge_file(uint64_t size)
{
    int fd = memfd_create("tesup-test", MFD_CLOEXEC | MFD_HUGETLB);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

static const struct {
    uint64_t offset, length;
} crooked[] = {{4096, PAGE}, {0, PAGE - 4096}, {0, PAGE + 1}, {PAGE / 2, PAGE / 2}, {0, 1}};
#define CROOKED (sizeof(crooked) / sizeof(crooked[0]))

static void crooked_ranges_are_refused(void **state)
{
    struct party party;
    tesup_region_t region;
    int fd = huge_file(2 * PAGE);

    (void)state;
    party_attach(&party, sites[SITE_TCP].left, NULL);
    for (size_t i = 0; i < CROOKED; i++) {
        party_expect(tesup_mem_register_fd(party.session, fd, crooked[i].offset, crooked[i].length,
                                           NULL, READ_WRITE, &region),
                     TESUP_ERR_INVALID);
        if (!strstr(tesup_last_error(), "multiples of the huge pages") ||
            !strstr(tesup_last_error(), "2048 KiB"))
            fail_msg("unclear: %s", tesup_last_error());
    }
    party_detach(&party);
    close(fd);
}

/* The worker does not rely on the library. */
static void crooked_ranges_are_refused_to_forgers(void **state)
{
    static struct forge forge; /* large */
    int fd = huge_file(2 * PAGE);

    (void)state;
    forge_attach(&forge, sites[SITE_TCP].left, NULL);
    for (size_t i = 0; i < CROOKED; i++) {
        struct wire_message message;

        wire_message_init(&message, WIRE_REGION_ADD);
        message.body.region = (struct proto_region){.kind = REGION_KIND_SHARED,
                                                    .access = REGION_ACCESS_MASK,
                                                    .offset = crooked[i].offset,
                                                    .length = crooked[i].length};
        message.fds[0] = fd;
        message.fd_count = 1;
        assert_int_equal(forge_ask(&forge, &message), TS_ERR_INVALID);
        if (!strstr(message.body.reply.text, "huge pages of 2048 KiB"))
            fail_msg("unclear: %s", message.body.reply.text);
    }
    forge_leave(&forge);
    close(fd);
}

/* Half a terabyte of them: no machine of today has that many. */
static void missing_pages_are_told(void **state)
{
    const uint64_t size = UINT64_C(512) << 30;
    struct party party;
    tesup_region_t region;
    int fd = huge_file(size);

    (void)state;
    party_attach(&party, sites[SITE_TCP].left, NULL);
    party_expect(tesup_mem_register_fd(party.session, fd, 0, size, NULL, READ_WRITE, &region),
                 TESUP_ERR_NO_MEMORY);
    if (!strstr(tesup_last_error(), "huge pages"))
        fail_msg("unclear: %s", tesup_last_error());
    party_detach(&party);
    close(fd);
}

/* ---- bytes ---- */

static void transfer_expect(const struct party *from, uint32_t op, tesup_remote_t remote,
                            const struct party_region *local, tesup_region_t region)
{
    const struct tesup_request request = {.op = op,
                                          .remote = remote,
                                          .local_region = local->handle,
                                          .remote_region = region,
                                          .length = PAGE};
    struct tesup_completion done = party_do(from->channel, &request);

    party_check(done.status, op == TESUP_OP_READ ? "READ" : "WRITE");
    assert_int_equal(done.bytes, PAGE);
}

/* The region is the second page of the target's file. */
static void bytes_move_at(const struct site *site)
{
    struct party source, target;
    struct party_region local;
    tesup_region_t region;
    int fd = huge_file(2 * PAGE);
    uint8_t *bytes = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    memset(bytes, 7, PAGE);
    party_attach(&source, site->left, NULL);
    party_attach(&target, site->right, NULL);
    assert_true(
        party_region_create(&source, PARTY_MEMORY_HUGETLB, PAGE, TESUP_ACCESS_LOCAL, &local));
    party_check(tesup_mem_register_fd(target.session, fd, PAGE, PAGE, NULL, READ_WRITE, &region),
                "the second page");
    tesup_remote_t remote = party_open(&source, tesup_segment_name(target.session));
    party_fill(local.bytes, PAGE, 1);
    transfer_expect(&source, TESUP_OP_WRITE, remote, &local, region);
    party_verify(bytes + PAGE, PAGE, 1, "what was written");
    party_fill(bytes + PAGE, PAGE, 2);
    transfer_expect(&source, TESUP_OP_READ, remote, &local, region);
    party_verify(local.bytes, PAGE, 2, "what was read");
    party_verify_byte(bytes, PAGE, 7, "the first page");
    party_check(tesup_mem_unregister(target.session, region), "unregister");
    party_region_free(&source, &local);
    munmap(bytes, 2 * PAGE);
    close(fd);
    party_detach(&source);
    party_detach(&target);
}

static void bytes_move(void **state)
{
    long before = pool_read("free_hugepages");

    (void)state;
    if (before < PAGES) {
        if (lendable)
            fail_msg("%ld huge pages are free, %d were asked for", before, PAGES);
        print_message("no huge pages here, and we may not have some: no bytes were moved\n");
        return;
    }
    for (int i = 0; i < SITE_COUNT; i++) {
        struct wait wait = wait_begin("the workers let go of all huge pages", WAIT_MS);

        bytes_move_at(&sites[i]);
        while (pool_read("free_hugepages") < before || pool_read("resv_hugepages") > 0)
            wait_step(&wait);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crooked_ranges_are_refused),
        cmocka_unit_test(crooked_ranges_are_refused_to_forgers),
        cmocka_unit_test(missing_pages_are_told),
        cmocka_unit_test(bytes_move),
    };

    return cmocka_run_group_tests_name("hugetlb", tests, group_setup, group_teardown);
}
