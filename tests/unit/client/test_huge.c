/* Huge pages are made of what is there, and of nothing else. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/internal.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE  (UINT64_C(2) << 20)
#define PAGES 4 /* whole huge pages of the mapping */
#define PAGE  UINT64_C(4096)

static uint8_t *area; /* PAGES huge pages and what alignment takes */
static uint8_t *first;

static uint64_t asked; /* bytes for which huge pages were asked */

/* In place of libc's: what is asked is counted, whatever the kernel makes of it. */
int madvise(void *at, size_t length, int advice)
{
    if (advice == MADV_COLLAPSE)
        asked += length;
    return (int)syscall(SYS_madvise, at, length, advice);
}

static int area_make(void **state)
{
    (void)state;
    area =
        mmap(NULL, (PAGES + 1) * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return -1;
    first = (uint8_t *)(((uintptr_t)area + HUGE - 1) & ~(HUGE - 1));
    asked = 0;
    return 0;
}

/* By page faults there shall be none. */
static int small_make(void **state)
{
    return area_make(state) < 0 ? -1 : madvise(area, (PAGES + 1) * HUGE, MADV_NOHUGEPAGE);
}

static int area_drop(void **state)
{
    (void)state;
    return munmap(area, (PAGES + 1) * HUGE);
}

/* KiB of a field of smaps, over the area. */
static uint64_t kib(const char *field)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    uint64_t low = (uintptr_t)area, high = low + (PAGES + 1) * HUGE, total = 0;
    bool inside = false;
    char line[512], *after;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        uint64_t from = strtoul(line, &after, 16);

        if (*after == '-')
            inside = from >= low && from < high;
        else if (inside && strncmp(line, field, strlen(field)) == 0)
            total += strtoul(line + strlen(field) + 1, NULL, 10);
    }
    fclose(maps);
    return total;
}

static void touch(uint8_t *at, uint64_t length)
{
    for (uint64_t i = 0; i < length; i += PAGE)
        at[i] = (uint8_t)(i / PAGE * 7 + 1);
}

static void verify(const uint8_t *at, uint64_t length)
{
    for (uint64_t i = 0; i < length; i += PAGE)
        assert_int_equal(at[i], (uint8_t)(i / PAGE * 7 + 1));
}

static void test_whole_and_touched(void **state)
{
    uint64_t before;

    (void)state;
    touch(first, PAGES * HUGE);
    before = kib("Rss:");
    huge_pages_make((uintptr_t)first + 1, PAGES * HUGE - 2); /* a byte short at either end */
    assert_int_equal(asked, (PAGES - 2) * HUGE);
    assert_int_equal(kib("Rss:"), before);
    verify(first, PAGES * HUGE);
    if (madvise(first, HUGE, MADV_COLLAPSE) ==
        0) /* some kernels cannot, some machines have none left */
        assert_true(kib("AnonHugePages:") >= (PAGES - 1) * HUGE / 1024);
}

static void test_holes_stay_empty(void **state)
{
    uint64_t before;

    (void)state;
    touch(first, HUGE - PAGE);
    touch(first + HUGE + PAGE, HUGE - PAGE);
    before = kib("Rss:");
    huge_pages_make((uintptr_t)area, (PAGES + 1) * HUGE);
    assert_int_equal(asked, 0);
    assert_int_equal(kib("Rss:"), before);
    verify(first, HUGE - PAGE);
}

/* A child that shares the pages would no longer: both would need memory of their own. */
static void test_shared_with_a_child(void **state)
{
    int hold[2];
    pid_t child;
    char byte;

    (void)state;
    touch(first, HUGE);
    assert_int_equal(pipe(hold), 0);
    child = fork();
    if (child == 0) {
        close(hold[1]);
        _exit((int)read(hold[0], &byte, 1));
    }
    assert_true(child > 0);
    huge_pages_make((uintptr_t)first, HUGE);
    assert_int_equal(asked, 0);
    close(hold[0]);
    close(hold[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    touch(first, HUGE);
    huge_pages_make((uintptr_t)first + 1, HUGE); /* no whole one in it */
    huge_pages_make((uintptr_t)first, 0);
    huge_pages_make((uintptr_t)first, HUGE - 1);
    huge_pages_make(UINT64_MAX - HUGE, HUGE); /* no such memory */
    huge_pages_make((uintptr_t)first + PAGES * HUGE, UINT64_C(100)
                                                         << 30); /* far beyond the mapping */
    assert_int_equal(asked, 0);
    verify(first, HUGE);
}

#define SMALL_TEST(name) cmocka_unit_test_setup_teardown(name, small_make, area_drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_and_touched, area_make, area_drop),
        SMALL_TEST(test_holes_stay_empty),
        SMALL_TEST(test_shared_with_a_child),
        SMALL_TEST(test_nothing_to_do),
    };

    return cmocka_run_group_tests_name("client/huge", tests, NULL, NULL);
}
