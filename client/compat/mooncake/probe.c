#include "client/compat/mooncake/probe.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

enum probe probe_memory(uint64_t base, uint64_t length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = base & ~(page - 1);
    void *first = (void *)(uintptr_t)begin;

    /* Does nothing but to look for holes between mappings. */
    if (msync(first, base + length - begin, MS_ASYNC) < 0 && errno == ENOMEM)
        return PROBE_UNMAPPED;
    /* A page that may be read but not written.  Reserved pages, those of devices, and kernels that
     * do not know this, refuse both. */
    if (madvise(first, page, MADV_POPULATE_WRITE) < 0 &&
        madvise(first, page, MADV_POPULATE_READ) == 0)
        return PROBE_READ_ONLY;
    return PROBE_PLAIN;
}
