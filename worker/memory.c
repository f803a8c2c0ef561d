#include "worker/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "shm/yama.h"
#include "worker/gpu/mapping.h"

#define STAGING_SIZE (256u * 1024u)

static uint8_t memory_staging[STAGING_SIZE]; /* for private to private; the worker has one thread */

static int map_failed(struct memory *memory, char *text, size_t size, uint64_t length)
{
    int saved = errno;

    snprintf(text, size, "cannot map %llu bytes: %s%s", (unsigned long long)length, strerror(saved),
             saved == ENOMEM ? " (address space, huge pages or RLIMIT_AS of the daemon used up)"
                             : "");
    close(memory->fd);
    memory->fd = -1;
    return saved == ENOMEM ? TS_ERR_NO_MEMORY : TS_ERR_SYSTEM;
}

int memory_map(struct memory *memory, int fd, uint64_t offset, uint64_t length, char *text,
               size_t text_size)
{
    struct segment_facts facts;
    uint64_t skip;
    int rc = TS_ERR_INVALID;

    *memory = (struct memory){.fd = fd, .space = SPACE_NONE, .length = length, .fd_offset = offset};
    if (segment_inspect(fd, &facts) < 0) {
        snprintf(text, text_size, "the descriptor is no regular file or memfd: %s",
                 strerror(errno));
        goto err_close;
    }
    if (length == 0 || length > facts.size || offset > facts.size - length) {
        snprintf(text, text_size, "the file has %llu bytes, the region needs %llu at offset %llu",
                 (unsigned long long)facts.size, (unsigned long long)length,
                 (unsigned long long)offset);
        goto err_close;
    }
    memory->sealed = facts.sealed;
    memory->writable = facts.writable;
    skip = offset % facts.page;
    memory->mapping_size = (length + skip + facts.page - 1) / facts.page * facts.page;
    memory->mapping =
        mmap(NULL, memory->mapping_size, facts.writable ? PROT_READ | PROT_WRITE : PROT_READ,
             MAP_SHARED, fd, (off_t)(offset - skip));
    if (memory->mapping == MAP_FAILED)
        return map_failed(memory, text, text_size, length);
    memory->map = (uint8_t *)memory->mapping + skip;
    return TS_OK;

err_close:
    close(fd);
    memory->fd = -1;
    return rc;
}

static void attach_failed(int error, pid_t pid, char *text, size_t size)
{
    if (error == EPERM || error == EACCES)
        yama_explain(yama_scope(YAMA_SCOPE_PATH), pid, text, size);
    else
        snprintf(text, size, "cannot reach the memory of process %d: %s", (int)pid,
                 strerror(error));
}

/* Proves that the first and the last byte can be reached. */
static int memory_probe(struct memory *memory, char *text, size_t text_size)
{
    uint8_t byte;
    int rc = memory_load(&byte, memory, 0, 1);

    if (rc == TS_OK)
        rc = memory_load(&byte, memory, memory->length - 1, 1);
    if (rc == TS_ERR_GONE)
        snprintf(text, text_size, "the process is gone");
    else if (rc != TS_OK)
        snprintf(text, text_size, "the first or last byte of [%#llx, +%llu) is not mapped",
                 (unsigned long long)memory->base, (unsigned long long)memory->length);
    if (rc != TS_OK)
        memory_release(memory);
    return rc;
}

/* The space is open. */
static int memory_reach(struct memory *memory, uint64_t base, uint64_t length, char *text,
                        size_t text_size)
{
    memory->base = base;
    memory->length = length;
    memory->writable = true;
    if (length == 0 || base > INT64_MAX || length > INT64_MAX - base) {
        snprintf(text, text_size, "the range is empty or wraps around");
        memory_release(memory);
        return TS_ERR_INVALID;
    }
    return memory_probe(memory, text, text_size);
}

void memory_take_gpu(struct memory *memory, struct gpu_mapping *gpu, uint64_t base)
{
    *memory = (struct memory){.fd = -1,
                              .space = SPACE_NONE,
                              .base = base,
                              .length = gpu->length,
                              .writable = true,
                              .gpu = gpu};
}

int memory_attach(struct memory *memory, pid_t pid, uint64_t base, uint64_t length, char *text,
                  size_t text_size)
{
    *memory = (struct memory){.fd = -1, .space = SPACE_NONE};
    if (space_open(&memory->space, pid) == 0)
        return memory_reach(memory, base, length, text, text_size);
    attach_failed(errno, pid, text, text_size);
    return errno == EACCES || errno == EPERM ? TS_ERR_UNSUPPORTED : TS_ERR_GONE;
}

int memory_adopt(struct memory *memory, int fd, uint64_t base, uint64_t length, char *text,
                 size_t text_size)
{
    *memory = (struct memory){.fd = -1, .space = SPACE_NONE};
    if (space_adopt(&memory->space, fd) == 0)
        return memory_reach(memory, base, length, text, text_size);
    snprintf(text, text_size, "the descriptor is no address space");
    return TS_ERR_INVALID;
}

void memory_release(struct memory *memory)
{
    if (memory->gpu != NULL)
        gpu_mapping_release(memory->gpu);
    if (memory->mapping != NULL && memory->mapping != MAP_FAILED)
        munmap(memory->mapping, memory->mapping_size);
    if (memory->fd >= 0)
        close(memory->fd);
    space_close(&memory->space);
    *memory = (struct memory){.fd = -1, .space = SPACE_NONE};
}

/* A mapping of ours whose pages may vanish: the kernel copies and answers EFAULT.  It may stop
 * early at a page boundary: go on until done or stuck. */
static int mapping_move(bool store, void *here, uint8_t *there, size_t length)
{
    size_t done = 0;

    while (done < length) {
        struct iovec local = {.iov_base = (uint8_t *)here + done, .iov_len = length - done};
        struct iovec remote = {.iov_base = there + done, .iov_len = length - done};
        ssize_t moved = store ? process_vm_writev(getpid(), &local, 1, &remote, 1, 0)
                              : process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

        if (moved <= 0)
            return TS_ERR_FAULT;
        done += (size_t)moved;
    }
    return TS_OK;
}

int memory_load(void *buffer, const struct memory *from, uint64_t offset, size_t length)
{
    if (from->map == NULL)
        return space_load(&from->space, buffer, from->base + offset, length);
    if (from->sealed) {
        memcpy(buffer, from->map + offset, length);
        return TS_OK;
    }
    return mapping_move(false, buffer, from->map + offset, length);
}

int memory_store(const struct memory *to, uint64_t offset, const void *buffer, size_t length)
{
    if (to->map == NULL)
        return space_store(&to->space, to->base + offset, buffer, length);
    if (to->sealed) {
        memcpy(to->map + offset, buffer, length);
        return TS_OK;
    }
    return mapping_move(true, (void *)(uintptr_t)buffer, to->map + offset, length);
}

int memory_copy(const struct memory *to, uint64_t to_offset, const struct memory *from,
                uint64_t from_offset, size_t length)
{
    if (from->map == NULL && to->map != NULL)
        return space_load_seen(&from->space, to->map + to_offset, from->base + from_offset, length);
    if (from->map != NULL && (from->sealed || to->map == NULL))
        return memory_store(to, to_offset, from->map + from_offset, length);
    if (from->map != NULL && to->sealed)
        return memory_load(to->map + to_offset, from, from_offset, length);
    /* Neither side may be touched by our own loads: the kernel copies file to file directly, two
     * processes need a stop in between. */
    if (from->map != NULL)
        return mapping_move(false, to->map + to_offset, from->map + from_offset, length);
    for (size_t done = 0; done < length;) {
        size_t part = length - done < STAGING_SIZE ? length - done : STAGING_SIZE;
        int rc = memory_load(memory_staging, from, from_offset + done, part);

        if (rc == TS_OK)
            rc = memory_store(to, to_offset + done, memory_staging, part);
        if (rc != TS_OK)
            return rc;
        done += part;
    }
    return TS_OK;
}
