/* Streams: a thread each, that does what was submitted, in order, after a while.
 *
 * STANDIN_CUDA_SEED and STANDIN_CUDA_DELAY_US (the longest pause before a piece of work) make the
 * orders between streams different and repeatable. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "tests/standin/cuda.h"

static void stream_pause(struct cuda_stream *stream)
{
    static long longest = -1;
    struct timespec pause = {0};

    if (longest < 0)
        longest = strtol(standin_env("STANDIN_CUDA_DELAY_US", "60"), NULL, 10);
    stream->random = stream->random * 6364136223846793005U + 1442695040888963407U;
    /* Every other piece comes at once: both orders of a race are tried. */
    if (longest == 0 || (stream->random >> 40) % 2)
        return;
    pause.tv_nsec = (long)((stream->random >> 33) % (uint64_t)longest) * 1000;
    standin_unlock();
    nanosleep(&pause, NULL);
    standin_lock();
}

static void work_do(struct standin_work *work)
{
    struct cuda_context *context = work->stream->context;

    stream_pause(work->stream);
    if (standin_context_dead(context) == CUDA_OK) {
        enum cuda_result failed = standin_fail_work(work->call);

        if (failed != CUDA_OK) {
            standin_count->failures++;
            context->dead = failed;
        }
    }
    if (context->dead == CUDA_OK) {
        standin_unlock();
        work->run(work);
        standin_lock();
    }
    if (work->done)
        work->done(work);
}

static struct cuda_stream *ended; /* for streams_reap */

static void *stream_main(void *argument)
{
    struct cuda_stream *stream = argument;

    standin_lock();
    for (;;) {
        struct standin_work *work;

        while (list_empty(&stream->queue) && !stream->destroyed)
            standin_wait();
        if (list_empty(&stream->queue))
            break;
        work = list_entry(stream->queue.next, struct standin_work, node);
        work_do(work);
        list_remove(&work->node);
        free(work);
        stream->done++;
        standin_tell();
    }
    list_remove(&stream->node);
    stream->next = ended;
    ended = stream;
    standin_tell();
    standin_unlock();
    return NULL;
}

/* The library may be unloaded next: no thread may be on its way out of it any more. They do not
 * need the lock for that. */
static void streams_reap(void)
{
    while (ended) {
        struct cuda_stream *stream = ended;

        ended = stream->next;
        pthread_join(stream->thread, NULL);
        free(stream);
    }
}

static struct cuda_stream *stream_new(struct cuda_context *context, bool blocking)
{
    static uint64_t number;
    struct cuda_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        standin_die("no memory for the stand-in itself");
    stream->context = context;
    stream->blocking = blocking;
    stream->random = strtoull(standin_env("STANDIN_CUDA_SEED", "1"), NULL, 10) + 977 * ++number;
    list_init(&stream->queue);
    list_append(&context->streams, &stream->node);
    streams_reap();
    if (pthread_create(&stream->thread, NULL, stream_main, stream))
        standin_die("no thread for a stream");
    return stream;
}

struct cuda_stream *standin_stream_check(const char *call, struct cuda_stream *stream)
{
    struct cuda_context *context = standin_context(call);

    if (!stream) {
        if (!context->null_stream)
            context->null_stream = stream_new(context, true);
        return context->null_stream;
    }
    for (cuda_device i = 0; i < standin_device_count; i++) {
        struct cuda_context *of = standin_context_of(i);

        if (!of->retained)
            continue;
        list_each (node, following, &of->streams) {
            if (list_entry(node, struct cuda_stream, node) != stream || stream->destroyed)
                continue;
            if (of != context)
                standin_die("%s: the stream is of device %d, the current context of device %d",
                            call, of->device, context->device);
            return stream;
        }
    }
    standin_die("%s: %p is no stream, or was destroyed", call, (void *)stream);
}

struct standin_work *standin_work_new(const char *call, struct cuda_stream *stream, standin_run run)
{
    struct standin_work *work = calloc(1, sizeof(*work));

    if (!work)
        standin_die("no memory for the stand-in itself");
    work->call = call;
    work->stream = stream;
    work->run = run;
    return work;
}

static void other_wait(struct standin_work *work)
{
    standin_lock();
    while (work->other->done < work->other_done && work->stream->context->dead == CUDA_OK)
        standin_wait();
    standin_unlock();
}

static void stream_append(struct standin_work *work)
{
    list_append(&work->stream->queue, &work->node);
    work->stream->submitted++;
}

/* The context's own stream waits for all that may not run beside it, and they for it. */
static void null_stream_order(struct cuda_stream *stream)
{
    struct cuda_context *context = stream->context;

    list_each (node, following, &context->streams) {
        struct cuda_stream *other = list_entry(node, struct cuda_stream, node);
        struct standin_work *work;

        if (other == stream || !other->blocking || other->destroyed ||
            other->done == other->submitted ||
            (stream != context->null_stream && other != context->null_stream))
            continue;
        work = standin_work_new("(default stream)", stream, other_wait);
        work->other = other;
        work->other_done = other->submitted;
        stream_append(work);
    }
}

void standin_stream_submit(struct standin_work *work)
{
    if (work->stream->blocking)
        null_stream_order(work->stream);
    stream_append(work);
    standin_tell();
}

void standin_stream_wait(struct cuda_stream *stream)
{
    uint64_t target = stream->submitted;

    while (stream->done < target)
        standin_wait();
}

static bool context_is_idle(const struct cuda_context *context)
{
    list_each (node, following, &context->streams) {
        const struct cuda_stream *stream = list_entry(node, struct cuda_stream, node);

        if (stream->done < stream->submitted)
            return false;
    }
    return true;
}

void standin_context_wait(struct cuda_context *context)
{
    while (!context_is_idle(context))
        standin_wait();
}

void standin_streams_end(struct cuda_context *context)
{
    list_each (node, following, &context->streams)
        list_entry(node, struct cuda_stream, node)->destroyed = true;
    context->null_stream = NULL;
    standin_tell();
    while (!list_empty(&context->streams))
        standin_wait();
    streams_reap();
}

enum cuda_result cuStreamCreateWithPriority(struct cuda_stream **out, unsigned int flags,
                                            int priority)
{
    struct cuda_context *context;
    enum cuda_result dead;

    (void)priority; /* the driver takes the nearest that it has */
    STANDIN_ENTER("cuStreamCreateWithPriority");
    dead = standin_context_live("cuStreamCreateWithPriority", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (flags & ~(unsigned int)CUDA_STREAM_NON_BLOCKING)
        standin_die("cuStreamCreate: flags 0x%x", flags);
    *out = stream_new(context, !(flags & CUDA_STREAM_NON_BLOCKING));
    standin_count->streams++;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuStreamCreate(struct cuda_stream **out, unsigned int flags)
{
    return cuStreamCreateWithPriority(out, flags, 0);
}

enum cuda_result cuStreamDestroy(struct cuda_stream *stream)
{
    STANDIN_ENTER("cuStreamDestroy");
    if (!stream)
        standin_die("cuStreamDestroy: the default stream cannot be destroyed");
    standin_stream_check("cuStreamDestroy", stream)->destroyed = true;
    standin_count->streams--;
    standin_tell();
    return standin_leave(CUDA_OK);
}

enum cuda_result cuStreamSynchronize(struct cuda_stream *stream)
{
    struct cuda_context *context;

    STANDIN_ENTER("cuStreamSynchronize");
    stream = standin_stream_check("cuStreamSynchronize", stream);
    context = stream->context;
    standin_count->blocking_calls++;
    standin_stream_wait(stream);
    return standin_leave(standin_context_dead(context));
}

enum cuda_result cuStreamQuery(struct cuda_stream *stream)
{
    enum cuda_result dead;

    STANDIN_ENTER("cuStreamQuery");
    stream = standin_stream_check("cuStreamQuery", stream);
    dead = standin_context_dead(stream->context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    return standin_leave(stream->done == stream->submitted ? CUDA_OK : CUDA_NOT_READY);
}

static void host_function_run(struct standin_work *work)
{
    standin_in_host_function = true;
    work->function(work->context);
    standin_in_host_function = false;
}

enum cuda_result cuLaunchHostFunc(struct cuda_stream *stream, void (*function)(void *context),
                                  void *context)
{
    struct cuda_context *current;
    struct standin_work *work;
    enum cuda_result dead;

    STANDIN_ENTER("cuLaunchHostFunc");
    stream = standin_stream_check("cuLaunchHostFunc", stream);
    dead = standin_context_live("cuLaunchHostFunc", &current);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    work = standin_work_new("cuLaunchHostFunc", stream, host_function_run);
    work->function = function;
    work->context = context;
    standin_count->host_functions++;
    standin_stream_submit(work);
    return standin_leave(CUDA_OK);
}
