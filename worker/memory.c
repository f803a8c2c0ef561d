#include "worker/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "shm/yama.h"

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

    *memory = (struct memory){.fd = fd, .mem_fd = -1, .length = length, .fd_offset = offset};
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
    if (!segment_maps_range(&facts, offset, length)) {
        snprintf(text, text_size,
                 "offset %llu and length %llu must be multiples of the file's huge pages of %llu "
                 "KiB",
                 (unsigned long long)offset, (unsigned long long)length,
                 (unsigned long long)facts.huge / 1024);
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

int memory_attach(struct memory *memory, pid_t pid, uint64_t base, uint64_t length, char *text,
                  size_t text_size)
{
    char path[32];
    uint8_t byte;

    *memory = (struct memory){
        .fd = -1, .mem_fd = -1, .base = base, .length = length, .pid = pid, .writable = true};
    if (length == 0 || base > UINT64_MAX - length) {
        snprintf(text, text_size, "the range is empty or wraps around");
        return TS_ERR_INVALID;
    }
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    memory->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (memory->mem_fd < 0) {
        attach_failed(errno, pid, text, text_size);
        return errno == EACCES || errno == EPERM ? TS_ERR_UNSUPPORTED : TS_ERR_GONE;
    }
    if (memory_load(&byte, memory, 0, 1) == TS_OK &&
        memory_load(&byte, memory, length - 1, 1) == TS_OK)
        return TS_OK;
    if (errno == EPERM) {
        attach_failed(EPERM, pid, text, text_size);
        memory_release(memory);
        return TS_ERR_UNSUPPORTED;
    }
    snprintf(text, text_size, "the first or last byte of [%#llx, +%llu) is not mapped",
             (unsigned long long)base, (unsigned long long)length);
    memory_release(memory);
    return TS_ERR_FAULT;
}

void memory_release(struct memory *memory)
{
    if (memory->mapping != NULL && memory->mapping != MAP_FAILED)
        munmap(memory->mapping, memory->mapping_size);
    if (memory->fd >= 0)
        close(memory->fd);
    if (memory->mem_fd >= 0)
        close(memory->mem_fd);
    *memory = (struct memory){.fd = -1, .mem_fd = -1};
}

bool memory_alive(const struct memory *memory)
{
    uint8_t byte;

    if (memory->map != NULL)
        return true;
    /* 0: the address space has no users any more (exec, exit).  EIO: alive, this page is not. */
    return pread(memory->mem_fd, &byte, 1, (off_t)memory->base) != 0;
}

/* process_vm_* may stop early at a page boundary: go on until done or stuck. */
static int vm_move(pid_t pid, bool store, void *here, uint64_t there, size_t length)
{
    size_t done = 0;

    while (done < length) {
        struct iovec local = {.iov_base = (uint8_t *)here + done, .iov_len = length - done};
        struct iovec remote = {.iov_base = (void *)(uintptr_t)(there + done),
                               .iov_len = length - done};
        ssize_t moved = store ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
                              : process_vm_readv(pid, &local, 1, &remote, 1, 0);

        if (moved <= 0) {
            if (moved < 0 && errno == ESRCH)
                return TS_ERR_GONE;
            return TS_ERR_FAULT;
        }
        done += (size_t)moved;
    }
    return TS_OK;
}

int memory_load(void *buffer, const struct memory *from, uint64_t offset, size_t length)
{
    if (from->map == NULL) {
        if (!memory_alive(from))
            return TS_ERR_GONE;
        return vm_move(from->pid, false, buffer, from->base + offset, length);
    }
    if (from->sealed) {
        memcpy(buffer, from->map + offset, length);
        return TS_OK;
    }
    return vm_move(getpid(), false, buffer, (uintptr_t)(from->map + offset), length);
}

int memory_store(const struct memory *to, uint64_t offset, const void *buffer, size_t length)
{
    if (to->map == NULL) {
        if (!memory_alive(to))
            return TS_ERR_GONE;
        return vm_move(to->pid, true, (void *)(uintptr_t)buffer, to->base + offset, length);
    }
    if (to->sealed) {
        memcpy(to->map + offset, buffer, length);
        return TS_OK;
    }
    return vm_move(getpid(), true, (void *)(uintptr_t)buffer, (uintptr_t)(to->map + offset),
                   length);
}

int memory_copy(const struct memory *to, uint64_t to_offset, const struct memory *from,
                uint64_t from_offset, size_t length)
{
    if (from->map != NULL && from->sealed)
        return memory_store(to, to_offset, from->map + from_offset, length);
    if (to->map != NULL && to->sealed)
        return memory_load(to->map + to_offset, from, from_offset, length);
    /* Neither side may be touched by our own loads: the kernel copies file to process directly,
     * two processes need a stop in between. */
    if (from->map != NULL)
        return to->map == NULL ? memory_store(to, to_offset, from->map + from_offset, length)
                               : vm_move(getpid(), false, to->map + to_offset,
                                         (uintptr_t)(from->map + from_offset), length);
    if (to->map != NULL)
        return memory_load(to->map + to_offset, from, from_offset, length);
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
