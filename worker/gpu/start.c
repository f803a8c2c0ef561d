#include "worker/gpu/start.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/gpu/device.h"
#include "worker/worker.h"

/* A message that waits. */
struct deferred {
    struct list link;
    struct wire_message message;
};

struct gpu_start {
    struct worker *worker;
    pthread_t thread;
    struct source source; /* rings when the thread is done */
    gpu_resume *resume;
    struct list waiting; /* struct deferred */
    /* the thread's */
    struct cuda_uuid uuid;
    struct cuda_driver driver;
    bool retained;
    cuda_device device;
};

/* Errors are left to the loop, which asks the same again and has somebody to tell. */
static void *start_thread(void *argument)
{
    struct gpu_start *start = argument;
    struct cuda_driver *driver = &start->driver;
    const uint64_t one = 1;
    struct cuda_context *context;
    char text[PROTO_TEXT_MAX];

    if (cuda_driver_load(driver, CUDA_LOAD, text, sizeof(text)) == TS_OK &&
        driver->cuInit(0) == CUDA_OK && gpu_device_number(driver, &start->uuid, &start->device))
        start->retained = driver->cuDevicePrimaryCtxRetain(&context, start->device) == CUDA_OK;
    (void)!write(start->source.fd, &one, sizeof(one));
    return NULL;
}

static void deferred_free(struct deferred *deferred)
{
    list_remove(&deferred->link);
    wire_message_close(&deferred->message);
    free(deferred);
}

/* What the thread has is given back: by now the loop has its own, if it could. */
static void start_free(struct gpu_start *start)
{
    while (!list_empty(&start->waiting))
        deferred_free(list_entry(start->waiting.next, struct deferred, link));
    if (start->retained)
        start->driver.cuDevicePrimaryCtxRelease(start->device);
    reactor_watch(&start->worker->reactor, &start->source, 0);
    close(start->source.fd);
    free(start);
}

static void start_on_done(struct source *source, uint32_t events)
{
    struct gpu_start *start = list_entry(source, struct gpu_start, source);
    struct worker *worker = start->worker;

    (void)events;
    pthread_join(start->thread, NULL);
    worker->gpu_started = true;
    while (!list_empty(&start->waiting)) {
        struct deferred *deferred = list_entry(start->waiting.next, struct deferred, link);

        start->resume(worker, &deferred->message);
        deferred_free(deferred);
    }
    worker->gpu_started = false;
    worker->gpu_start = NULL;
    start_free(start);
}

/* Signals are the loop's. */
static int start_spawn(struct gpu_start *start)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&start->thread, NULL, start_thread, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : -1;
}

static struct gpu_start *start_open(struct worker *worker, const struct proto_gpu *gpu,
                                    gpu_resume *resume)
{
    struct gpu_start *start = calloc(1, sizeof(*start));

    if (start == NULL)
        return NULL;
    start->worker = worker;
    start->resume = resume;
    list_init(&start->waiting);
    memcpy(start->uuid.bytes, gpu->uuid, sizeof(start->uuid.bytes));
    start->source =
        (struct source){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = start_on_done};
    if (start->source.fd < 0)
        goto err_free;
    if (reactor_watch(&worker->reactor, &start->source, EPOLLIN) < 0)
        goto err_close;
    gpu_choose_devices(worker);
    if (start_spawn(start) == 0)
        return start;
    reactor_watch(&worker->reactor, &start->source, 0);
err_close:
    close(start->source.fd);
err_free:
    free(start);
    return NULL;
}

bool gpu_start_defer(struct worker *worker, struct wire_message *message, gpu_resume *resume)
{
    struct deferred *deferred;

    /* What an earlier process had must be there before the jobs' requests are looked at. */
    if (worker->gpu != NULL || worker->gpu_started || message->header.id <= PROTO_REPLAY_ID_MAX)
        return false;
    deferred = malloc(sizeof(*deferred));
    if (deferred == NULL)
        return false;
    if (worker->gpu_start == NULL)
        worker->gpu_start = start_open(worker, &message->body.region_gpu.gpu, resume);
    if (worker->gpu_start == NULL) {
        free(deferred);
        return false;
    }
    deferred->message = *message;
    for (int i = 0; i < message->fd_count; i++)
        (void)wire_message_take(message, i);
    list_append(&worker->gpu_start->waiting, &deferred->link);
    return true;
}

void gpu_start_close(struct worker *worker)
{
    struct gpu_start *start = worker->gpu_start;

    if (start == NULL)
        return;
    pthread_join(start->thread, NULL);
    worker->gpu_start = NULL;
    start_free(start);
}
