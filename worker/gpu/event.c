#include "worker/gpu/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/worker.h"

/* What CUDA's threads touch.  It outlives its event: a stream that is destroyed still runs what it
 * was given. */
struct gpu_ring {
    struct list link;      /* gpu.rings, once its event is closed */
    _Atomic uint64_t rung; /* by CUDA's thread */
    uint64_t asked;
    int bell;
};

struct gpu_event {
    struct list link; /* device.events */
    struct gpu_device *device;
    struct cuda_event *event;
    struct cuda_stream *stream;
    struct gpu_ring *ring;
    uint32_t waits;
};

static bool ring_is_quiet(const struct gpu_ring *ring)
{
    return atomic_observe(&ring->rung) == ring->asked; /* pairs with ring_ring */
}

static void ring_ring(void *context)
{
    struct gpu_ring *ring = context;
    const uint64_t one = 1;
    int bell = ring->bell;

    atomic_publish(&ring->rung, atomic_peek(&ring->rung) + 1); /* pairs with wait_has_ended */
    (void)!write(bell, &one,
                 sizeof(one)); /* the ring may be gone by now; the count cannot overflow */
}

static void rings_free(struct gpu *gpu)
{
    list_each (node, following, &gpu->rings) {
        struct gpu_ring *ring = list_entry(node, struct gpu_ring, link);

        if (!ring_is_quiet(ring))
            continue;
        list_remove(node);
        free(ring);
    }
}

/* ---- events ---- */

static int event_fill(struct gpu_event *event, const struct proto_gpu *ask, char *text,
                      size_t text_size)
{
    const struct cuda_driver *driver = &event->device->gpu->driver;
    const char *call = "cuCtxSetCurrent";
    struct cuda_ipc_event handle;
    enum cuda_result result = gpu_device_enter(event->device);

    static_assert(sizeof(handle) == sizeof(ask->ipc), "an IPC handle");
    memcpy(&handle, ask->ipc, sizeof(handle));
    if (result == CUDA_OK) {
        call = "cuIpcOpenEventHandle";
        result = driver->cuIpcOpenEventHandle(&event->event, handle);
    }
    if (result != CUDA_OK)
        return gpu_explain(event->device, call, result, text, text_size);
    result = driver->cuStreamCreate(&event->stream, CUDA_STREAM_NON_BLOCKING);
    if (result == CUDA_OK)
        return TS_OK;
    driver->cuEventDestroy(event->event);
    return gpu_explain(event->device, "cuStreamCreate", result, text, text_size);
}

static int ask_check(const struct proto_region_gpu *ask, bool trusted, char *text, size_t text_size)
{
    if (ask->gpu.ways != PROTO_GPU_EVENT || ask->region.length != 0) {
        snprintf(text, text_size, "this is no event of a GPU");
        return TS_ERR_INVALID;
    }
    if (trusted)
        return TS_OK;
    snprintf(text, text_size,
             "a handle of CUDA IPC could be of anybody's event: it needs a job of the supervisor's "
             "own user, or of one in rdma.trust_uids");
    return TS_ERR_DENIED;
}

int gpu_event_open(struct worker *worker, const struct proto_region_gpu *ask, bool trusted,
                   struct gpu_event **opened, char *text, size_t text_size)
{
    int rc = ask_check(ask, trusted, text, text_size);
    struct gpu_event *event;
    struct gpu *gpu;

    if (rc != TS_OK)
        return rc;
    gpu = gpu_open(worker, text, text_size);
    if (gpu == NULL)
        return TS_ERR_UNSUPPORTED;
    rc = TS_ERR_NO_MEMORY;
    event = calloc(1, sizeof(*event));
    if (event == NULL)
        return rc;
    event->ring = calloc(1, sizeof(*event->ring));
    if (event->ring == NULL)
        goto err_event;
    event->ring->bell = gpu->bell.fd;
    rc = gpu_device_reach(gpu, ask->gpu.uuid, true, &event->device, text, text_size);
    if (rc == TS_OK)
        rc = event_fill(event, &ask->gpu, text, text_size);
    if (rc != TS_OK)
        goto err_ring;
    list_append(&event->device->events, &event->link);
    *opened = event;
    return TS_OK;

err_ring:
    free(event->ring);
err_event:
    free(event);
    return rc;
}

void gpu_event_close(struct gpu_event *event)
{
    struct gpu *gpu = event->device->gpu;

    if (gpu_device_enter(event->device) == CUDA_OK) {
        gpu->driver.cuStreamDestroy(event->stream);
        gpu->driver.cuEventDestroy(event->event);
    }
    list_append(&gpu->rings, &event->ring->link);
    rings_free(gpu);
    list_remove(&event->link);
    free(event);
}

/* ---- waits ---- */

int gpu_event_wait(struct gpu_event *event, struct gpu_wait *wait)
{
    struct gpu *gpu = event->device->gpu;
    const char *call = "cuStreamWaitEvent";
    enum cuda_result result = gpu_device_enter(event->device);
    char text[PROTO_TEXT_MAX];
    int rc;

    if (result == CUDA_OK)
        result = gpu->driver.cuStreamWaitEvent(event->stream, event->event, 0);
    if (result == CUDA_OK) {
        call = "cuLaunchHostFunc";
        result = gpu->driver.cuLaunchHostFunc(event->stream, ring_ring, event->ring);
    }
    if (result != CUDA_OK) {
        rc = gpu_explain(event->device, call, result, text, sizeof(text));
        worker_error(gpu->worker, &gpu->worker->job_limit, "%s", text);
        return rc;
    }
    wait->event = event;
    wait->turn = ++event->ring->asked;
    event->waits++;
    list_append(&gpu->waits, &wait->link);
    return TS_OK;
}

void gpu_wait_cancel(struct gpu_wait *wait)
{
    if (wait->event == NULL)
        return;
    list_remove(&wait->link);
    wait->event->waits--;
    wait->event = NULL;
}

static bool wait_has_ended(const struct gpu_wait *wait)
{
    return atomic_observe(&wait->event->ring->rung) >= wait->turn; /* pairs with ring_ring */
}

int gpu_events_poll(struct gpu *gpu)
{
    struct list ended;
    int done = 0;

    list_init(&ended);
    list_each (node, following, &gpu->waits) {
        if (!wait_has_ended(list_entry(node, struct gpu_wait, link)))
            continue;
        list_remove(node);
        list_append(&ended, node);
    }
    /* What one of them starts may cancel another one: it leaves this list then. */
    while (!list_empty(&ended)) {
        struct gpu_wait *wait = list_entry(ended.next, struct gpu_wait, link);

        gpu_wait_cancel(wait);
        wait->done(wait);
        done++;
    }
    return done;
}

void gpu_events_look(struct gpu *gpu)
{
    list_each (node, following, &gpu->devices) {
        struct gpu_device *device = list_entry(node, struct gpu_device, link);

        list_each (inner, next, &device->events) {
            const struct gpu_event *event = list_entry(inner, struct gpu_event, link);
            enum cuda_result result;

            if (event->waits == 0 || gpu->lost)
                continue;
            result = gpu_device_enter(device);
            if (result == CUDA_OK)
                result = gpu->driver.cuStreamQuery(event->stream);
            if (result != CUDA_OK && result != CUDA_NOT_READY)
                gpu_lose_by(device, "cuStreamQuery", result);
        }
    }
}

bool gpu_events_fini(struct gpu *gpu)
{
    rings_free(gpu);
    return list_empty(&gpu->rings);
}
