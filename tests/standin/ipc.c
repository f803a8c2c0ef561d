/* IPC of cuMemAlloc's memory: the handle says in which process, under which descriptor, and which
 * random number must be found there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/cuda.h"

#define IPC_MAGIC "cudaipc"

_Static_assert(sizeof(struct standin_ipc) <= sizeof(struct cuda_ipc_memory), "fits in 64 bytes");

int standin_ipc_open(const struct standin_ipc *ipc)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc->process, ipc->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

enum cuda_result cuIpcGetMemHandle(struct cuda_ipc_memory *handle, cuda_pointer address)
{
    struct standin_ipc ipc = {.process = getpid()};
    const struct standin_block *block;
    struct cuda_context *context;
    enum cuda_result dead;

    STANDIN_ENTER("cuIpcGetMemHandle");
    dead = standin_context_live("cuIpcGetMemHandle", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    block = standin_block_find(address);
    if (!block)
        standin_die("cuIpcGetMemHandle: 0x%llx is in no allocation of this process", address);
    if (block->kind != STANDIN_DEVICE)
        return standin_leave(CUDA_INVALID_VALUE);
    /* The driver takes it, and the handle is that of the whole allocation: nobody means that. */
    if (block->address != address)
        standin_die("cuIpcGetMemHandle: 0x%llx is not the beginning of its allocation", address);
    memcpy(ipc.magic, IPC_MAGIC, sizeof(ipc.magic));
    ipc.fd = block->fd;
    ipc.nonce = block->nonce;
    ipc.size = block->size;
    ipc.uuid = standin_devices[block->device].uuid;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &ipc, sizeof(ipc));
    standin_count->ipc_exported++;
    return standin_leave(CUDA_OK);
}

static struct standin_block *opened_find(uint64_t nonce)
{
    list_each (node, following, &standin_blocks) {
        struct standin_block *block = list_entry(node, struct standin_block, node);

        if (block->kind == STANDIN_OPENED && block->nonce == nonce)
            return block;
    }
    return NULL;
}

/* What the handle names, mapped; NULL with the driver's error. */
static struct standin_block *memory_map_named(const struct standin_ipc *ipc, cuda_device device,
                                              enum cuda_result *why)
{
    struct standin_block *block;
    struct standin_trailer trailer;
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    int fd = standin_ipc_open(ipc);

    if (fd < 0) {
        *why = errno == EACCES ? CUDA_NOT_PERMITTED : CUDA_INVALID_HANDLE;
        return NULL;
    }
    block = standin_block_new(STANDIN_OPENED, device);
    *why = CUDA_INVALID_HANDLE;
    if (!standin_memory_open(block, fd, &trailer))
        goto err_close;
    if (trailer.nonce != ipc->nonce || trailer.freed || trailer.kind != STANDIN_DEVICE ||
        fcntl(fd, F_OFD_SETLK, &lock))
        goto err_unmap;
    return block;

err_unmap:
    munmap(block->mapped, block->mapped_size);
err_close:
    close(fd);
    free(block);
    return NULL;
}

enum cuda_result cuIpcOpenMemHandle(cuda_pointer *address, struct cuda_ipc_memory handle,
                                    unsigned int flags)
{
    struct cuda_context *context;
    struct standin_block *block;
    struct standin_ipc ipc;
    enum cuda_result result;
    cuda_device owner;

    STANDIN_ENTER("cuIpcOpenMemHandle");
    result = standin_context_live("cuIpcOpenMemHandle", &context);
    if (result != CUDA_OK)
        return standin_leave(result);
    if (flags != CUDA_IPC_LAZY_PEER_ACCESS)
        standin_die("cuIpcOpenMemHandle: flags %u, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS is the only "
                    "value",
                    flags);
    memcpy(&ipc, &handle, sizeof(ipc));
    if (memcmp(ipc.magic, IPC_MAGIC, sizeof(ipc.magic)) != 0)
        return standin_leave(CUDA_INVALID_VALUE);
    if (ipc.process == getpid())
        return standin_leave(CUDA_INVALID_CONTEXT);
    owner = standin_device_find(&ipc.uuid);
    if (owner < 0)
        return standin_leave(CUDA_INVALID_DEVICE);
    if (owner != context->device && strcmp(standin_env("STANDIN_CUDA_PEER", "1"), "0") == 0)
        return standin_leave(CUDA_PEER_ACCESS_UNSUPPORTED);
    block = opened_find(ipc.nonce);
    if (!block) {
        block = memory_map_named(&ipc, owner, &result);
        if (!block)
            return standin_leave(result);
        block->context = context;
        block->address = standin_addresses_take(block->size, STANDIN_GRANULARITY);
        list_append(&standin_blocks, &block->node);
    } else if (block->context != context) {
        standin_die("cuIpcOpenMemHandle: the memory is open in another context of this process");
    }
    block->opened++;
    standin_count->ipc_opened++;
    *address = block->address;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuIpcCloseMemHandle(cuda_pointer address)
{
    struct cuda_context *context;
    struct standin_block *block;
    enum cuda_result dead;

    STANDIN_ENTER("cuIpcCloseMemHandle");
    dead = standin_context_live("cuIpcCloseMemHandle", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    block = standin_block_find(address);
    if (!block || block->kind != STANDIN_OPENED || block->address != address)
        standin_die("cuIpcCloseMemHandle: 0x%llx is no address that cuIpcOpenMemHandle gave",
                    address);
    standin_count->ipc_opened--;
    if (--block->opened == 0)
        standin_block_free("cuIpcCloseMemHandle", block);
    return standin_leave(CUDA_OK);
}
