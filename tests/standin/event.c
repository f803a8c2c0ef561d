/* Events: how often they were recorded, and which of that the streams have come to.  What other
 * processes open lies in a memfd. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/cuda.h"

static struct list events = {&events, &events};

static struct cuda_event *event_check(const char *call, struct cuda_event *event)
{
    list_each (node, following, &events) {
        if (list_entry(node, struct cuda_event, node) == event && !event->destroyed)
            return event;
    }
    standin_die("%s: %p is no event, or was destroyed", call, (void *)event);
}

static struct cuda_event *event_new(unsigned int flags, cuda_device device)
{
    struct cuda_event *event = calloc(1, sizeof(*event));

    if (!event)
        standin_die("no memory for the stand-in itself");
    event->flags = flags;
    event->device = device;
    event->fd = -1;
    event->references = 1;
    list_append(&events, &event->node);
    standin_count->events++;
    return event;
}

static struct standin_event_state *state_map(int fd)
{
    void *state =
        mmap(NULL, sizeof(struct standin_event_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return state == MAP_FAILED ? NULL : state;
}

enum cuda_result cuEventCreate(struct cuda_event **out, unsigned int flags)
{
    struct cuda_context *context;
    struct cuda_event *event;
    enum cuda_result dead;

    STANDIN_ENTER("cuEventCreate");
    dead = standin_context_live("cuEventCreate", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if ((flags & ~7U) ||
        ((flags & CUDA_EVENT_INTERPROCESS) && !(flags & CUDA_EVENT_DISABLE_TIMING)))
        standin_die("cuEventCreate: flags 0x%x (interprocess events have no timing)", flags);
    event = event_new(flags, context->device);
    event->fd = memfd_create("standin-event", MFD_CLOEXEC);
    if (event->fd < 0 || ftruncate(event->fd, sizeof(*event->state)) ||
        !(event->state = state_map(event->fd)))
        standin_die("no memfd for an event: %s", strerrordesc_np(errno));
    memcpy(event->state->magic, STANDIN_EVENT_MAGIC, sizeof(event->state->magic));
    if (getrandom(&event->state->nonce, sizeof(event->state->nonce), 0) < 0)
        standin_die("no random number");
    *out = event;
    return standin_leave(CUDA_OK);
}

void standin_event_release(struct cuda_event *event)
{
    if (--event->references)
        return;
    list_remove(&event->node);
    munmap(event->state, sizeof(*event->state));
    close(event->fd);
    free(event);
}

enum cuda_result cuEventDestroy(struct cuda_event *event)
{
    STANDIN_ENTER("cuEventDestroy");
    event_check("cuEventDestroy", event)->destroyed = true;
    standin_count->events--;
    standin_event_release(event);
    return standin_leave(CUDA_OK);
}

static bool is_behind(uint32_t completed, uint32_t target)
{
    return (int32_t)(completed - target) < 0;
}

static void record_run(struct standin_work *work)
{
    struct standin_event_state *state = work->event->state;

    if (is_behind(__atomic_load_n(&state->completed, __ATOMIC_ACQUIRE), work->target))
        __atomic_store_n(&state->completed, work->target, __ATOMIC_RELEASE);
    syscall(SYS_futex, &state->completed, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void event_work_done(struct standin_work *work)
{
    standin_event_release(work->event);
}

/* Another process's event ends with it. */
static bool exporter_is_gone(const struct cuda_event *event)
{
    return event->exporter && kill(event->exporter, 0) && errno == ESRCH;
}

static void event_wait(struct cuda_event *event, uint32_t target,
                       const struct cuda_context *context)
{
    struct standin_event_state *state = event->state;
    const struct timespec patience = {.tv_nsec = 20000000};

    for (;;) {
        uint32_t completed = __atomic_load_n(&state->completed, __ATOMIC_ACQUIRE);

        if (!is_behind(completed, target) || exporter_is_gone(event) ||
            __atomic_load_n(&context->dead, __ATOMIC_RELAXED) != CUDA_OK)
            return;
        syscall(SYS_futex, &state->completed, FUTEX_WAIT, completed, &patience, NULL, 0);
    }
}

static void wait_run(struct standin_work *work)
{
    event_wait(work->event, work->target, work->stream->context);
}

static void event_submit(const char *call, struct cuda_event *event, struct cuda_stream *stream,
                         standin_run run)
{
    struct standin_work *work = standin_work_new(call, stream, run);

    work->event = event;
    work->target = __atomic_load_n(&event->state->recorded, __ATOMIC_ACQUIRE);
    work->done = event_work_done;
    event->references++;
    standin_stream_submit(work);
}

enum cuda_result cuEventRecord(struct cuda_event *event, struct cuda_stream *stream)
{
    struct cuda_context *context;
    enum cuda_result dead;

    STANDIN_ENTER("cuEventRecord");
    event = event_check("cuEventRecord", event);
    stream = standin_stream_check("cuEventRecord", stream);
    dead = standin_context_live("cuEventRecord", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (event->device != context->device)
        standin_die("cuEventRecord: the event is of device %d, the stream of device %d",
                    event->device, context->device);
    __atomic_add_fetch(&event->state->recorded, 1, __ATOMIC_RELEASE);
    event_submit("cuEventRecord", event, stream, record_run);
    return standin_leave(CUDA_OK);
}

enum cuda_result cuStreamWaitEvent(struct cuda_stream *stream, struct cuda_event *event,
                                   unsigned int flags)
{
    struct cuda_context *context;
    enum cuda_result dead;

    STANDIN_ENTER("cuStreamWaitEvent");
    if (flags)
        standin_die("cuStreamWaitEvent: flags %u, 0 is the only value", flags);
    event = event_check("cuStreamWaitEvent", event);
    stream = standin_stream_check("cuStreamWaitEvent", stream);
    dead = standin_context_live("cuStreamWaitEvent", &context);
    if (dead == CUDA_OK)
        event_submit("cuStreamWaitEvent", event, stream, wait_run);
    return standin_leave(dead);
}

enum cuda_result cuEventQuery(struct cuda_event *event)
{
    struct standin_event_state *state;
    enum cuda_result dead;

    STANDIN_ENTER("cuEventQuery");
    event = event_check("cuEventQuery", event);
    dead = standin_context_dead(standin_context_of(event->device));
    if (dead != CUDA_OK)
        return standin_leave(dead);
    state = event->state;
    return standin_leave(is_behind(__atomic_load_n(&state->completed, __ATOMIC_ACQUIRE),
                                   __atomic_load_n(&state->recorded, __ATOMIC_ACQUIRE)) &&
                                 !exporter_is_gone(event)
                             ? CUDA_NOT_READY
                             : CUDA_OK);
}

enum cuda_result cuEventSynchronize(struct cuda_event *event)
{
    struct cuda_context *context;
    uint32_t target;

    STANDIN_ENTER("cuEventSynchronize");
    event = event_check("cuEventSynchronize", event);
    context = standin_context_of(event->device);
    standin_count->blocking_calls++;
    target = __atomic_load_n(&event->state->recorded, __ATOMIC_ACQUIRE);
    event->references++;
    standin_unlock();
    event_wait(event, target, context);
    standin_lock();
    standin_event_release(event);
    return standin_leave(standin_context_dead(context));
}

enum cuda_result cuIpcGetEventHandle(struct cuda_ipc_event *handle, struct cuda_event *event)
{
    struct standin_ipc ipc = {.process = getpid()};

    STANDIN_ENTER("cuIpcGetEventHandle");
    event = event_check("cuIpcGetEventHandle", event);
    if (!(event->flags & CUDA_EVENT_INTERPROCESS))
        standin_die("cuIpcGetEventHandle: the event was made without CU_EVENT_INTERPROCESS");
    memcpy(ipc.magic, STANDIN_EVENT_MAGIC, sizeof(ipc.magic));
    ipc.fd = event->fd;
    ipc.nonce = event->state->nonce;
    ipc.uuid = standin_devices[event->device].uuid;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &ipc, sizeof(ipc));
    return standin_leave(CUDA_OK);
}

enum cuda_result cuIpcOpenEventHandle(struct cuda_event **out, struct cuda_ipc_event handle)
{
    struct standin_event_state *state;
    struct cuda_context *context;
    struct standin_ipc ipc;
    struct cuda_event *event;
    int fd;

    STANDIN_ENTER("cuIpcOpenEventHandle");
    context = standin_context("cuIpcOpenEventHandle");
    memcpy(&ipc, &handle, sizeof(ipc));
    if (memcmp(ipc.magic, STANDIN_EVENT_MAGIC, sizeof(ipc.magic)) != 0)
        return standin_leave(CUDA_INVALID_VALUE);
    if (ipc.process == getpid())
        return standin_leave(CUDA_INVALID_CONTEXT);
    fd = standin_ipc_open(&ipc);
    if (fd < 0)
        return standin_leave(CUDA_INVALID_HANDLE);
    state = lseek(fd, 0, SEEK_END) >= (off_t)sizeof(*state) ? state_map(fd) : NULL;
    if (!state || memcmp(state->magic, STANDIN_EVENT_MAGIC, sizeof(state->magic)) != 0 ||
        state->nonce != ipc.nonce) {
        if (state)
            munmap(state, sizeof(*state));
        close(fd);
        return standin_leave(CUDA_INVALID_VALUE);
    }
    event = event_new(CUDA_EVENT_INTERPROCESS | CUDA_EVENT_DISABLE_TIMING, context->device);
    event->fd = fd;
    event->state = state;
    event->exporter = ipc.process;
    *out = event;
    return standin_leave(CUDA_OK);
}
