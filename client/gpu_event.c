/* CUDA events, for requests that wait until the GPU has come to one. */
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "shm/cuda.h"

static int event_refused(const struct cuda_driver *driver, int code, const char *call,
                         enum cuda_result result, const char *remedy)
{
    return error_set(code, "%s: %s: %s", call, cuda_name(driver, result), remedy);
}

static int event_share(const struct cuda_driver *driver, void *event, struct proto_gpu *ask)
{
    struct cuda_ipc_event handle;
    struct cuda_uuid uuid;
    cuda_device device;
    enum cuda_result result = driver->cuCtxGetDevice(&device);

    static_assert(sizeof(handle) == sizeof(ask->ipc), "an IPC handle");
    if (result == CUDA_OK)
        result = driver->cuDeviceGetUuid(&uuid, device);
    if (result != CUDA_OK)
        return event_refused(driver, TS_ERR_UNSUPPORTED, "cuCtxGetDevice", result,
                             "make a context of the event's device current");
    result = driver->cuIpcGetEventHandle(&handle, event);
    if (result != CUDA_OK)
        return event_refused(driver, TS_ERR_INVALID, "cuIpcGetEventHandle", result,
                             "make it with cudaEventInterprocess | cudaEventDisableTiming");
    ask->ways = PROTO_GPU_EVENT;
    memcpy(ask->uuid, uuid.bytes, sizeof(ask->uuid));
    memcpy(ask->ipc, &handle, sizeof(ask->ipc));
    return TS_OK;
}

int tesup_event_register_gpu(struct tesup_session *session, void *event, tesup_region_t *handle)
{
    int rc = region_check(session, 1, 0, handle); /* it has no length that could be wrong */
    struct cuda_driver driver;
    struct region *region;
    char text[PROTO_TEXT_MAX];

    if (rc != TS_OK)
        return rc;
    if (event == NULL)
        return error_set(TS_ERR_INVALID, "the event is NULL");
    if (cuda_driver_load(&driver, CUDA_LOADED_ONLY, text, sizeof(text)) != TS_OK)
        return error_set(TS_ERR_UNSUPPORTED, "no event of a GPU can be registered: %s", text);
    region = region_new(REGION_KIND_EVENT, 0, 0);
    rc = TS_ERR_NO_MEMORY;
    if (region == NULL)
        goto out;
    region->gpu = calloc(1, sizeof(*region->gpu));
    rc = region->gpu != NULL ? event_share(&driver, event, &region->gpu->ask)
                             : error_set(TS_ERR_NO_MEMORY, "no memory to keep an event");
    if (rc != TS_OK)
        region_free(region);
out:
    cuda_driver_unload(&driver);
    return rc == TS_OK ? region_enter(session, region, handle) : rc;
}
