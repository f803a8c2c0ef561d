#include "worker/gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/nvml.h"
#include "worker/gpu/event.h"
#include "worker/gpu/staging.h"
#include "worker/gpu/watch.h"
#include "worker/worker.h"

/* ---- errors ---- */

/* After these nothing works in this process any more (CUDA's description of each). */
static bool result_is_fatal(enum cuda_result result)
{
    switch (result) {
    case CUDA_DEINITIALIZED:
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED:
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_CONTEXT_IS_DESTROYED:
    case CUDA_HARDWARE_STACK_ERROR:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_EXTERNAL_DEVICE:
    case CUDA_UNKNOWN:
        return true;
    default:
        return false;
    }
}

static int result_code(enum cuda_result result)
{
    switch (result) {
    case CUDA_OUT_OF_MEMORY:
        return TS_ERR_NO_MEMORY;
    case CUDA_INVALID_VALUE:
    case CUDA_INVALID_HANDLE:
    case CUDA_INVALID_DEVICE:
        return TS_ERR_INVALID;
    case CUDA_PEER_ACCESS_UNSUPPORTED:
    case CUDA_NOT_SUPPORTED:
    case CUDA_NOT_PERMITTED:
    case CUDA_NO_DEVICE:
    case CUDA_SYSTEM_NOT_READY:
    case CUDA_SYSTEM_DRIVER_MISMATCH:
        return TS_ERR_UNSUPPORTED;
    default:
        return TS_ERR_FAULT;
    }
}

void gpu_lose(struct gpu_device *device, const char *why)
{
    struct gpu *gpu = device->gpu;
    struct worker *worker = gpu->worker;

    if (!gpu->lost)
        worker_error(worker, &worker->peer_limit, "GPU %s is lost: %s; the worker starts anew",
                     device->bus_id, why);
    gpu->lost = true;
    worker->stop = worker->broken = true;
}

void gpu_lose_by(struct gpu_device *device, const char *call, enum cuda_result result)
{
    char why[PROTO_TEXT_MAX];

    snprintf(why, sizeof(why), "%s: %s", call, cuda_name(&device->gpu->driver, result));
    gpu_lose(device, why);
}

int gpu_explain(struct gpu_device *device, const char *call, enum cuda_result result, char *text,
                size_t text_size)
{
    snprintf(text, text_size, "GPU %s: %s: %s", device->bus_id, call,
             cuda_name(&device->gpu->driver, result));
    if (!result_is_fatal(result))
        return result_code(result);
    gpu_lose_by(device, call, result);
    return TS_ERR_FAULT;
}

/* ---- devices ---- */

#define UUID_TEXT 37

/* As nvidia-smi writes it behind GPU-, or MIG- for an instance. */
static void uuid_print(const uint8_t uuid[16], char text[UUID_TEXT])
{
    static const uint8_t gaps[] = {4, 6, 8, 10};
    size_t at = 0, gap = 0;

    for (size_t i = 0; i < 16; i++) {
        if (gap < sizeof(gaps) && i == gaps[gap]) {
            text[at++] = '-';
            gap++;
        }
        at += (size_t)snprintf(text + at, UUID_TEXT - at, "%02x", uuid[i]);
    }
}

/* CUDA knows such a name, too; a bus id it does not. */
static bool gpu_is_by_uuid(const char *name)
{
    return strncmp(name, "MIG-", 4) == 0 || strncmp(name, "GPU-", 4) == 0;
}

static bool device_is_named(const struct cuda_driver *driver, cuda_device device, const char *name,
                            const uint8_t uuid[16])
{
    char text[UUID_TEXT], bus_id[16] = "";

    uuid_print(uuid, text);
    if (gpu_is_by_uuid(name))
        return strcasecmp(name + 4, text) == 0;
    if (driver->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), device) != CUDA_OK)
        return false;
    /* "0000:44:00.0", with or without the domain */
    return strcasecmp(name, bus_id) == 0 ||
           (strlen(bus_id) > 5 && strcasecmp(name, bus_id + 5) == 0);
}

bool gpu_device_is_served(const struct cuda_driver *driver, const struct worker *worker,
                          cuda_device device, const uint8_t uuid[16])
{
    const char *name = worker->config.gpu;

    return name[0] == '\0' || device_is_named(driver, device, name, uuid);
}

bool gpu_device_number(const struct cuda_driver *driver, const uint8_t uuid[16],
                       cuda_device *number)
{
    struct cuda_uuid own;
    int count = 0;

    if (driver->cuDeviceGetCount(&count) != CUDA_OK)
        return false;
    for (int i = 0; i < count; i++)
        if (driver->cuDeviceGet(number, i) == CUDA_OK &&
            driver->cuDeviceGetUuid(&own, *number) == CUDA_OK &&
            memcmp(own.bytes, uuid, sizeof(own.bytes)) == 0)
            return true;
    return false;
}

static int device_find(struct gpu *gpu, const uint8_t uuid[16], cuda_device *number, char *text,
                       size_t text_size)
{
    const char *served = gpu->worker->config.gpu;
    char own[UUID_TEXT];
    int count = 0;

    if (gpu_device_number(&gpu->driver, uuid, number))
        return TS_OK;
    *number = -1;
    uuid_print(uuid, own);
    (void)gpu->driver.cuDeviceGetCount(&count);
    if (gpu_is_by_uuid(served))
        snprintf(text, text_size,
                 "worker %s serves %s, not the memory's: attach with the pair gpu:MIG-%s, or "
                 "gpu:GPU-%s for a whole GPU",
                 gpu->worker->config.name, served, own, own);
    else
        snprintf(text, text_size,
                 "worker %s sees %d GPUs, and the memory's is not among them (devices hidden from "
                 "the daemon, or a MIG instance: attach with the pair gpu:MIG-%s)",
                 gpu->worker->config.name, count, own);
    return TS_ERR_UNSUPPORTED;
}

static void device_free(struct gpu_device *device)
{
    struct gpu *gpu = device->gpu;

    list_remove(&device->link);
    gpu_watch_close(device);
    if (gpu->current == device) {
        gpu->driver.cuCtxSetCurrent(NULL);
        gpu->current = NULL;
    }
    if (device->context != NULL)
        gpu->driver.cuDevicePrimaryCtxRelease(device->device);
    free(device);
}

/* Newer devices order a NIC's writes before what their kernels see; the others are asked to. */
static void device_look_at_order(struct gpu_device *device)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    int order = CUDA_WRITES_ORDERING_NONE, options = 0;

    driver->cuDeviceGetAttribute(&order, CUDA_DEVICE_RDMA_WRITES_ORDERING, device->device);
    driver->cuDeviceGetAttribute(&options, CUDA_DEVICE_RDMA_FLUSH_OPTIONS, device->device);
    device->flushes = order < CUDA_WRITES_ORDERING_OWNER &&
                      (options & CUDA_FLUSH_OPTION_HOST) != 0 &&
                      driver->cuFlushGPUDirectRDMAWrites != NULL;
}

static int device_open(struct gpu *gpu, cuda_device number, const uint8_t uuid[16],
                       struct gpu_device **opened, char *text, size_t text_size)
{
    struct gpu_device *device = calloc(1, sizeof(*device));
    const char *call = "cuDevicePrimaryCtxRetain";
    enum cuda_result result;
    int rc;

    if (device == NULL)
        return TS_ERR_NO_MEMORY;
    device->gpu = gpu;
    device->device = number;
    memcpy(device->uuid, uuid, sizeof(device->uuid));
    list_init(&device->allocations);
    list_init(&device->events);
    list_append(&gpu->devices, &device->link);
    if (gpu->driver.cuDeviceGetPCIBusId(device->bus_id, sizeof(device->bus_id), number) != CUDA_OK)
        snprintf(device->bus_id, sizeof(device->bus_id), "%d", number);
    result = gpu->driver.cuDevicePrimaryCtxRetain(&device->context, number);
    if (result != CUDA_OK) {
        device->context = NULL;
        goto err_call;
    }
    call = "cuCtxSetCurrent";
    result = gpu_device_enter(device);
    if (result != CUDA_OK)
        goto err_call;
    device_look_at_order(device);
    rc = gpu_lanes_open(device, text, text_size);
    if (rc != TS_OK)
        goto err_free;
    gpu_watch_open(device);
    *opened = device;
    return TS_OK;

err_call:
    rc = gpu_explain(device, call, result, text, text_size);
err_free:
    gpu_lanes_close(device);
    device_free(device);
    return rc;
}

enum cuda_result gpu_device_enter(struct gpu_device *device)
{
    struct gpu *gpu = device->gpu;
    enum cuda_result result;

    if (gpu->lost)
        return CUDA_CONTEXT_IS_DESTROYED;
    if (gpu->current == device)
        return CUDA_OK;
    result = gpu->driver.cuCtxSetCurrent(device->context);
    gpu->current = result == CUDA_OK ? device : NULL;
    return result;
}

static struct gpu_device *device_opened(const struct gpu *gpu, const uint8_t uuid[16])
{
    list_each (node, following, &gpu->devices) {
        struct gpu_device *device = list_entry(node, struct gpu_device, link);

        if (memcmp(device->uuid, uuid, sizeof(device->uuid)) == 0)
            return device;
    }
    return NULL;
}

bool gpu_device_is_new(const struct worker *worker, const uint8_t uuid[16], bool served)
{
    const struct gpu *gpu = worker->gpu;
    cuda_device number;

    if (gpu == NULL)
        return true;
    return !gpu->lost && device_opened(gpu, uuid) == NULL &&
           gpu_device_number(&gpu->driver, uuid, &number) &&
           (!served || gpu_device_is_served(&gpu->driver, worker, number, uuid));
}

int gpu_device_reach(struct gpu *gpu, const uint8_t uuid[16], bool served,
                     struct gpu_device **device, char *text, size_t text_size)
{
    const struct proto_worker_config *config = &gpu->worker->config;
    cuda_device number;
    int rc;

    if (gpu->lost) {
        snprintf(text, text_size, "the worker's GPU is lost: it starts anew");
        return TS_ERR_GONE;
    }
    *device = device_opened(gpu, uuid);
    if (*device != NULL) {
        number = (*device)->device;
    } else {
        rc = device_find(gpu, uuid, &number, text, text_size);
        if (rc != TS_OK)
            return rc;
    }
    if (served && !gpu_device_is_served(&gpu->driver, gpu->worker, number, uuid)) {
        char bus_id[16] = "?";

        gpu->driver.cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), number);
        snprintf(text, text_size,
                 "the memory is of GPU %s, and worker %s serves %s: attach with the pair gpu:%s",
                 bus_id, config->name, config->gpu, bus_id);
        return TS_ERR_UNSUPPORTED;
    }
    return *device != NULL ? TS_OK : device_open(gpu, number, uuid, device, text, text_size);
}

bool gpu_flush(struct gpu *gpu)
{
    list_each (node, following, &gpu->devices) {
        struct gpu_device *device = list_entry(node, struct gpu_device, link);
        const char *call = "cuCtxSetCurrent";
        enum cuda_result result;

        if (!device->flushes || device->by_nic == 0 || gpu->lost)
            continue;
        result = gpu_device_enter(device);
        if (result == CUDA_OK) {
            call = "cuFlushGPUDirectRDMAWrites";
            result = gpu->driver.cuFlushGPUDirectRDMAWrites(CUDA_FLUSH_CURRENT_CONTEXT,
                                                            CUDA_FLUSH_TO_OWNER);
        }
        if (result != CUDA_OK) /* nobody may be told that the bytes are there */
            gpu_lose_by(device, call, result);
    }
    return !gpu->lost;
}

/* ---- the driver ---- */

/* A process sees one MIG instance only, the one that it names, or the first; where there are none
 * it sees all devices. */
void gpu_choose_devices(const struct worker *worker)
{
    if (gpu_is_by_uuid(worker->config.gpu))
        setenv("CUDA_VISIBLE_DEVICES", worker->config.gpu, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
}

static void bell_on_ready(struct source *source, uint32_t events)
{
    uint64_t count;

    (void)events;
    (void)!read(source->fd, &count, sizeof(count)); /* what is done is seen by the next poll */
}

struct gpu *gpu_open(struct worker *worker, char *text, size_t text_size)
{
    struct gpu *gpu = worker->gpu;
    enum cuda_result result;

    if (gpu != NULL)
        return gpu;
    snprintf(text, text_size, "no memory or files for CUDA");
    gpu = calloc(1, sizeof(*gpu));
    if (gpu == NULL)
        return NULL;
    gpu->worker = worker;
    list_init(&gpu->devices);
    list_init(&gpu->waits);
    list_init(&gpu->rings);
    gpu_choose_devices(worker);
    if (cuda_driver_load(&gpu->driver, CUDA_LOAD, text, text_size) != TS_OK)
        goto err_free;
    result = gpu->driver.cuInit(0);
    if (result != CUDA_OK) {
        snprintf(text, text_size, "cuInit: %s: nvidia-smi says what is wrong",
                 cuda_name(&gpu->driver, result));
        goto err_unload;
    }
    gpu->bell =
        (struct source){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = bell_on_ready};
    if (gpu->bell.fd < 0)
        goto err_unload;
    if (reactor_watch(&worker->reactor, &gpu->bell, EPOLLIN) < 0)
        goto err_close;
    worker->gpu = gpu;
    return gpu;

err_close:
    close(gpu->bell.fd);
err_unload:
    cuda_driver_unload(&gpu->driver);
err_free:
    free(gpu);
    return NULL;
}

void gpu_settle(struct worker *worker)
{
    if (worker->gpu == NULL)
        return;
    list_each (node, following, &worker->gpu->devices) {
        gpu_lanes_close(list_entry(node, struct gpu_device, link));
    }
}

void gpu_close(struct worker *worker)
{
    struct gpu *gpu = worker->gpu;

    if (gpu == NULL || gpu->lost || !gpu_events_fini(gpu))
        return; /* threads of CUDA's may still come back to it: it ends with the process */
    while (!list_empty(&gpu->devices))
        device_free(list_entry(gpu->devices.next, struct gpu_device, link));
    if (gpu->nvml != NULL)
        nvml_close(gpu->nvml);
    reactor_watch(&worker->reactor, &gpu->bell, 0);
    close(gpu->bell.fd);
    free(gpu); /* the driver stays loaded: it has threads of its own */
    worker->gpu = NULL;
}
