/* Huge pages for private memory: a worker reaches it page by page, and with pages of 2 MiB about
 * half of that time is gone.
 *
 * Only what is there anyway is made anew of them (MADV_COLLAPSE, madvise(2)): 2 MiB of which the
 * process has each page to itself.  So no byte more is resident afterwards, reserved address space
 * stays empty, and later page faults are as they were.  Where the administrator wants no huge
 * pages, none are made. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/internal.h"
#include "shm/clock.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#define HUGE_FOLDER "/sys/kernel/mm/transparent_hugepage/"
#define HUGE_NS_MAX (1000 * CLOCK_NS_PER_MS)

/* proc_pid_pagemap(5): one word per page. */
#define PAGEMAP_PRESENT   (UINT64_C(1) << 63)
#define PAGEMAP_SHMEM     (UINT64_C(1) << 61) /* a file's page, or shared memory */
#define PAGEMAP_EXCLUSIVE (UINT64_C(1) << 56)
#define PAGEMAP_BATCH     2048u /* words read at once */

static bool file_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* A power of two, or 0: there are none, or none are wanted. */
static uint64_t huge_size(void)
{
    char text[64];

    if (!file_text(HUGE_FOLDER "enabled", text, sizeof(text)) || strstr(text, "[never]") != NULL ||
        !file_text(HUGE_FOLDER "hpage_pmd_size", text, sizeof(text)))
        return 0;
    return strtoull(text, NULL, 10);
}

/* Has the process all of these pages, and each for itself alone? */
static bool pages_owned(const uint64_t *words, uint64_t count)
{
    uint64_t all = PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE, any = 0;

    for (uint64_t i = 0; i < count; i++) {
        all &= words[i];
        any |= words[i];
    }
    return all == (PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE) && (any & PAGEMAP_SHMEM) == 0;
}

/* [at, at + pages described) in huge pages of `each` pages.  What the kernel has none for stays as
 * it is. */
static void batch_collapse(uint64_t at, const uint64_t *words, uint64_t count, uint64_t each)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    for (uint64_t i = 0; i + each <= count; i += each)
        if (pages_owned(words + i, each))
            (void)madvise((void *)(uintptr_t)(at + i * page), each * page, MADV_COLLAPSE);
}

/* The kernel needs 0.2 to 1 s for a GiB: what all registrations of a process take together is
 * bounded. */
static void range_collapse(int pagemap, uint64_t at, uint64_t end, uint64_t size)
{
    static _Atomic uint64_t spent_ns;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), each = size / page;
    uint64_t batch = each <= PAGEMAP_BATCH ? PAGEMAP_BATCH / each * each : 0;
    uint64_t words[PAGEMAP_BATCH];

    while (batch > 0 && at < end && atomic_peek(&spent_ns) < HUGE_NS_MAX) {
        uint64_t count = (end - at) / page < batch ? (end - at) / page : batch;
        uint64_t began = clock_now();
        ssize_t got =
            pread(pagemap, words, count * sizeof(*words), (off_t)(at / page * sizeof(*words)));

        if (got != (ssize_t)(count * sizeof(*words)))
            return;
        batch_collapse(at, words, count, each);
        atomic_fetch_add_explicit(&spent_ns, clock_now() - began, memory_order_relaxed);
        at += count * page;
    }
}

void huge_pages_make(uint64_t base, uint64_t length)
{
    uint64_t size = huge_size();
    uint64_t begin = size > 0 ? (base + size - 1) & ~(size - 1) : 0;
    uint64_t end = size > 0 ? (base + length) & ~(size - 1) : 0;
    int pagemap;

    if (begin < base || begin >= end) /* whole pages only: what lies beside is not ours to judge */
        return;
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0)
        return;
    range_collapse(pagemap, begin, end, size);
    close(pagemap);
}
