/* Copies and fills: checked when they are submitted, done by the stream. */
#include <string.h>

#include "tests/standin/cuda.h"

static bool is_device_address(cuda_pointer address)
{
    const struct standin_block *block = standin_block_find(address);

    return block && standin_is_on_device(block);
}

/* The bytes of one side: of the host as they are, of the device where the stand-in has them. */
static char *side_reach(const char *call, cuda_pointer address, bool device, size_t *size,
                        bool write)
{
    if (device)
        return standin_reach(call, address, size, write);
    return (char *)(uintptr_t)address;
}

static void copy_run(struct standin_work *work)
{
    size_t moved = 0;
    bool to_device, from_device;

    standin_lock();
    to_device = is_device_address(work->to);
    from_device = is_device_address(work->from);
    standin_unlock();
    while (moved < work->size) {
        size_t to_size = work->size - moved, from_size = to_size;
        char *to = side_reach(work->call, work->to + moved, to_device, &to_size, true);
        const char *from =
            side_reach(work->call, work->from + moved, from_device, &from_size, false);
        size_t part = to_size < from_size ? to_size : from_size;

        memmove(to, from, part);
        moved += part;
    }
}

/* Pinned host memory is held as well: it must not go while the device is at it. */
static void side_hold(cuda_pointer address, size_t size, int change)
{
    if (standin_block_find(address))
        standin_range_hold(address, size, change);
}

static void copy_done(struct standin_work *work)
{
    side_hold(work->to, work->size, -1);
    side_hold(work->from, work->size, -1);
    standin_count->copies_queued--;
}

/* True when the device can reach it while the program goes on. */
static bool host_is_pinned(const char *call, cuda_pointer address, size_t size)
{
    const struct standin_block *block = standin_block_find(address);

    if (!block)
        return false;
    if (address + size > block->address + block->size)
        standin_die("%s: %zu bytes at 0x%llx end behind the pinned memory there", call, size,
                    address);
    return true;
}

enum copy_kind { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE, COPY_BETWEEN };

static void copy_count(enum copy_kind kind, size_t size)
{
    struct standin_counters *count = standin_count;
    uint64_t *counters[][2] = {
        {&count->copies_to_device, &count->bytes_to_device},
        {&count->copies_to_host, &count->bytes_to_host},
        {&count->copies_on_device, &count->bytes_on_device},
        {&count->copies_between, &count->bytes_between},
    };

    ++*counters[kind][0];
    *counters[kind][1] += size;
    count->copies_queued++;
    if (count->copies_queued > count->copies_queued_most)
        count->copies_queued_most = count->copies_queued;
}

static enum copy_kind copy_between(cuda_pointer to, cuda_pointer from)
{
    return standin_block_find(to)->device == standin_block_find(from)->device ? COPY_ON_DEVICE
                                                                              : COPY_BETWEEN;
}

/* With the lock: submits, and waits where the caller would have to. */
static enum cuda_result copy_submit(const char *call, enum copy_kind kind, cuda_pointer to,
                                    cuda_pointer from, size_t size, struct cuda_stream *stream,
                                    bool wait)
{
    struct cuda_context *context;
    enum cuda_result dead;
    struct standin_work *work;
    bool pageable = false;

    stream = standin_stream_check(call, stream);
    dead = standin_context_live(call, &context);
    if (dead != CUDA_OK || size == 0)
        return dead;
    if (kind == COPY_TO_HOST)
        pageable = !host_is_pinned(call, to, size);
    else
        standin_range_check(call, to, size);
    if (kind == COPY_TO_DEVICE)
        pageable = !host_is_pinned(call, from, size);
    else
        standin_range_check(call, from, size);
    if (kind == COPY_ON_DEVICE)
        kind = copy_between(to, from);
    work = standin_work_new(call, stream, copy_run);
    work->to = to;
    work->from = from;
    work->size = size;
    work->done = copy_done;
    side_hold(to, size, 1);
    side_hold(from, size, 1);
    copy_count(kind, size);
    standin_stream_submit(work);
    if (pageable && !wait)
        standin_count->copies_pageable++;
    if (wait)
        standin_count->blocking_calls++;
    if (!pageable && !wait)
        return CUDA_OK;
    standin_stream_wait(stream);
    return standin_context_dead(context);
}

enum cuda_result cuMemcpyHtoDAsync(cuda_pointer to, const void *from, size_t size,
                                   struct cuda_stream *stream)
{
    STANDIN_ENTER("cuMemcpyHtoDAsync");
    return standin_leave(copy_submit("cuMemcpyHtoDAsync", COPY_TO_DEVICE, to,
                                     (cuda_pointer)(uintptr_t)from, size, stream, false));
}

enum cuda_result cuMemcpyDtoHAsync(void *to, cuda_pointer from, size_t size,
                                   struct cuda_stream *stream)
{
    STANDIN_ENTER("cuMemcpyDtoHAsync");
    return standin_leave(copy_submit("cuMemcpyDtoHAsync", COPY_TO_HOST, (cuda_pointer)(uintptr_t)to,
                                     from, size, stream, false));
}

enum cuda_result cuMemcpyDtoDAsync(cuda_pointer to, cuda_pointer from, size_t size,
                                   struct cuda_stream *stream)
{
    STANDIN_ENTER("cuMemcpyDtoDAsync");
    return standin_leave(
        copy_submit("cuMemcpyDtoDAsync", COPY_ON_DEVICE, to, from, size, stream, false));
}

enum cuda_result cuMemcpyHtoD(cuda_pointer to, const void *from, size_t size)
{
    STANDIN_ENTER("cuMemcpyHtoD");
    return standin_leave(copy_submit("cuMemcpyHtoD", COPY_TO_DEVICE, to,
                                     (cuda_pointer)(uintptr_t)from, size, NULL, true));
}

enum cuda_result cuMemcpyDtoH(void *to, cuda_pointer from, size_t size)
{
    STANDIN_ENTER("cuMemcpyDtoH");
    return standin_leave(copy_submit("cuMemcpyDtoH", COPY_TO_HOST, (cuda_pointer)(uintptr_t)to,
                                     from, size, NULL, true));
}

static void peer_check(const char *side, cuda_pointer address, const struct cuda_context *context)
{
    const struct standin_block *block = standin_block_find(address);

    if (block && block->context != context && block->kind != STANDIN_MAPPED)
        standin_die("cuMemcpyPeerAsync: the %s memory is not of the context that was given with "
                    "it",
                    side);
}

enum cuda_result cuMemcpyPeerAsync(cuda_pointer to, struct cuda_context *to_context,
                                   cuda_pointer from, struct cuda_context *from_context,
                                   size_t size, struct cuda_stream *stream)
{
    STANDIN_ENTER("cuMemcpyPeerAsync");
    peer_check("target", to, to_context);
    peer_check("source", from, from_context);
    return standin_leave(
        copy_submit("cuMemcpyPeerAsync", COPY_ON_DEVICE, to, from, size, stream, false));
}

static void fill_run(struct standin_work *work)
{
    size_t filled = 0;

    while (filled < work->size) {
        size_t part = work->size - filled;
        char *to = standin_reach(work->call, work->to + filled, &part, true);

        memset(to, work->value, part);
        filled += part;
    }
}

static void fill_done(struct standin_work *work)
{
    standin_range_hold(work->to, work->size, -1);
}

enum cuda_result cuMemsetD8Async(cuda_pointer to, unsigned char value, size_t size,
                                 struct cuda_stream *stream)
{
    struct cuda_context *context;
    struct standin_work *work;
    enum cuda_result dead;

    STANDIN_ENTER("cuMemsetD8Async");
    stream = standin_stream_check("cuMemsetD8Async", stream);
    dead = standin_context_live("cuMemsetD8Async", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    standin_range_check("cuMemsetD8Async", to, size);
    work = standin_work_new("cuMemsetD8Async", stream, fill_run);
    work->to = to;
    work->size = size;
    work->value = value;
    work->done = fill_done;
    standin_range_hold(to, size, 1);
    standin_stream_submit(work);
    return standin_leave(CUDA_OK);
}
