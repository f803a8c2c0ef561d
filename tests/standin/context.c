/* Primary contexts, and the stack of them that each thread has. */
#include <string.h>

#include "tests/standin/cuda.h"

#define STACK_DEPTH 8

static struct cuda_context contexts[STANDIN_DEVICES];
static __thread struct cuda_context *stack[STACK_DEPTH];
static __thread int depth; /* the current one is stack[depth - 1] */

struct cuda_context *standin_context_of(cuda_device device)
{
    return &contexts[device];
}

enum cuda_result standin_context_dead(struct cuda_context *context)
{
    if (context->dead == CUDA_OK && context->retained)
        context->dead = standin_device_lost(&standin_devices[context->device]);
    return context->dead;
}

static void context_check(const char *call, const struct cuda_context *context)
{
    if (context < contexts || context >= contexts + standin_device_count || !context->retained)
        standin_die("%s: %p is no context that somebody retains", call, (const void *)context);
}

struct cuda_context *standin_context(const char *call)
{
    struct cuda_context *context = depth ? stack[depth - 1] : NULL;

    if (!context)
        standin_die("%s: this thread has no current context", call);
    context_check(call, context);
    return context;
}

void standin_context_kill(enum cuda_result code)
{
    if (depth && stack[depth - 1])
        stack[depth - 1]->dead = code;
}

enum cuda_result standin_context_live(const char *call, struct cuda_context **context)
{
    *context = standin_context(call);
    return standin_context_dead(*context);
}

enum cuda_result cuDevicePrimaryCtxRetain(struct cuda_context **out, cuda_device device)
{
    struct cuda_context *context;

    STANDIN_ENTER("cuDevicePrimaryCtxRetain");
    if (device < 0 || device >= standin_device_count)
        standin_die("cuDevicePrimaryCtxRetain: no device %d", device);
    context = &contexts[device];
    if (standin_device_lost(&standin_devices[device]) != CUDA_OK)
        return standin_leave(standin_device_lost(&standin_devices[device]));
    if (context->retained == 0)
        standin_start_pause();
    if (context->retained++ == 0) {
        context->device = device;
        context->dead = CUDA_OK;
        memset(context->peers, 0, sizeof(context->peers));
        list_init(&context->streams);
        standin_count->contexts++;
    }
    *out = context;
    return standin_leave(CUDA_OK);
}

/* Memory, streams and events would go with the context: whoever let it come to that has lost track
 * of them. */
static void context_end(struct cuda_context *context)
{
    if (context->dead == CUDA_OK) {
        list_each (node, following, &standin_blocks) {
            struct standin_block *block = list_entry(node, struct standin_block, node);

            if (block->context == context)
                standin_die("cuDevicePrimaryCtxRelease: %zu bytes at 0x%llx are still in the "
                            "context",
                            block->size, block->address);
        }
        list_each (node, following, &context->streams) {
            struct cuda_stream *stream = list_entry(node, struct cuda_stream, node);

            if (!stream->destroyed && stream != context->null_stream)
                standin_die("cuDevicePrimaryCtxRelease: a stream is still in the context");
        }
    }
    standin_streams_end(context);
    standin_count->contexts--;
}

enum cuda_result cuDevicePrimaryCtxRelease(cuda_device device)
{
    STANDIN_ENTER("cuDevicePrimaryCtxRelease");
    if (device < 0 || device >= standin_device_count || !contexts[device].retained)
        standin_die("cuDevicePrimaryCtxRelease: nobody retains the context of device %d", device);
    if (contexts[device].retained == 1)
        context_end(&contexts[device]);
    contexts[device].retained--;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuCtxSetCurrent(struct cuda_context *context)
{
    STANDIN_ENTER("cuCtxSetCurrent");
    if (context)
        context_check("cuCtxSetCurrent", context);
    if (depth == 0)
        depth = 1;
    stack[depth - 1] = context;
    if (!context)
        depth--;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuCtxGetCurrent(struct cuda_context **context)
{
    STANDIN_ENTER("cuCtxGetCurrent");
    *context = depth ? stack[depth - 1] : NULL;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuCtxPushCurrent(struct cuda_context *context)
{
    STANDIN_ENTER("cuCtxPushCurrent");
    context_check("cuCtxPushCurrent", context);
    if (depth == STACK_DEPTH)
        standin_die("cuCtxPushCurrent: the stack only grows");
    stack[depth++] = context;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuCtxPopCurrent(struct cuda_context **context)
{
    STANDIN_ENTER("cuCtxPopCurrent");
    if (depth == 0)
        standin_die("cuCtxPopCurrent: the stack is empty");
    depth--;
    if (context)
        *context = stack[depth];
    return standin_leave(CUDA_OK);
}

enum cuda_result cuCtxGetDevice(cuda_device *device)
{
    STANDIN_ENTER("cuCtxGetDevice");
    *device = standin_context("cuCtxGetDevice")->device;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuCtxSynchronize(void)
{
    struct cuda_context *context;

    STANDIN_ENTER("cuCtxSynchronize");
    context = standin_context("cuCtxSynchronize");
    standin_count->blocking_calls++;
    standin_context_wait(context);
    return standin_leave(standin_context_dead(context));
}

enum cuda_result cuCtxEnablePeerAccess(struct cuda_context *peer, unsigned int flags)
{
    struct cuda_context *context;

    STANDIN_ENTER("cuCtxEnablePeerAccess");
    context = standin_context("cuCtxEnablePeerAccess");
    context_check("cuCtxEnablePeerAccess", peer);
    if (flags)
        standin_die("cuCtxEnablePeerAccess: flags %u, 0 is the only value", flags);
    if (peer == context)
        standin_die("cuCtxEnablePeerAccess: a context is no peer of itself");
    if (strcmp(standin_env("STANDIN_CUDA_PEER", "1"), "0") == 0)
        return standin_leave(CUDA_PEER_ACCESS_UNSUPPORTED);
    if (context->peers[peer->device])
        return standin_leave(CUDA_PEER_ACCESS_ALREADY_ENABLED);
    context->peers[peer->device] = true;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    STANDIN_ENTER("cuCtxGetStreamPriorityRange");
    standin_context("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return standin_leave(CUDA_OK);
}
