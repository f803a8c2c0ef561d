#include "worker/gpu/vmm.h"

#include "shm/err.h"

/* More than any GPU has, and a sum of such sizes that does not wrap. */
#define PIECE_MAX (UINT64_C(1) << 50)

/* A handle as long as the job says: the driver does not tell an importer.  One that is shorter is
 * refused by cuMemMap. */
static enum cuda_result piece_map(struct gpu_device *device, struct gpu_vmm *vmm, cuda_pointer at,
                                  cuda_memory memory, const char **call)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    struct cuda_allocation facts;
    enum cuda_result result;

    *call = "cuMemGetAllocationPropertiesFromHandle";
    result = driver->cuMemGetAllocationPropertiesFromHandle(&facts, memory);
    if (result == CUDA_OK && facts.location.id != device->device)
        result = CUDA_INVALID_DEVICE; /* it says another device than it said to us */
    if (result != CUDA_OK)
        return result;
    *call = "cuMemMap";
    result = driver->cuMemMap(at, vmm->piece[vmm->mapped], 0, memory, 0);
    if (result == CUDA_OK)
        vmm->mapped++;
    return result;
}

static enum cuda_result piece_open(struct gpu_device *device, struct gpu_vmm *vmm, cuda_pointer at,
                                   int fd, const char **call)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    enum cuda_result result;
    cuda_memory memory;

    *call = "cuMemImportFromShareableHandle";
    result =
        driver->cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, CUDA_HANDLE_POSIX_FD);
    if (result != CUDA_OK)
        return result;
    result = piece_map(device, vmm, at, memory, call);
    driver->cuMemRelease(memory); /* the mapping keeps it */
    return result;
}

/* Their sum; 0 when one of them cannot be. */
static size_t pieces_sum(struct gpu_device *device, const struct proto_gpu *ask)
{
    const struct cuda_allocation shape = {
        .type = CUDA_ALLOCATION_PINNED,
        .location = {.type = CUDA_LOCATION_DEVICE, .id = device->device}};
    size_t grain = 0, sum = 0;

    if (device->gpu->driver.cuMemGetAllocationGranularity(&grain, &shape,
                                                          CUDA_GRANULARITY_MINIMUM) != CUDA_OK ||
        grain == 0)
        return 0;
    for (uint32_t i = 0; i < ask->pieces; i++) {
        if (ask->piece[i] == 0 || ask->piece[i] % grain != 0 || ask->piece[i] > PIECE_MAX)
            return 0;
        sum += ask->piece[i];
    }
    return sum;
}

int gpu_vmm_open(struct gpu_device *device, const struct proto_gpu *ask, const int *fds,
                 struct gpu_vmm *vmm, char *text, size_t text_size)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    const struct cuda_access_description access = {
        .location = {.type = CUDA_LOCATION_DEVICE, .id = device->device},
        .flags = CUDA_ACCESS_READ_WRITE};
    const char *call = "cuMemAddressReserve";
    enum cuda_result result = CUDA_INVALID_VALUE;
    cuda_pointer at;

    *vmm = (struct gpu_vmm){.size = pieces_sum(device, ask)};
    if (vmm->size != 0)
        result = driver->cuMemAddressReserve(&vmm->base, vmm->size, 0, 0, 0);
    if (result != CUDA_OK)
        return gpu_explain(device, call, result, text, text_size);
    at = vmm->base;
    for (uint32_t i = 0; i < ask->pieces && result == CUDA_OK; i++) {
        vmm->piece[i] = ask->piece[i];
        result = piece_open(device, vmm, at, fds[i], &call);
        at += ask->piece[i];
    }
    if (result == CUDA_OK) {
        call = "cuMemSetAccess";
        result = driver->cuMemSetAccess(vmm->base, vmm->size, &access, 1);
    }
    if (result == CUDA_OK)
        return TS_OK;
    gpu_vmm_close(device, vmm);
    return gpu_explain(device, call, result, text, text_size);
}

void gpu_vmm_close(struct gpu_device *device, struct gpu_vmm *vmm)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    cuda_pointer at = vmm->base;

    for (uint32_t i = 0; i < vmm->mapped; i++) {
        driver->cuMemUnmap(at, vmm->piece[i]);
        at += vmm->piece[i];
    }
    driver->cuMemAddressFree(vmm->base, vmm->size);
}
