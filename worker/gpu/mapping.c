#include "worker/gpu/mapping.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/gpu/vmm.h"
#include "worker/worker.h"

struct gpu_allocation {
    struct list link; /* device.allocations */
    struct gpu_device *device;
    cuda_pointer base;
    size_t size;
    uint32_t users;
    bool ipc; /* else by handles of cuMemCreate */
    uint64_t buffer;
    uint8_t handle[64]; /* of IPC */
    struct gpu_vmm vmm;
};

/* ---- by IPC ---- */

static struct gpu_allocation *ipc_find(const struct gpu_device *device, const struct proto_gpu *ask)
{
    list_each (node, following, &device->allocations) {
        struct gpu_allocation *allocation = list_entry(node, struct gpu_allocation, link);

        if (allocation->ipc && allocation->buffer == ask->buffer &&
            memcmp(allocation->handle, ask->ipc, sizeof(allocation->handle)) == 0)
            return allocation;
    }
    return NULL;
}

static int ipc_open(struct gpu_device *device, const struct proto_gpu *ask,
                    struct gpu_allocation *allocation, char *text, size_t text_size)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    struct cuda_ipc_memory handle;
    enum cuda_result result;
    cuda_pointer base;

    static_assert(sizeof(handle) == sizeof(ask->ipc), "an IPC handle");
    memcpy(&handle, ask->ipc, sizeof(handle));
    result = driver->cuIpcOpenMemHandle(&base, handle, CUDA_IPC_LAZY_PEER_ACCESS);
    if (result != CUDA_OK)
        return gpu_explain(device, "cuIpcOpenMemHandle", result, text, text_size);
    allocation->base = base;
    allocation->ipc = true;
    memcpy(allocation->handle, ask->ipc, sizeof(allocation->handle));
    /* What the job says of its size is not to be believed. */
    result = driver->cuMemGetAddressRange(&base, &allocation->size, allocation->base);
    if (result == CUDA_OK)
        return TS_OK;
    driver->cuIpcCloseMemHandle(allocation->base);
    return gpu_explain(device, "cuMemGetAddressRange", result, text, text_size);
}

/* ---- allocations ---- */

static void allocation_release(struct gpu_allocation *allocation)
{
    struct gpu_device *device = allocation->device;
    const struct cuda_driver *driver = &device->gpu->driver;
    char text[PROTO_TEXT_MAX];
    enum cuda_result result;

    if (--allocation->users > 0)
        return;
    list_remove(&allocation->link);
    result = gpu_device_enter(device);
    if (result == CUDA_OK && allocation->ipc)
        result = driver->cuIpcCloseMemHandle(allocation->base);
    else if (result == CUDA_OK)
        gpu_vmm_close(device, &allocation->vmm);
    if (result != CUDA_OK && !device->gpu->lost)
        gpu_explain(device, "cuIpcCloseMemHandle", result, text, sizeof(text));
    free(allocation);
}

static int vmm_open(struct gpu_device *device, const struct proto_gpu *ask, const int *fds,
                    struct gpu_allocation *allocation, char *text, size_t text_size)
{
    int rc = gpu_vmm_open(device, ask, fds, &allocation->vmm, text, text_size);

    allocation->base = allocation->vmm.base;
    allocation->size = allocation->vmm.size;
    return rc;
}

static int allocation_open(struct gpu_device *device, const struct proto_gpu *ask, const int *fds,
                           struct gpu_allocation **opened, char *text, size_t text_size)
{
    bool ipc = (ask->ways & PROTO_GPU_IPC) != 0;
    struct gpu_allocation *allocation = ipc ? ipc_find(device, ask) : NULL;
    enum cuda_result result;
    int rc;

    if (allocation != NULL) {
        allocation->users++;
        *opened = allocation;
        return TS_OK;
    }
    result = gpu_device_enter(device);
    if (result != CUDA_OK) {
        gpu_explain(device, "cuCtxSetCurrent", result, text, text_size);
        return TS_ERR_FAULT;
    }
    allocation = calloc(1, sizeof(*allocation));
    if (allocation == NULL)
        return TS_ERR_NO_MEMORY;
    allocation->device = device;
    allocation->users = 1;
    allocation->buffer = ask->buffer;
    rc = ipc ? ipc_open(device, ask, allocation, text, text_size)
             : vmm_open(device, ask, fds, allocation, text, text_size);
    if (rc != TS_OK) {
        free(allocation);
        return rc;
    }
    list_append(&device->allocations, &allocation->link);
    *opened = allocation;
    return TS_OK;
}

/* ---- mappings ---- */

static int ask_check(const struct proto_region_gpu *region, int fd_count, enum gpu_owner owner,
                     char *text, size_t text_size)
{
    const struct proto_gpu *ask = &region->gpu;
    uint32_t handles = ask->ways & (PROTO_GPU_IPC | PROTO_GPU_VMM);

    if (region->region.length == 0 || (handles != PROTO_GPU_IPC && handles != PROTO_GPU_VMM) ||
        !proto_gpu_fits(ask, fd_count)) {
        snprintf(text, text_size, "this is no offer of GPU memory");
        return TS_ERR_INVALID;
    }
    if (handles == PROTO_GPU_IPC && owner == GPU_OWNER_JOB) {
        snprintf(text, text_size,
                 "a handle of CUDA IPC could be of anybody's memory: it needs a job of the "
                 "supervisor's own user, or of one in rdma.trust_uids; or use cuMemCreate");
        return TS_ERR_DENIED;
    }
    return TS_OK;
}

static int mapping_fill(struct gpu_mapping *mapping, const struct proto_region_gpu *region,
                        const int *fds, char *text, size_t text_size)
{
    struct gpu_allocation *allocation = NULL;
    int rc = allocation_open(mapping->device, &region->gpu, fds, &allocation, text, text_size);

    if (rc != TS_OK)
        return rc;
    if (region->gpu.offset > allocation->size ||
        region->region.length > allocation->size - region->gpu.offset) {
        snprintf(text, text_size, "the allocation has %llu bytes, the region needs %llu at %llu",
                 (unsigned long long)allocation->size, (unsigned long long)region->region.length,
                 (unsigned long long)region->gpu.offset);
        allocation_release(allocation);
        return TS_ERR_INVALID;
    }
    mapping->allocation = allocation;
    mapping->at = allocation->base + region->gpu.offset;
    return TS_OK;
}

int gpu_mapping_open(struct worker *worker, const struct proto_region_gpu *region, const int *fds,
                     int fd_count, enum gpu_owner owner, struct gpu_mapping **opened, char *text,
                     size_t text_size)
{
    struct gpu_mapping *mapping =
        calloc(1, sizeof(*mapping) + (size_t)fd_count * sizeof(mapping->fds[0]));
    int rc = TS_ERR_NO_MEMORY;
    struct gpu *gpu;

    if (mapping == NULL)
        goto err_close;
    mapping->length = region->region.length;
    mapping->holders = 1;
    mapping->ask = region->gpu;
    mapping->fd_count = fd_count;
    for (int i = 0; i < fd_count; i++)
        mapping->fds[i] = fds[i];
    rc = ask_check(region, fd_count, owner, text, text_size);
    if (rc != TS_OK)
        goto err_close;
    rc = TS_ERR_UNSUPPORTED;
    gpu = gpu_open(worker, text, text_size);
    if (gpu == NULL)
        goto err_close;
    rc = gpu_device_reach(gpu, region->gpu.uuid, owner != GPU_OWNER_PEER, &mapping->device, text,
                          text_size);
    if (rc == TS_OK)
        rc = mapping_fill(mapping, region, mapping->fds, text, text_size);
    if (rc != TS_OK)
        goto err_close;
    *opened = mapping;
    return TS_OK;

err_close:
    for (int i = 0; i < fd_count; i++)
        close(fds[i]);
    free(mapping);
    return rc;
}

void gpu_mapping_release(struct gpu_mapping *mapping)
{
    if (--mapping->holders > 0)
        return;
    allocation_release(mapping->allocation);
    for (int i = 0; i < mapping->fd_count; i++)
        close(mapping->fds[i]);
    free(mapping);
}

int gpu_mapping_dmabuf(const struct gpu_mapping *mapping)
{
    return (mapping->ask.ways & PROTO_GPU_DMABUF) != 0 ? mapping->fds[mapping->fd_count - 1] : -1;
}
