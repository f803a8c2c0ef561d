/* What a pointer is: the only calls that may be asked about pointers of others. */
#include <string.h>

#include "tests/standin/cuda.h"

static void reservation_of(const struct standin_block *block, cuda_pointer *start, size_t *size)
{
    *start = block->reservation ? block->reservation->address : block->address;
    *size = block->reservation ? block->reservation->size : block->size;
}

static enum cuda_result attribute_get(const struct standin_block *block, cuda_pointer address,
                                      enum cuda_pointer_attribute attribute, void *data)
{
    bool device = standin_is_on_device(block);
    cuda_pointer start;
    size_t size;

    reservation_of(block, &start, &size);
    switch (attribute) {
    case CUDA_POINTER_CONTEXT:
        /* Memory of cuMemMap belongs to no context. */
        *(struct cuda_context **)data = block->kind == STANDIN_MAPPED ? NULL : block->context;
        return CUDA_OK;
    case CUDA_POINTER_MEMORY_TYPE:
        *(unsigned int *)data = device ? CUDA_MEMORY_DEVICE : CUDA_MEMORY_HOST;
        return CUDA_OK;
    case CUDA_POINTER_DEVICE_POINTER:
        *(cuda_pointer *)data = address;
        return CUDA_OK;
    case CUDA_POINTER_HOST_POINTER:
        if (device && block->kind != STANDIN_MANAGED)
            return CUDA_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        return CUDA_OK;
    case CUDA_POINTER_SYNC_MEMOPS:
        *(int *)data = block->sync_memops;
        return CUDA_OK;
    case CUDA_POINTER_BUFFER_ID:
        *(unsigned long long *)data = block->id;
        return CUDA_OK;
    case CUDA_POINTER_IS_MANAGED:
        *(int *)data = block->kind == STANDIN_MANAGED;
        return CUDA_OK;
    case CUDA_POINTER_DEVICE_ORDINAL:
        *(int *)data = block->device;
        return CUDA_OK;
    case CUDA_POINTER_IPC_CAPABLE:
        *(int *)data = block->kind == STANDIN_DEVICE;
        return CUDA_OK;
    case CUDA_POINTER_RANGE_START:
        *(cuda_pointer *)data = start;
        return CUDA_OK;
    case CUDA_POINTER_RANGE_SIZE:
        *(size_t *)data = size;
        return CUDA_OK;
    case CUDA_POINTER_MAPPED:
        *(int *)data = 1;
        return CUDA_OK;
    case CUDA_POINTER_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data =
            block->handle ? (unsigned long long)block->handle->properties.requestedHandleTypes : 0;
        return CUDA_OK;
    case CUDA_POINTER_RDMA_CAPABLE:
        *(int *)data = block->kind == STANDIN_DEVICE ||
                       (block->handle && block->handle->properties.allocFlags.gpuDirectRDMACapable);
        return CUDA_OK;
    case CUDA_POINTER_MAPPING_SIZE:
        *(size_t *)data = block->size;
        return CUDA_OK;
    case CUDA_POINTER_MAPPING_BASE:
        *(cuda_pointer *)data = block->address;
        return CUDA_OK;
    default:
        standin_die("cuPointerGetAttribute: attribute %d is not known here", (int)attribute);
    }
}

enum cuda_result cuPointerGetAttribute(void *data, enum cuda_pointer_attribute attribute,
                                       cuda_pointer address)
{
    const struct standin_block *block;

    STANDIN_ENTER("cuPointerGetAttribute");
    if (!data)
        standin_die("cuPointerGetAttribute: no place for the answer");
    block = standin_block_find(address);
    return standin_leave(block ? attribute_get(block, address, attribute, data)
                               : CUDA_INVALID_VALUE);
}

/* The number of bytes that the driver writes for each. */
static size_t attribute_size(enum cuda_pointer_attribute attribute)
{
    switch (attribute) {
    case CUDA_POINTER_MEMORY_TYPE:
    case CUDA_POINTER_SYNC_MEMOPS:
    case CUDA_POINTER_IS_MANAGED:
    case CUDA_POINTER_DEVICE_ORDINAL:
    case CUDA_POINTER_IPC_CAPABLE:
    case CUDA_POINTER_MAPPED:
    case CUDA_POINTER_RDMA_CAPABLE:
        return sizeof(int);
    default:
        return sizeof(cuda_pointer);
    }
}

/* A pointer that the driver does not know is no failure here: its attributes are all 0. */
enum cuda_result cuPointerGetAttributes(unsigned int count, enum cuda_pointer_attribute *attributes,
                                        void **data, cuda_pointer address)
{
    const struct standin_block *block;

    STANDIN_ENTER("cuPointerGetAttributes");
    block = standin_block_find(address);
    for (unsigned int i = 0; i < count; i++) {
        memset(data[i], 0, attribute_size(attributes[i]));
        if (block)
            attribute_get(block, address, attributes[i], data[i]);
        else if (attributes[i] == CUDA_POINTER_DEVICE_ORDINAL)
            *(int *)data[i] = -2;
    }
    return standin_leave(CUDA_OK);
}

enum cuda_result cuPointerSetAttribute(const void *value, enum cuda_pointer_attribute attribute,
                                       cuda_pointer address)
{
    struct standin_block *block;

    STANDIN_ENTER("cuPointerSetAttribute");
    if (attribute != CUDA_POINTER_SYNC_MEMOPS)
        standin_die("cuPointerSetAttribute: only SYNC_MEMOPS can be set");
    block = standin_block_find(address);
    if (!block || !standin_is_on_device(block) || block->kind == STANDIN_MANAGED)
        return standin_leave(CUDA_INVALID_VALUE);
    block->sync_memops = *(const int *)value != 0;
    standin_count->sync_memops++;
    return standin_leave(CUDA_OK);
}

/* One piece of a reservation with several: what comes behind it is not in the answer. */
enum cuda_result cuMemGetAddressRange(cuda_pointer *base, size_t *size, cuda_pointer address)
{
    const struct standin_block *block;

    STANDIN_ENTER("cuMemGetAddressRange");
    standin_context("cuMemGetAddressRange");
    block = standin_block_find(address);
    if (!block || !standin_is_on_device(block))
        return standin_leave(CUDA_NOT_FOUND);
    if (base)
        *base = block->address;
    if (size)
        *size = block->size;
    return standin_leave(CUDA_OK);
}
