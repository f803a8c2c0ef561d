/* Virtual memory management: physical pieces, reservations, mappings, and descriptors to share. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/cuda.h"

static struct list handles = {&handles, &handles};
static struct list reservations = {&reservations, &reservations};

static struct standin_handle *handle_check(const char *call, cuda_memory id)
{
    list_each (node, following, &handles) {
        struct standin_handle *handle = list_entry(node, struct standin_handle, node);

        if (handle->id == id && handle->references)
            return handle;
    }
    standin_die("%s: 0x%llx is no handle, or was released", call, id);
}

static struct standin_handle *handle_new(struct standin_block *memory)
{
    static cuda_memory next_id = 0x5000;
    struct standin_handle *handle = calloc(1, sizeof(*handle));

    if (!handle)
        standin_die("no memory for the stand-in itself");
    handle->id = next_id += 0x10;
    handle->references = 1;
    handle->memory = memory;
    handle->size = memory->size;
    list_append(&handles, &handle->node);
    standin_count->handles++;
    return handle;
}

/* The memory lives as long as somebody has the handle or a mapping. */
static void handle_put(struct standin_handle *handle)
{
    if (handle->references || handle->mappings)
        return;
    list_remove(&handle->node);
    munmap(handle->memory->mapped, handle->memory->mapped_size);
    close(handle->memory->fd);
    free(handle->memory);
    free(handle);
}

static void properties_check(const char *call, const struct cuda_allocation *properties)
{
    if (properties->type != CUDA_ALLOCATION_PINNED ||
        properties->location.type != CUDA_LOCATION_DEVICE || properties->location.id < 0 ||
        properties->location.id >= standin_device_count || properties->win32HandleMetaData)
        standin_die("%s: the properties are not those of memory on a device of this process", call);
}

enum cuda_result cuMemGetAllocationGranularity(size_t *granularity,
                                               const struct cuda_allocation *properties,
                                               enum cuda_granularity option)
{
    (void)option;
    STANDIN_ENTER("cuMemGetAllocationGranularity");
    properties_check("cuMemGetAllocationGranularity", properties);
    *granularity = STANDIN_GRANULARITY;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemCreate(cuda_memory *out, size_t size,
                             const struct cuda_allocation *properties, unsigned long long flags)
{
    struct standin_handle *handle;
    struct standin_block *memory;

    STANDIN_ENTER("cuMemCreate");
    properties_check("cuMemCreate", properties);
    if (flags || !size || size % STANDIN_GRANULARITY)
        standin_die("cuMemCreate: %zu bytes are no multiple of the granularity, or flags are set",
                    size);
    memory = standin_block_new(STANDIN_MAPPED, properties->location.id);
    if (standin_memory_make(memory, size, 0, properties->requestedHandleTypes)) {
        free(memory);
        return standin_leave(CUDA_OUT_OF_MEMORY);
    }
    handle = handle_new(memory);
    handle->properties = *properties;
    *out = handle->id;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemRelease(cuda_memory id)
{
    struct standin_handle *handle;

    STANDIN_ENTER("cuMemRelease");
    handle = handle_check("cuMemRelease", id);
    handle->references--;
    standin_count->handles--;
    handle_put(handle);
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemGetAllocationPropertiesFromHandle(struct cuda_allocation *properties,
                                                        cuda_memory id)
{
    STANDIN_ENTER("cuMemGetAllocationPropertiesFromHandle");
    *properties = handle_check("cuMemGetAllocationPropertiesFromHandle", id)->properties;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemAddressReserve(cuda_pointer *address, size_t size, size_t alignment,
                                     cuda_pointer hint, unsigned long long flags)
{
    struct standin_reservation *reservation;

    (void)hint;
    STANDIN_ENTER("cuMemAddressReserve");
    if (flags || !size || size % STANDIN_GRANULARITY || (alignment & (alignment - 1)))
        standin_die("cuMemAddressReserve: %zu bytes, alignment %zu, flags 0x%llx", size, alignment,
                    flags);
    reservation = calloc(1, sizeof(*reservation));
    if (!reservation)
        standin_die("no memory for the stand-in itself");
    if (alignment < STANDIN_GRANULARITY)
        alignment = STANDIN_GRANULARITY;
    reservation->address = standin_addresses_take(size, alignment);
    reservation->size = size;
    list_append(&reservations, &reservation->node);
    standin_count->reservations++;
    *address = reservation->address;
    return standin_leave(CUDA_OK);
}

static struct standin_reservation *reservation_find(cuda_pointer address, size_t size)
{
    list_each (node, following, &reservations) {
        struct standin_reservation *one = list_entry(node, struct standin_reservation, node);

        if (address >= one->address && address - one->address <= one->size &&
            size <= one->size - (address - one->address))
            return one;
    }
    return NULL;
}

static struct standin_block *overlapping(cuda_pointer address, size_t size)
{
    list_each (node, following, &standin_blocks) {
        struct standin_block *block = list_entry(node, struct standin_block, node);

        if (block->kind == STANDIN_MAPPED && address < block->address + block->size &&
            block->address < address + size)
            return block;
    }
    return NULL;
}

enum cuda_result cuMemAddressFree(cuda_pointer address, size_t size)
{
    struct standin_reservation *reservation;

    STANDIN_ENTER("cuMemAddressFree");
    reservation = reservation_find(address, size);
    if (!reservation || reservation->address != address || reservation->size != size)
        standin_die("cuMemAddressFree: %zu bytes at 0x%llx are no reservation", size, address);
    if (overlapping(address, size))
        standin_die("cuMemAddressFree: something is still mapped at 0x%llx", address);
    list_remove(&reservation->node);
    free(reservation);
    standin_count->reservations--;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemMap(cuda_pointer address, size_t size, size_t offset, cuda_memory id,
                          unsigned long long flags)
{
    struct standin_reservation *reservation;
    struct standin_handle *handle;
    struct standin_block *block;

    STANDIN_ENTER("cuMemMap");
    handle = handle_check("cuMemMap", id);
    reservation = reservation_find(address, size);
    /* Whoever imports a handle cannot know its size: that is the driver's to refuse. */
    if (handle->imported && size > handle->size)
        return standin_leave(CUDA_INVALID_VALUE);
    if (offset || flags || !size || size > handle->size || address % STANDIN_GRANULARITY ||
        size % STANDIN_GRANULARITY)
        standin_die("cuMemMap: %zu bytes from %zu of a handle of %zu at 0x%llx, flags 0x%llx", size,
                    offset, handle->size, address, flags);
    if (!reservation)
        standin_die("cuMemMap: %zu bytes at 0x%llx are not reserved", size, address);
    if (overlapping(address, size))
        standin_die("cuMemMap: something is mapped at 0x%llx", address);
    block = standin_block_new(STANDIN_MAPPED, handle->memory->device);
    block->address = address;
    block->size = size;
    block->bytes = handle->memory->bytes;
    block->handle = handle;
    block->reservation = reservation;
    block->readable = block->writable = false; /* until cuMemSetAccess */
    list_append(&standin_blocks, &block->node);
    handle->mappings++;
    standin_count->mappings++;
    return standin_leave(CUDA_OK);
}

/* The pieces that make up exactly [address, address + size), one after the other. */
static struct standin_block *piece_check(const char *call, cuda_pointer address, size_t size)
{
    struct standin_block *block = standin_block_find(address);

    if (!block || block->kind != STANDIN_MAPPED || block->address != address || block->size > size)
        standin_die("%s: at 0x%llx no mapping begins that ends within %zu bytes", call, address,
                    size);
    return block;
}

enum cuda_result cuMemUnmap(cuda_pointer address, size_t size)
{
    STANDIN_ENTER("cuMemUnmap");
    while (size) {
        struct standin_block *block = piece_check("cuMemUnmap", address, size);
        struct standin_handle *handle = block->handle;

        address += block->size;
        size -= block->size;
        standin_block_free("cuMemUnmap", block);
        handle->mappings--;
        handle_put(handle);
        standin_count->mappings--;
    }
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemSetAccess(cuda_pointer address, size_t size,
                                const struct cuda_access_description *description, size_t count)
{
    STANDIN_ENTER("cuMemSetAccess");
    for (size_t i = 0; i < count; i++) {
        if (description[i].location.type != CUDA_LOCATION_DEVICE ||
            description[i].location.id < 0 || description[i].location.id >= standin_device_count)
            standin_die("cuMemSetAccess: no device %d", description[i].location.id);
    }
    while (size) {
        struct standin_block *block = piece_check("cuMemSetAccess", address, size);

        for (size_t i = 0; i < count; i++) {
            block->readable = description[i].flags != CUDA_ACCESS_NONE;
            block->writable = description[i].flags == CUDA_ACCESS_READ_WRITE;
        }
        address += block->size;
        size -= block->size;
    }
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemRetainAllocationHandle(cuda_memory *out, void *address)
{
    const struct standin_block *block;

    STANDIN_ENTER("cuMemRetainAllocationHandle");
    block = standin_block_find((cuda_pointer)(uintptr_t)address);
    if (!block || !block->handle)
        return standin_leave(CUDA_INVALID_VALUE);
    block->handle->references++;
    standin_count->handles++;
    *out = block->handle->id;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemExportToShareableHandle(void *out, cuda_memory id, enum cuda_handle_type type,
                                              unsigned long long flags)
{
    const struct standin_handle *handle;
    char path[64];
    int fd;

    STANDIN_ENTER("cuMemExportToShareableHandle");
    handle = handle_check("cuMemExportToShareableHandle", id);
    if (type != CUDA_HANDLE_POSIX_FD || flags)
        standin_die("cuMemExportToShareableHandle: type %d, flags 0x%llx", (int)type, flags);
    if (!(handle->properties.requestedHandleTypes & CUDA_HANDLE_POSIX_FD))
        return standin_leave(CUDA_INVALID_VALUE);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", handle->memory->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return standin_leave(CUDA_OUT_OF_MEMORY);
    memcpy(out, &fd, sizeof(fd));
    standin_count->ipc_exported++;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuMemImportFromShareableHandle(cuda_memory *out, void *shared,
                                                enum cuda_handle_type type)
{
    struct standin_trailer trailer;
    struct standin_handle *handle;
    struct standin_block *memory;
    cuda_device device;
    int fd;

    STANDIN_ENTER("cuMemImportFromShareableHandle");
    if (type != CUDA_HANDLE_POSIX_FD)
        standin_die("cuMemImportFromShareableHandle: type %d", (int)type);
    fd = fcntl((int)(intptr_t)shared, F_DUPFD_CLOEXEC, 0); /* the caller closes his own */
    if (fd < 0)
        return standin_leave(CUDA_INVALID_VALUE);
    memory = standin_block_new(STANDIN_MAPPED, 0);
    if (!standin_memory_open(memory, fd, &trailer))
        goto err_close;
    device = standin_device_find(&trailer.uuid);
    if (trailer.kind != STANDIN_MAPPED || !(trailer.handle_types & CUDA_HANDLE_POSIX_FD) ||
        device < 0)
        goto err_unmap;
    memory->device = device;
    handle = handle_new(memory);
    handle->imported = true;
    handle->properties.type = CUDA_ALLOCATION_PINNED;
    handle->properties.requestedHandleTypes = (enum cuda_handle_type)trailer.handle_types;
    handle->properties.location.type = CUDA_LOCATION_DEVICE;
    handle->properties.location.id = device;
    *out = handle->id;
    return standin_leave(CUDA_OK);

err_unmap:
    munmap(memory->mapped, memory->mapped_size);
err_close:
    close(fd);
    free(memory);
    return standin_leave(CUDA_INVALID_VALUE);
}
