#include "worker/frame.h"

#include "shm/err.h"

static const struct {
    uint32_t min, max;
} frame_lengths[FRAME_TYPE_COUNT] = {
    [FRAME_OPEN] = {sizeof(struct frame_open), sizeof(struct frame_open)},
    [FRAME_OPENED] = {0, PROTO_TEXT_MAX},
    [FRAME_NOTIFY] = {0, FRAME_SMALL_MAX},
    [FRAME_EXPORTED] = {0, sizeof(struct frame_keys) + FRAME_KEYS_MAX * sizeof(uint32_t)},
    [FRAME_WRITE] = {1, FRAME_SLICE_MAX},
    [FRAME_DATA] = {1, FRAME_SLICE_MAX},
};

int frame_check(const struct frame *frame)
{
    if (frame->type == FRAME_NONE || frame->type >= FRAME_TYPE_COUNT)
        return TS_ERR_PROTOCOL;
    if (frame->length < frame_lengths[frame->type].min ||
        frame->length > frame_lengths[frame->type].max)
        return TS_ERR_PROTOCOL;
    if (frame->status > TS_AGAIN || frame->status < TS_ERR_LAST)
        return TS_ERR_PROTOCOL;
    if (frame->type == FRAME_NOTIFY && frame->region > frame->length)
        return TS_ERR_PROTOCOL;
    return TS_OK;
}
