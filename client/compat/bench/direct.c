/* The same blocks over libtesup: what libtransfer_engine.so adds is the difference. */
#include <stdio.h>
#include <string.h>
#include <tesup.h>

#include "client/compat/bench/bench.h"

static struct tesup_session *session;
static struct tesup_channel *channel;
static tesup_region_t region;
static tesup_remote_t remote;

static int direct_begin(struct bench_side *side)
{
    const struct tesup_options options = {.socket = side->options->sockets[side->target]};
    char *name = side->board->name[BENCH_DIRECT];

    if (tesup_attach(&options, &session) != TESUP_OK ||
        tesup_mem_register(session, side->bytes, side->options->max,
                           TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE,
                           &region) != TESUP_OK)
        return bench_fail("libtesup: %s", tesup_last_error());
    channel = tesup_channel_main(session);
    if (side->target)
        snprintf(name, BENCH_NAME_MAX, "%s", tesup_segment_name(session));
    else if (tesup_segment_open(session, name, &remote) != TESUP_OK)
        return bench_fail("libtesup: %s", tesup_last_error());
    return 0;
}

static int direct_move(struct bench_side *side, enum bench_op op, uint64_t length)
{
    struct tesup_request request = {.op = op == BENCH_READ ? TESUP_OP_READ : TESUP_OP_WRITE,
                                    .flags = TESUP_REMOTE_ADDR,
                                    .remote = remote,
                                    .local_region = region,
                                    .remote_offset = side->board->address,
                                    .length = length,
                                    .name = "bench",
                                    .name_len = 5,
                                    .msg = "a block",
                                    .msg_len = 7};
    struct tesup_completion completion;
    struct bench_spin spin = {0};
    uint32_t accepted;

    if (tesup_submit(channel, &request, 1, NULL, &accepted) != TESUP_OK)
        return bench_fail("libtesup: %s", tesup_last_error());
    while (tesup_poll(channel, &completion, 1) == 0)
        if (!bench_spin(&spin))
            return bench_fail("libtesup: a transfer does not end");
    return completion.status == TESUP_OK
               ? 0
               : bench_fail("libtesup: %s", tesup_strerror(completion.status));
}

static int direct_take(struct bench_side *side, uint64_t length)
{
    struct tesup_notification note;
    int count = 0;

    (void)side;
    (void)length;
    for (; tesup_notify_peek(channel, &note) == TESUP_OK; count++)
        tesup_notify_release(channel);
    return count;
}

static void direct_end(void)
{
    tesup_detach(session);
}

const struct bench_method bench_direct = {"libtesup", direct_begin, direct_move, direct_take,
                                          direct_end};
