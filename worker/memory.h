/* Memory that bytes come from and go to: a mapped file, or a range of another process.
 *
 * Rules that keep a worker alive whatever an application does with its memory:
 *  - loads and stores of our own touch only sealed memfds, whose pages cannot vanish;
 *  - every other mapping is touched by the kernel on our behalf (socket calls, process_vm_* on
 *    ourselves), which answers EFAULT where a load would raise SIGBUS;
 *  - private memory is reached through its address space (worker/space.h), which is never
 *    mistaken for another program's.  Like a NIC, that does not ask for the page's protection.
 */
#ifndef TESUP_WORKER_MEMORY_H
#define TESUP_WORKER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "worker/space.h"

struct gpu_mapping;

struct memory {
    uint64_t length;
    uint64_t base; /* address in the owner, for requests by address and for private memory */
    /* mapped files */
    uint8_t *map;  /* first byte of the memory; NULL for private memory */
    void *mapping; /* what munmap gets */
    size_t mapping_size;
    int fd; /* kept to export it to workers of the same host; -1 none */
    uint64_t fd_offset;
    bool sealed; /* our own loads and stores are safe */
    bool writable;
    /* private memory */
    struct space space;
    /* memory of a GPU: nothing here copies it (worker/gpu/staging.h) */
    struct gpu_mapping *gpu; /* NULL: host memory */
};

/* Maps [offset, offset + length) of `fd`, which becomes the memory's. Checks the file's size first.
 * TS_OK; an error with a sentence in `text` (the fd is closed). */
int memory_map(struct memory *memory, int fd, uint64_t offset, uint64_t length, char *text,
               size_t text_size);
/* Attaches to [base, base + length) of process `pid` and proves that it can be reached. */
int memory_attach(struct memory *memory, pid_t pid, uint64_t base, uint64_t length, char *text,
                  size_t text_size);
/* The same by a descriptor of the address space, which becomes the memory's. */
int memory_adopt(struct memory *memory, int fd, uint64_t base, uint64_t length, char *text,
                 size_t text_size);
/* Memory of a GPU; the mapping's holder becomes the memory. */
void memory_take_gpu(struct memory *memory, struct gpu_mapping *gpu, uint64_t base);
void memory_release(struct memory *memory);

/* One copy. TS_OK, TS_ERR_FAULT (vanished or unmapped), TS_ERR_GONE (the process is gone).
 * Ranges were checked by the caller. */
int memory_copy(const struct memory *to, uint64_t to_offset, const struct memory *from,
                uint64_t from_offset, size_t length);
/* To and from a buffer of this process that nobody else sees: a load that failed may have left
 * anything in it. */
int memory_load(void *buffer, const struct memory *from, uint64_t offset, size_t length);
int memory_store(const struct memory *to, uint64_t offset, const void *buffer, size_t length);

/* Of a process, by address. What has no bytes (an event's region) is not. */
static inline bool memory_is_private(const struct memory *memory)
{
    return memory->map == NULL && memory->gpu == NULL && memory->length > 0;
}

/* May [offset, offset + length) be touched?  Never overflows. */
static inline bool memory_contains(const struct memory *memory, uint64_t offset, uint64_t length)
{
    return length <= memory->length && offset <= memory->length - length;
}

#endif
