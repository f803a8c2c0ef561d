/* Mapped files: what may be mapped and how it is touched, and that a file which vanishes under the
 * worker is an error and no SIGBUS. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "tests/harness/process.h"
#include "worker/memory.h"

#define SIZE 16384u
#define HUGE (2u * 1024u * 1024u)

static char text[256];

static int file_make(const char *fill, uint64_t size)
{
    int fd = memfd_create("file", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (fill != NULL)
        assert_int_equal(pwrite(fd, fill, strlen(fill), 0), strlen(fill));
    return fd;
}

static void test_sealed_or_not(void **state)
{
    struct memory sealed, open_ended;

    (void)state;
    assert_int_equal(memory_map(&sealed, segment_create("s", SIZE), 0, SIZE, text, sizeof(text)),
                     TS_OK);
    assert_true(sealed.sealed && sealed.writable);
    assert_int_equal(memory_map(&open_ended, file_make(NULL, SIZE), 0, SIZE, text, sizeof(text)),
                     TS_OK);
    assert_false(open_ended.sealed);
    assert_true(open_ended.writable);
    memory_release(&sealed);
    memory_release(&open_ended);
}

static void test_only_within_the_file(void **state)
{
    static const struct {
        uint64_t offset, length;
        int status;
    } tries[] = {
        {0, SIZE, TS_OK},
        {SIZE - 1, 1, TS_OK},
        {1, SIZE, TS_ERR_INVALID},
        {SIZE, 1, TS_ERR_INVALID},
        {0, SIZE + 1, TS_ERR_INVALID},
        {0, 0, TS_ERR_INVALID},
        {UINT64_MAX, 1, TS_ERR_INVALID},
        {UINT64_MAX - 7, 16, TS_ERR_INVALID},
        {0, UINT64_MAX, TS_ERR_INVALID},
    };
    unsigned before = process_fd_count(getpid());

    (void)state;
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        struct memory memory;

        text[0] = '\0';
        assert_int_equal(memory_map(&memory, file_make(NULL, SIZE), tries[i].offset,
                                    tries[i].length, text, sizeof(text)),
                         tries[i].status);
        if (tries[i].status == TS_OK)
            memory_release(&memory);
        else
            assert_non_null(strstr(text, "the file has 16384 bytes"));
        assert_int_equal(process_fd_count(getpid()), before);
    }
}

/* An offset within a page: the region begins there, and nothing before it can be reached. */
static void test_offset_within_a_page(void **state)
{
    struct memory memory;
    char got[5];

    (void)state;
    assert_int_equal(memory_map(&memory, file_make("hello world", SIZE), 6, 5, text, sizeof(text)),
                     TS_OK);
    assert_int_equal(memory_load(got, &memory, 0, 5), TS_OK);
    assert_memory_equal(got, "world", 5);
    assert_false(memory_contains(&memory, 5, 1));
    memory_release(&memory);
}

/* Huge pages are mapped whole, wherever in them the region begins and ends.  Most machines have
 * none: then the refusal is about memory and not about the offset. */
static void test_offset_within_a_huge_page(void **state)
{
    struct memory memory;
    uint8_t byte = 1;
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
    int rc;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 2 * HUGE), 0);
    rc = memory_map(&memory, fd, HUGE + 4096, 100, text, sizeof(text));
    if (rc == TS_OK) {
        assert_int_equal(memory.mapping_size % HUGE, 0); /* munmap(2) takes nothing else */
        assert_int_equal(memory_load(&byte, &memory, 99, 1), TS_OK);
        assert_int_equal(byte, 0);
        memory_release(&memory);
        return;
    }
    assert_int_equal(rc, TS_ERR_NO_MEMORY);
    assert_non_null(strstr(text, "huge pages"));
}

static void test_read_only_descriptor(void **state)
{
    struct memory memory;
    char path[64], got[5];
    int fd = file_make("hello", SIZE);

    (void)state;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(
        memory_map(&memory, open(path, O_RDONLY | O_CLOEXEC), 0, SIZE, text, sizeof(text)), TS_OK);
    close(fd);
    assert_false(memory.writable);
    assert_int_equal(memory_load(got, &memory, 0, 5), TS_OK);
    assert_memory_equal(got, "hello", 5);
    assert_int_equal(memory_store(&memory, 0, "xxxxx", 5), TS_ERR_FAULT);
    memory_release(&memory);
}

static void test_no_file(void **state)
{
    struct memory memory;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(memory_map(&memory, ends[0], 0, 1, text, sizeof(text)), TS_ERR_INVALID);
    assert_non_null(strstr(text, "no regular file"));
    close(ends[1]);
}

/* The owner shrinks the file to one page under the mapping. */
static void test_vanished(void **state)
{
    static uint8_t buffer[SIZE];
    struct memory file, sealed;
    int fd = file_make(NULL, SIZE), rc;

    (void)state;
    rc = memory_map(&sealed, segment_create("s", SIZE), 0, SIZE, text, sizeof(text));
    assert_int_equal(rc, TS_OK);
    memset(sealed.map, 's', SIZE);
    rc = memory_map(&file, fcntl(fd, F_DUPFD_CLOEXEC, 0), 0, SIZE, text, sizeof(text));
    assert_int_equal(rc, TS_OK);
    assert_int_equal(memory_copy(&file, 0, &sealed, 0, SIZE), TS_OK);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(memory_load(buffer, &file, 0, 4096), TS_OK);
    assert_int_equal(buffer[4095], 's');
    assert_int_equal(memory_load(buffer, &file, 4096, 1), TS_ERR_FAULT);
    assert_int_equal(memory_store(&file, SIZE - 1, buffer, 1), TS_ERR_FAULT);
    /* across the new end: as much as there is, then the error */
    assert_int_equal(memory_load(buffer, &file, 4000, 200), TS_ERR_FAULT);
    assert_int_equal(memory_copy(&sealed, 0, &file, 0, SIZE), TS_ERR_FAULT);
    assert_int_equal(memory_copy(&file, 0, &sealed, 0, SIZE), TS_ERR_FAULT);
    assert_int_equal(memory_copy(&file, 0, &file, 4096, 4096), TS_ERR_FAULT);
    memory_release(&file);
    memory_release(&sealed);
    close(fd);
}

static void test_contains(void **state)
{
    const struct memory memory = {.length = 100};
    const struct memory all = {.length = UINT64_MAX};

    (void)state;
    assert_true(memory_contains(&memory, 0, 100));
    assert_true(memory_contains(&memory, 100, 0));
    assert_false(memory_contains(&memory, 1, 100));
    assert_false(memory_contains(&memory, 101, 0));
    assert_false(memory_contains(&memory, UINT64_MAX - 9, 20));
    assert_false(memory_contains(&memory, 20, UINT64_MAX - 9));
    assert_true(memory_contains(&all, UINT64_MAX - 1, 1));
    assert_false(memory_contains(&all, UINT64_MAX, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sealed_or_not),
        cmocka_unit_test(test_only_within_the_file),
        cmocka_unit_test(test_offset_within_a_page),
        cmocka_unit_test(test_offset_within_a_huge_page),
        cmocka_unit_test(test_read_only_descriptor),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_vanished),
        cmocka_unit_test(test_contains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
