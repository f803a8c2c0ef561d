#include "worker/gpu/start.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/nvml.h"
#include "worker/gpu/device.h"
#include "worker/thread.h"
#include "worker/worker.h"

/* A message that waits. */
struct deferred {
    struct list link;
    struct gpu_claim claim;
    struct wire_message message;
};

/* One GPU after the other. */
struct gpu_start {
    struct worker *worker;
    struct source source; /* rings when the thread is done */
    struct list waiting;  /* struct deferred, first come first */
    uint8_t uuid[16];     /* the GPU that is being started */
    bool resuming;        /* it is there: who waited for it is being looked at */
    /* the thread's while it runs */
    pthread_t thread;
    bool first;  /* of this process: CUDA itself is started, too */
    bool served; /* its memory is a job's, else a peer's */
    struct cuda_driver driver;
    struct nvml *nvml;
    bool retained;
    cuda_device device;
};

/* Errors are left to the loop, which asks the same again and has somebody to tell.  So it does with
 * what goes well: the second time takes no time. */
static void *start_thread(void *argument)
{
    struct gpu_start *start = argument;
    struct cuda_driver *driver = &start->driver;
    const uint64_t one = 1;
    struct cuda_context *context;
    char text[PROTO_TEXT_MAX];

    if (cuda_driver_load(driver, CUDA_LOAD, text, sizeof(text)) == TS_OK &&
        driver->cuInit(0) == CUDA_OK && gpu_device_number(driver, start->uuid, &start->device) &&
        (!start->served || gpu_device_is_served(driver, start->worker, start->device, start->uuid)))
        start->retained = driver->cuDevicePrimaryCtxRetain(&context, start->device) == CUDA_OK;
    if (start->first && start->retained)
        start->nvml = nvml_open(text, sizeof(text));
    (void)!write(start->source.fd, &one, sizeof(one));
    return NULL;
}

/* For the GPU that the first message waits for. */
static int start_spawn(struct gpu_start *start)
{
    const struct deferred *deferred = list_entry(start->waiting.next, struct deferred, link);

    memcpy(start->uuid, deferred->message.body.region_gpu.gpu.uuid, sizeof(start->uuid));
    start->served = deferred->claim.served;
    start->first = start->worker->gpu == NULL;
    if (start->first)
        gpu_choose_devices(start->worker);
    return thread_spawn(&start->thread, NULL, start_thread, start);
}

static void deferred_free(struct deferred *deferred)
{
    list_remove(&deferred->link);
    wire_message_close(&deferred->message);
    free(deferred);
}

/* What the thread has is given back: by now the loop has its own, if it could. */
static void start_give_back(struct gpu_start *start)
{
    if (start->retained)
        start->driver.cuDevicePrimaryCtxRelease(start->device);
    start->retained = false;
    nvml_close(start->nvml);
    start->nvml = NULL;
}

static void start_free(struct gpu_start *start)
{
    while (!list_empty(&start->waiting))
        deferred_free(list_entry(start->waiting.next, struct deferred, link));
    reactor_watch(&start->worker->reactor, &start->source, 0);
    close(start->source.fd);
    start->worker->gpu_start = NULL;
    free(start);
}

static bool deferred_is_for(const struct deferred *deferred, const uint8_t uuid[16])
{
    return memcmp(deferred->message.body.region_gpu.gpu.uuid, uuid, 16) == 0;
}

static struct deferred *start_next(struct gpu_start *start)
{
    list_each (node, following, &start->waiting) {
        struct deferred *deferred = list_entry(node, struct deferred, link);

        if (deferred_is_for(deferred, start->uuid))
            return deferred;
    }
    return NULL;
}

/* In the order of their arrival. One that is resumed may drop others. */
static void start_resume(struct gpu_start *start)
{
    struct deferred *deferred;

    start->resuming = true;
    while ((deferred = start_next(start)) != NULL) {
        list_remove(&deferred->link);
        deferred->claim.resume(deferred->claim.owner, &deferred->message);
        deferred_free(deferred);
    }
    start->resuming = false;
    start_give_back(start);
}

static void start_on_done(struct source *source, uint32_t events)
{
    struct gpu_start *start = list_entry(source, struct gpu_start, source);
    uint64_t count;

    (void)events;
    (void)!read(source->fd, &count, sizeof(count));
    pthread_join(start->thread, NULL);
    do {
        start_resume(start);
    } while (!list_empty(&start->waiting) && start_spawn(start) < 0);
    if (list_empty(&start->waiting))
        start_free(start);
}

static struct gpu_start *start_open(struct worker *worker)
{
    struct gpu_start *start = calloc(1, sizeof(*start));

    if (start == NULL)
        return NULL;
    start->worker = worker;
    list_init(&start->waiting);
    start->source =
        (struct source){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = start_on_done};
    if (start->source.fd < 0)
        goto err_free;
    if (reactor_watch(&worker->reactor, &start->source, EPOLLIN) < 0)
        goto err_close;
    return start;

err_close:
    close(start->source.fd);
err_free:
    free(start);
    return NULL;
}

/* The message stays the caller's if there is no memory. */
static struct deferred *deferred_new(struct wire_message *message, const struct gpu_claim *claim)
{
    struct deferred *deferred = malloc(sizeof(*deferred));

    if (deferred == NULL)
        return NULL;
    list_init(&deferred->link);
    deferred->claim = *claim;
    deferred->message = *message;
    for (int i = 0; i < message->fd_count; i++)
        (void)wire_message_take(message, i);
    return deferred;
}

/* The message goes back to whom it came from. */
static void deferred_undo(struct deferred *deferred, struct wire_message *message)
{
    *message = deferred->message;
    list_remove(&deferred->link);
    free(deferred);
}

bool gpu_start_defer(struct worker *worker, struct wire_message *message,
                     const struct gpu_claim *claim)
{
    const uint8_t *uuid = message->body.region_gpu.gpu.uuid;
    struct gpu_start *start = worker->gpu_start;
    bool spawn = start == NULL;
    struct deferred *deferred;

    if (start != NULL && start->resuming && memcmp(start->uuid, uuid, 16) == 0)
        return false;
    if (!gpu_device_is_new(worker, uuid, claim->served))
        return false;
    deferred = deferred_new(message, claim);
    if (deferred == NULL)
        return false;
    if (spawn)
        start = start_open(worker);
    if (start == NULL) {
        deferred_undo(deferred, message);
        return false;
    }
    worker->gpu_start = start;
    list_append(&start->waiting, &deferred->link);
    if (!spawn || start_spawn(start) == 0)
        return true;
    deferred_undo(deferred, message);
    start_free(start);
    return false;
}

bool gpu_start_drop(struct worker *worker, const void *owner, uint32_t handle)
{
    bool dropped = false;

    if (worker->gpu_start == NULL)
        return false;
    list_each (node, following, &worker->gpu_start->waiting) {
        struct deferred *deferred = list_entry(node, struct deferred, link);

        if (deferred->claim.owner != owner || (handle != 0 && deferred->claim.handle != handle))
            continue;
        deferred_free(deferred);
        dropped = true;
    }
    return dropped;
}

bool gpu_start_waits(const struct worker *worker, const void *owner)
{
    if (worker->gpu_start == NULL)
        return false;
    list_each (node, following, &worker->gpu_start->waiting) {
        if (list_entry(node, struct deferred, link)->claim.owner == owner)
            return true;
    }
    return false;
}

void gpu_start_close(struct worker *worker)
{
    struct gpu_start *start = worker->gpu_start;

    if (start == NULL)
        return;
    pthread_join(start->thread, NULL);
    start_give_back(start);
    start_free(start);
}
