#include "tests/harness/worker/stage.h"

#include <stdio.h>
#include <string.h>

#include "shm/err.h"

void stage_begin_with(struct stage *stage, const struct job_shape *shape)
{
    struct proto_worker_config config = host_config("here");

    if (shape->notify_max > 0)
        config.notify_max = shape->notify_max;
    host_start(&stage->host, &config);
    job_attach(&stage->job, &stage->host, shape);
    peer_connect(&stage->peer, &stage->host);
    stage->bytes = job_memory(&stage->job, 0, STAGE_MEMORY, REGION_ACCESS_MASK);
}

void stage_begin(struct stage *stage)
{
    const struct job_shape shape = {.handle = 1, .segment = STAGE_SEGMENT};

    stage_begin_with(stage, &shape);
}

void stage_end(struct stage *stage)
{
    job_detach(&stage->job);
    peer_end(&stage->peer);
    host_stop(&stage->host);
}

struct remote *stage_ask(struct stage *stage, uint32_t index, const char *segment)
{
    struct remote *remote =
        job_open(&stage->job, index, stage->peer.endpoint, segment, 100 + index);
    struct frame_open ask;

    peer_expect(&stage->peer, FRAME_OPEN);
    memcpy(&ask, stage->peer.payload, sizeof(ask));
    host_require(stage->peer.frame.request == remote->wire && strcmp(ask.segment, segment) == 0,
                 "OPEN for the segment that was asked for");
    return remote;
}

void stage_allow(struct stage *stage, const struct remote *remote, uint64_t credit)
{
    const struct frame opened = {.type = FRAME_OPENED,
                                 .request = remote->wire,
                                 .open = STAGE_OPEN(table_index(remote->handle)),
                                 .value = credit};

    peer_send(&stage->peer, &opened, NULL);
    host_until(remote->state == REMOTE_OPEN);
}

struct remote *stage_open(struct stage *stage, uint32_t index, const char *segment, uint64_t credit)
{
    struct remote *remote = stage_ask(stage, index, segment);

    stage_allow(stage, remote, credit);
    return remote;
}

struct stage_sender stage_sender(struct stage *stage, uint32_t request, uint32_t uid)
{
    const struct frame open = {
        .type = FRAME_OPEN, .request = request, .length = sizeof(struct frame_open)};
    struct frame_open ask = {.uid = uid};
    const struct frame *opened;

    snprintf(ask.segment, sizeof(ask.segment), "%s", STAGE_SEGMENT);
    snprintf(ask.sender, sizeof(ask.sender), "127.0.0.1:1/sender%u", request);
    peer_send(&stage->peer, &open, &ask);
    opened = peer_expect(&stage->peer, FRAME_OPENED);
    host_require(opened->request == request && opened->status == TS_OK, "the segment opens");
    return (struct stage_sender){.open = opened->open, .credit = opened->value};
}
