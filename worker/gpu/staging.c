#include "worker/gpu/staging.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/gpu/mapping.h"
#include "worker/region.h"
#include "worker/worker.h"

#define ABANDON_MS 1000 /* a copy takes a millisecond */

/* ---- lanes ---- */

/* Pages of our own, so that they are where the worker is, and sockets take them as any other. */
static int lane_pin(struct gpu_device *device, struct gpu_lane *lane, char *text, size_t text_size)
{
    const size_t size = (size_t)GPU_COPIES * GPU_CHUNK;
    void *pages =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    enum cuda_result result;

    if (pages == MAP_FAILED) {
        snprintf(text, text_size, "no memory to stage GPU copies in");
        return TS_ERR_NO_MEMORY;
    }
    result = device->gpu->driver.cuMemHostRegister(pages, size, CUDA_HOST_PORTABLE);
    if (result != CUDA_OK) {
        munmap(pages, size);
        return gpu_explain(device, "cuMemHostRegister", result, text, text_size);
    }
    lane->pinned = pages;
    atomic_count(&device->gpu->worker->stats->gpu_pinned_bytes, size);
    return TS_OK;
}

static int lane_open(struct gpu_device *device, struct gpu_lane *lane, bool pinned, char *text,
                     size_t text_size)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    enum cuda_result result;

    lane->gpu = device->gpu;
    lane->copies = calloc(GPU_COPIES, sizeof(*lane->copies));
    if (lane->copies == NULL)
        return TS_ERR_NO_MEMORY;
    result = driver->cuStreamCreate(&lane->stream, CUDA_STREAM_NON_BLOCKING);
    if (result != CUDA_OK)
        return gpu_explain(device, "cuStreamCreate", result, text, text_size);
    for (unsigned i = 0; i < GPU_COPIES; i++) {
        struct gpu_copy *copy = &lane->copies[i];

        result = driver->cuEventCreate(&copy->event, CUDA_EVENT_DISABLE_TIMING);
        if (result != CUDA_OK)
            return gpu_explain(device, "cuEventCreate", result, text, text_size);
        copy->lane = lane;
        copy->device = device;
        list_init(&copy->member);
        list_append(&lane->free, &copy->link);
    }
    if (!pinned)
        return TS_OK;
    if (lane_pin(device, lane, text, text_size) != TS_OK)
        return TS_ERR_NO_MEMORY;
    for (unsigned i = 0; i < GPU_COPIES; i++)
        lane->copies[i].bytes = lane->pinned + (size_t)i * GPU_CHUNK;
    return TS_OK;
}

int gpu_lanes_open(struct gpu_device *device, char *text, size_t text_size)
{
    int rc = TS_OK;

    for (int i = 0; i < GPU_LANES; i++) {
        list_init(&device->lane[i].flying);
        list_init(&device->lane[i].free);
        list_init(&device->lane[i].waiters);
    }
    for (int i = 0; i < GPU_LANES && rc == TS_OK; i++)
        rc = lane_open(device, &device->lane[i], i != GPU_LANE_BETWEEN, text, text_size);
    return rc;
}

/* What the copy kept is let go. */
static void copy_land(struct gpu_copy *copy)
{
    list_remove(&copy->link);
    for (int i = 0; i < 2; i++) {
        if (copy->mapping[i] != NULL)
            gpu_mapping_release(copy->mapping[i]);
        copy->mapping[i] = NULL;
    }
    if (copy->region != NULL)
        region_release(copy->region);
    copy->region = NULL;
}

static void lane_land(struct gpu_lane *lane)
{
    while (!list_empty(&lane->flying))
        copy_land(list_entry(lane->flying.next, struct gpu_copy, link));
}

static void lane_close(struct gpu_device *device, struct gpu_lane *lane)
{
    const struct cuda_driver *driver = &device->gpu->driver;
    const size_t size = (size_t)GPU_COPIES * GPU_CHUNK;

    if (lane->copies == NULL)
        return;
    if (lane->stream != NULL)
        driver->cuStreamSynchronize(lane->stream);
    lane_land(lane);
    for (unsigned i = 0; i < GPU_COPIES; i++)
        if (lane->copies[i].event != NULL)
            driver->cuEventDestroy(lane->copies[i].event);
    if (lane->pinned != NULL) {
        driver->cuMemHostUnregister(lane->pinned);
        munmap(lane->pinned, size);
        atomic_count(&device->gpu->worker->stats->gpu_pinned_bytes, (uint64_t)-size);
    }
    if (lane->stream != NULL)
        driver->cuStreamDestroy(lane->stream);
    free(lane->copies);
    lane->copies = NULL;
}

void gpu_lanes_close(struct gpu_device *device)
{
    if (device->context == NULL)
        return;
    if (gpu_device_enter(device) != CUDA_OK)
        device->gpu->lost = true; /* nothing of it can be given back */
    for (int i = 0; i < GPU_LANES; i++) {
        if (device->gpu->lost) /* it may still be at the chunks: they end with the process */
            lane_land(&device->lane[i]);
        else
            lane_close(device, &device->lane[i]);
    }
}

/* ---- copies ---- */

struct gpu_copy *gpu_copy_take(struct gpu_device *device, enum gpu_lane_kind kind)
{
    struct gpu_lane *lane = &device->lane[kind];
    struct gpu_copy *copy;

    if (list_empty(&lane->free)) {
        atomic_count(&device->gpu->worker->stats->gpu_no_chunk, 1);
        return NULL;
    }
    copy = list_entry(lane->free.next, struct gpu_copy, link);
    list_remove(&copy->link);
    copy->done = NULL;
    copy->owner = NULL;
    return copy;
}

void gpu_copy_give(struct gpu_copy *copy)
{
    struct gpu_lane *lane = copy->lane;
    struct list woken;

    list_append(&lane->free, &copy->link);
    /* All of them, since not everyone still needs it: who comes too late waits again. */
    list_init(&woken);
    while (!list_empty(&lane->waiters)) {
        struct list *node = lane->waiters.next;

        list_remove(node);
        list_append(&woken, node);
    }
    while (!list_empty(&woken)) {
        struct gpu_waiter *waiter = list_entry(woken.next, struct gpu_waiter, link);

        list_remove(&waiter->link);
        waiter->wake(waiter);
    }
}

void gpu_wait(struct gpu_device *device, enum gpu_lane_kind kind, struct gpu_waiter *waiter)
{
    if (list_empty(&waiter->link))
        list_append(&device->lane[kind].waiters, &waiter->link);
}

static int copy_failed(struct gpu_copy *copy, const char *call, enum cuda_result result)
{
    struct worker *worker = copy->device->gpu->worker;
    char text[PROTO_TEXT_MAX];

    gpu_explain(copy->device, call, result, text, sizeof(text));
    if (!copy->device->gpu->lost)
        worker_error(worker, &worker->job_limit, "a copy failed: %s", text);
    return TS_ERR_FAULT;
}

/* The copy itself is in the stream, if it could be. */
static int copy_fly(struct gpu_copy *copy, const char *call, enum cuda_result result,
                    struct region *region)
{
    if (result == CUDA_OK) {
        call = "cuEventRecord";
        result = copy->device->gpu->driver.cuEventRecord(copy->event, copy->lane->stream);
        /* It may be under way, and nothing would tell its end. */
        if (result != CUDA_OK)
            copy->device->gpu->driver.cuStreamSynchronize(copy->lane->stream);
    }
    if (result != CUDA_OK)
        return copy_failed(copy, call, result);
    for (int i = 0; i < 2; i++)
        if (copy->mapping[i] != NULL)
            gpu_mapping_hold(copy->mapping[i]);
    copy->region = region;
    if (region != NULL)
        region->references++; /* released by copy_land */
    list_append(&copy->lane->flying, &copy->link);
    return TS_OK;
}

static int copy_begin(struct gpu_copy *copy, struct gpu_mapping *one, struct gpu_mapping *other,
                      size_t size)
{
    enum cuda_result result = gpu_device_enter(copy->device);

    copy->mapping[0] = copy->mapping[1] = NULL;
    if (result != CUDA_OK)
        return copy_failed(copy, "cuCtxSetCurrent", result);
    copy->mapping[0] = one;
    copy->mapping[1] = other;
    copy->size = size;
    return TS_OK;
}

int gpu_copy_out(struct gpu_copy *copy, struct gpu_mapping *from, uint64_t offset, size_t size,
                 struct region *region)
{
    const struct gpu *gpu = copy->device->gpu;
    int rc = copy_begin(copy, from, NULL, size);

    if (rc != TS_OK)
        return rc;
    atomic_count(&gpu->worker->stats->gpu_copies_out, 1);
    return copy_fly(
        copy, "cuMemcpyDtoHAsync",
        gpu->driver.cuMemcpyDtoHAsync(copy->bytes, from->at + offset, size, copy->lane->stream),
        region);
}

int gpu_copy_in(struct gpu_copy *copy, struct gpu_mapping *to, uint64_t offset, size_t size,
                struct region *region)
{
    const struct gpu *gpu = copy->device->gpu;
    int rc = copy_begin(copy, to, NULL, size);

    if (rc != TS_OK)
        return rc;
    atomic_count(&gpu->worker->stats->gpu_copies_in, 1);
    return copy_fly(
        copy, "cuMemcpyHtoDAsync",
        gpu->driver.cuMemcpyHtoDAsync(to->at + offset, copy->bytes, size, copy->lane->stream),
        region);
}

int gpu_copy_between(struct gpu_copy *copy, struct gpu_mapping *to, uint64_t to_offset,
                     struct gpu_mapping *from, uint64_t from_offset, size_t size,
                     struct region *region)
{
    const struct gpu *gpu = copy->device->gpu;
    bool one = to->device == from->device;
    int rc = copy_begin(copy, to, from, size);
    enum cuda_result result;

    if (rc != TS_OK)
        return rc;
    atomic_count(&gpu->worker->stats->gpu_copies_between, 1);
    result = one ? gpu->driver.cuMemcpyDtoDAsync(to->at + to_offset, from->at + from_offset, size,
                                                 copy->lane->stream)
                 : gpu->driver.cuMemcpyPeerAsync(to->at + to_offset, to->device->context,
                                                 from->at + from_offset, from->device->context,
                                                 size, copy->lane->stream);
    return copy_fly(copy, one ? "cuMemcpyDtoDAsync" : "cuMemcpyPeerAsync", result, region);
}

void gpu_copy_abandon(struct gpu_copy *copy)
{
    struct gpu *gpu = copy->device->gpu;
    uint64_t until = clock_now() + ABANDON_MS * CLOCK_NS_PER_MS;
    enum cuda_result result = CUDA_NOT_READY;

    copy->done = NULL;
    list_remove(&copy->member);
    while (!gpu->lost && result == CUDA_NOT_READY && clock_now() < until) {
        result = gpu_device_enter(copy->device);
        if (result == CUDA_OK)
            result = gpu->driver.cuEventQuery(copy->event);
    }
    if (result != CUDA_OK) { /* a device that does not end a copy is as good as lost */
        gpu_lose_by(copy->device, "cuEventQuery", result);
        return;
    }
    copy_land(copy);
    gpu_copy_give(copy);
}

/* ---- the loop ---- */

static void copy_end(struct gpu_copy *copy)
{
    copy_land(copy);
    if (copy->done != NULL)
        copy->done(copy);
    else
        gpu_copy_give(copy);
}

static int lane_poll(struct gpu_device *device, struct gpu_lane *lane)
{
    struct gpu *gpu = device->gpu;
    int done = 0;

    while (!list_empty(&lane->flying) && !gpu->lost) {
        struct gpu_copy *copy = list_entry(lane->flying.next, struct gpu_copy, link);
        enum cuda_result result = gpu_device_enter(device);

        if (result == CUDA_OK)
            result = gpu->driver.cuEventQuery(copy->event);
        if (result == CUDA_NOT_READY)
            break;
        if (result != CUDA_OK) {
            /* The copy's own error, or of one before it: what it moved is not known. */
            gpu_lose_by(device, "cuEventQuery", result);
            break;
        }
        copy_end(copy);
        done++;
    }
    return done;
}

int gpu_poll(struct worker *worker)
{
    int done = 0;

    list_each (node, following, &worker->gpu->devices) {
        struct gpu_device *device = list_entry(node, struct gpu_device, link);

        for (int i = 0; i < GPU_LANES; i++)
            done += lane_poll(device, &device->lane[i]);
    }
    return done;
}

/* In a thread of CUDA's. */
static void lane_ring(void *context)
{
    struct gpu_lane *lane = context;
    const uint64_t one = 1;

    atomic_count(&lane->rings, 1);
    (void)!write(lane->gpu->bell.fd, &one, sizeof(one)); /* the count cannot overflow */
}

static void lane_arm(struct gpu_device *device, struct gpu_lane *lane)
{
    struct gpu *gpu = device->gpu;
    enum cuda_result result;

    if (lane->armed && atomic_peek(&lane->rings) == lane->heard)
        return;
    lane->heard = atomic_peek(&lane->rings);
    result = gpu_device_enter(device);
    if (result == CUDA_OK)
        result = gpu->driver.cuLaunchHostFunc(lane->stream, lane_ring, lane);
    lane->armed = result == CUDA_OK;
    if (result != CUDA_OK)
        gpu_lose_by(device, "cuLaunchHostFunc", result);
}

bool gpu_arm(struct worker *worker)
{
    bool unarmed = false;

    list_each (node, following, &worker->gpu->devices) {
        struct gpu_device *device = list_entry(node, struct gpu_device, link);

        for (int i = 0; i < GPU_LANES; i++) {
            struct gpu_lane *lane = &device->lane[i];

            if (list_empty(&lane->flying) || worker->gpu->lost)
                continue;
            lane_arm(device, lane);
            unarmed |= !lane->armed;
        }
    }
    return unarmed;
}
