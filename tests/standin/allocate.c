/* Memory that the driver gives: on the device, managed, and pinned on the host. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/standin/cuda.h"

/* Small allocations begin anywhere within a page, as the driver's do. */
static size_t begin_within_page(size_t size, uint64_t id)
{
    return size < STANDIN_GRANULARITY / 2 ? 512 * (1 + id % 7) : 0;
}

enum cuda_result cuMemAlloc(cuda_pointer *address, size_t size)
{
    struct cuda_context *context;
    struct standin_block *block;
    enum cuda_result dead;
    size_t begin;

    STANDIN_ENTER("cuMemAlloc");
    dead = standin_context_live("cuMemAlloc", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (size == 0)
        return standin_leave(CUDA_INVALID_VALUE);
    block = standin_block_new(STANDIN_DEVICE, context->device);
    begin = begin_within_page(size, block->id);
    if (standin_memory_make(block, size, begin, CUDA_HANDLE_NONE)) {
        free(block);
        return standin_leave(CUDA_OUT_OF_MEMORY);
    }
    block->context = context;
    block->address = standin_addresses_take(begin + size, STANDIN_GRANULARITY) + begin;
    list_append(&standin_blocks, &block->node);
    standin_count->allocations++;
    *address = block->address;
    return standin_leave(CUDA_OK);
}

__attribute__((visibility("default"))) enum cuda_result
cuMemAllocManaged(cuda_pointer *address, size_t size, unsigned int flags);

/* For tests of what is refused: the host may touch it, and nobody else may have it. */
enum cuda_result cuMemAllocManaged(cuda_pointer *address, size_t size, unsigned int flags)
{
    struct cuda_context *context;
    struct standin_block *block;

    STANDIN_ENTER("cuMemAllocManaged");
    context = standin_context("cuMemAllocManaged");
    if (flags != 1 && flags != 2)
        standin_die("cuMemAllocManaged: flags %u", flags);
    block = standin_block_new(STANDIN_MANAGED, context->device);
    if (standin_memory_make(block, size, 0, CUDA_HANDLE_NONE)) {
        free(block);
        return standin_leave(CUDA_OUT_OF_MEMORY);
    }
    block->context = context;
    block->address = (cuda_pointer)(uintptr_t)block->bytes;
    list_append(&standin_blocks, &block->node);
    standin_count->allocations++;
    *address = block->address;
    return standin_leave(CUDA_OK);
}

/* Others hold a lock on what they opened: their kernel object, so it goes with them. */
static bool is_open_elsewhere(const struct standin_block *block)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

    return fcntl(block->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

enum cuda_result cuMemFree(cuda_pointer address)
{
    struct cuda_context *context;
    struct standin_block *block;
    enum cuda_result dead;

    STANDIN_ENTER("cuMemFree");
    dead = standin_context_live("cuMemFree", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (!address)
        return standin_leave(CUDA_OK);
    block = standin_block_find(address);
    if (!block || block->address != address ||
        (block->kind != STANDIN_DEVICE && block->kind != STANDIN_MANAGED))
        standin_die("cuMemFree: 0x%llx is not the beginning of an allocation", address);
    if (is_open_elsewhere(block) &&
        strcmp(standin_env("STANDIN_CUDA_FREE_EXPORTED", "abort"), "allow") != 0)
        standin_die("cuMemFree: another process still has 0x%llx open", address);
    standin_trailer_of(block)->freed = 1;
    standin_block_free("cuMemFree", block);
    standin_count->allocations--;
    return standin_leave(CUDA_OK);
}

static void pinned_add(size_t size)
{
    standin_count->pinned_bytes += size;
    if (standin_count->pinned_bytes > standin_count->pinned_bytes_most)
        standin_count->pinned_bytes_most = standin_count->pinned_bytes;
}

static void pinned_block_add(struct standin_block *block, void *bytes, size_t size,
                             unsigned int flags)
{
    block->bytes = bytes;
    block->address = (cuda_pointer)(uintptr_t)bytes;
    block->size = size;
    block->flags = flags;
    list_append(&standin_blocks, &block->node);
    pinned_add(size);
}

enum cuda_result cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
    struct cuda_context *context;
    struct standin_block *block;
    enum cuda_result dead;
    void *bytes;

    STANDIN_ENTER("cuMemHostAlloc");
    dead = standin_context_live("cuMemHostAlloc", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (flags & ~7U)
        standin_die("cuMemHostAlloc: flags 0x%x", flags);
    bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return standin_leave(size ? CUDA_OUT_OF_MEMORY : CUDA_INVALID_VALUE);
    block = standin_block_new(STANDIN_PINNED, context->device);
    block->context = context;
    pinned_block_add(block, bytes, size, flags);
    block->mapped = bytes;
    block->mapped_size = size;
    standin_count->pinned++;
    *out = bytes;
    return standin_leave(CUDA_OK);
}

static struct standin_block *pinned_find(const char *call, void *bytes, enum standin_kind kind)
{
    struct standin_block *block = standin_block_find((cuda_pointer)(uintptr_t)bytes);

    if (!block || block->kind != kind || block->bytes != bytes)
        standin_die("%s: %p is not the beginning of such memory", call, bytes);
    return block;
}

enum cuda_result cuMemFreeHost(void *bytes)
{
    struct cuda_context *context;
    struct standin_block *block;
    enum cuda_result dead;

    STANDIN_ENTER("cuMemFreeHost");
    dead = standin_context_live("cuMemFreeHost", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    block = pinned_find("cuMemFreeHost", bytes, STANDIN_PINNED);
    standin_count->pinned_bytes -= block->size;
    standin_count->pinned--;
    standin_block_free("cuMemFreeHost", block);
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemHostRegister(void *bytes, size_t size, unsigned int flags)
{
    struct cuda_context *context;
    struct standin_block *block;
    enum cuda_result dead;
    cuda_pointer first = (cuda_pointer)(uintptr_t)bytes;
    cuda_pointer begin = first & ~(STANDIN_PAGE - 1);

    STANDIN_ENTER("cuMemHostRegister");
    dead = standin_context_live("cuMemHostRegister", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (flags & ~15U)
        standin_die("cuMemHostRegister: flags 0x%x", flags);
    if (!bytes || !size)
        return standin_leave(CUDA_INVALID_VALUE);
    if (msync((void *)(uintptr_t)begin, first + size - begin, MS_ASYNC))
        standin_die("cuMemHostRegister: not all of %zu bytes at %p is mapped", size, bytes);
    list_each (node, following, &standin_blocks) {
        const struct standin_block *other = list_entry(node, struct standin_block, node);

        if (!standin_is_on_device(other) && first < other->address + other->size &&
            other->address < first + size)
            return standin_leave(CUDA_HOST_MEMORY_ALREADY_REGISTERED);
    }
    block = standin_block_new(STANDIN_REGISTERED, context->device);
    block->context = context;
    pinned_block_add(block, bytes, size, flags);
    standin_count->registrations++;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemHostUnregister(void *bytes)
{
    struct cuda_context *context;
    struct standin_block *block;
    enum cuda_result dead;

    STANDIN_ENTER("cuMemHostUnregister");
    dead = standin_context_live("cuMemHostUnregister", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    block = pinned_find("cuMemHostUnregister", bytes, STANDIN_REGISTERED);
    standin_count->pinned_bytes -= block->size;
    standin_count->registrations--;
    standin_block_free("cuMemHostUnregister", block);
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemHostGetDevicePointer(cuda_pointer *address, void *bytes, unsigned int flags)
{
    const struct standin_block *block;

    STANDIN_ENTER("cuMemHostGetDevicePointer");
    standin_context("cuMemHostGetDevicePointer");
    if (flags)
        standin_die("cuMemHostGetDevicePointer: flags %u, 0 is the only value", flags);
    block = standin_block_find((cuda_pointer)(uintptr_t)bytes);
    if (!block || standin_is_on_device(block))
        return standin_leave(CUDA_INVALID_VALUE);
    *address = (cuda_pointer)(uintptr_t)bytes;
    return standin_leave(CUDA_OK);
}
