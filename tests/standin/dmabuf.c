/* cuMemGetHandleForAddressRange, and the flush that belongs to it. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/cuda.h"
#include "tests/standin/dmabuf.h"

/* The driver's allocations fill whole pages; ours begin within one. */
static uint32_t pieces_check(cuda_pointer address, size_t size)
{
    const struct standin_block *block = standin_block_find(address);
    cuda_pointer end = address + size;
    uint32_t pieces = 0;
    cuda_device device = -1;

    if (!block) /* the page in which an allocation begins */
        block = standin_block_find(address + STANDIN_PAGE - 1);
    while (block && (pieces == 0 || block->device == device)) {
        cuda_pointer block_end =
            (block->address + block->size + STANDIN_PAGE - 1) & ~(cuda_pointer)(STANDIN_PAGE - 1);

        if (block->kind != STANDIN_DEVICE && block->kind != STANDIN_MAPPED)
            return 0;
        device = block->device;
        pieces++;
        if (block_end >= end)
            return pieces;
        block = block->kind == STANDIN_MAPPED ? standin_block_find(block_end) : NULL;
    }
    standin_die("cuMemGetHandleForAddressRange: %zu bytes at 0x%llx are not all mapped on one "
                "device",
                size, address);
}

enum cuda_result cuMemGetHandleForAddressRange(void *out, cuda_pointer address, size_t size,
                                               enum cuda_range_handle_type type,
                                               unsigned long long flags)
{
    const char *support = standin_env("STANDIN_CUDA_DMABUF", "plain");
    struct standin_dmabuf dmabuf = {.address = address, .size = size, .process = getpid()};
    int fd;

    STANDIN_ENTER("cuMemGetHandleForAddressRange");
    if (type != CUDA_RANGE_DMABUF_FD || (flags & ~(unsigned long long)CUDA_DMABUF_PCIE))
        standin_die("cuMemGetHandleForAddressRange: type %d, flags 0x%llx", (int)type, flags);
    if (!size || address % STANDIN_PAGE || size % STANDIN_PAGE)
        standin_die("cuMemGetHandleForAddressRange: %zu bytes at 0x%llx are no whole pages", size,
                    address);
    if (strcmp(support, "0") == 0)
        return standin_leave(CUDA_NOT_SUPPORTED);
    if (flags && strcmp(support, "pcie") != 0)
        return standin_leave(CUDA_NOT_SUPPORTED);
    memcpy(dmabuf.magic, STANDIN_DMABUF_MAGIC, sizeof(dmabuf.magic));
    dmabuf.pieces = pieces_check(address, size);
    dmabuf.pcie = flags == CUDA_DMABUF_PCIE;
    if (!dmabuf.pieces)
        return standin_leave(CUDA_INVALID_VALUE);
    fd = memfd_create("standin-dmabuf", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) ||
        pwrite(fd, &dmabuf, sizeof(dmabuf), 0) != sizeof(dmabuf))
        standin_die("cannot make a descriptor for a dmabuf");
    memcpy(out, &fd, sizeof(fd));
    standin_count->dmabufs++;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuFlushGPUDirectRDMAWrites(enum cuda_flush_target target,
                                            enum cuda_flush_scope scope)
{
    struct cuda_context *context;
    enum cuda_result dead;

    STANDIN_ENTER("cuFlushGPUDirectRDMAWrites");
    dead = standin_context_live("cuFlushGPUDirectRDMAWrites", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (target != CUDA_FLUSH_CURRENT_CONTEXT ||
        (scope != CUDA_FLUSH_TO_OWNER && scope != CUDA_FLUSH_TO_ALL_DEVICES))
        standin_die("cuFlushGPUDirectRDMAWrites: target %d, scope %d", (int)target, (int)scope);
    if (strcmp(standin_env("STANDIN_CUDA_FLUSH", "1"), "0") == 0)
        return standin_leave(CUDA_NOT_SUPPORTED);
    standin_count->flushes++;
    return standin_leave(CUDA_OK);
}
