/* Memory that two processes share: memfds, their seals, their place on a NUMA node. */
#ifndef TESUP_SHM_SEGMENT_H
#define TESUP_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed memfd of exactly `size` bytes, sealed SHRINK|GROW|SEAL. The fd, or -1 with errno. */
int segment_create(const char *name, uint64_t size);

/* Why a file may not be mapped, or how it may be touched. */
struct segment_facts {
    uint64_t size;
    uint64_t page; /* offset and length of a mapping are multiples of it; huge for hugetlb */
    bool sealed;   /* cannot shrink and its pages come from RAM: loads and stores never fault */
    bool writable;
    uint64_t huge; /* page size of a hugetlb file; 0 for others */
};
/* Asks the kernel about `fd`. 0, or -1 with errno (EBADF, EINVAL for no regular file). */
int segment_inspect(int fd, struct segment_facts *facts);

/* May [offset, offset + length) of the file be mapped?  A hugetlb file maps whole pages only. */
static inline bool segment_maps_range(const struct segment_facts *facts, uint64_t offset,
                                      uint64_t length)
{
    return facts->huge == 0 || (offset % facts->huge == 0 && length % facts->huge == 0);
}

/* Binds [address, +size) to a node (no effect for node < 0); pages that exist move. 0 or -1. */
int segment_bind(void *address, uint64_t size, int node);
/* The node of the page at `address` (which must have been touched), or -1. */
int segment_node(const void *address);

#endif
