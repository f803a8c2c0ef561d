/* Steps of peer and job, made from a few bytes of input each, so that mutations stay meaningful. */
#ifndef TESUP_TESTS_FUZZ_PEER_FIXTURE_H
#define TESUP_TESTS_FUZZ_PEER_FIXTURE_H

#include "tests/fuzz/endpoint_fixture.h"

/* One step of a script. */
struct step {
    uint8_t type; /* of the frame; STEP_* above the frame types */
    uint8_t flags;
    int8_t status;
    uint8_t open, request, region, offset, value;
    uint16_t length;
};

enum { STEP_SUBMIT = 0x80, STEP_CANCEL, STEP_DRAIN, STEP_SHRINK, STEP_DELETE, STEP_TURN, STEP_END };

static const uint32_t peer_handles[] = {0,
                                        PEER_OPEN,
                                        JOB_HANDLE(0),
                                        JOB_HANDLE(1),
                                        JOB_HANDLE(2),
                                        JOB_HANDLE(3),
                                        JOB_HANDLE(4),
                                        JOB_HANDLE(0) << 1,
                                        JOB_HANDLE(0) * 3,
                                        JOB_HANDLE(16383),
                                        UINT32_MAX,
                                        UINT32_MAX << TABLE_INDEX_BITS};
static const uint64_t peer_numbers[] = {0,
                                        1,
                                        8,
                                        4095,
                                        4096,
                                        4097,
                                        12345,
                                        FIXTURE_MEMORY - 1,
                                        FIXTURE_MEMORY,
                                        FIXTURE_MEMORY + 1,
                                        UINT32_MAX,
                                        UINT64_C(1) << 32,
                                        UINT64_MAX - 4095,
                                        UINT64_MAX};

static uint32_t peer_handle(uint8_t choice)
{
    return peer_handles[choice % (sizeof(peer_handles) / sizeof(peer_handles[0]))];
}

static uint64_t peer_number(uint8_t choice)
{
    const size_t count = sizeof(peer_numbers) / sizeof(peer_numbers[0]);

    if (choice % (count + 1) == count)
        return (uintptr_t)fixture_private; /* what REMOTE_ADDR wants */
    return peer_numbers[choice % (count + 1)];
}

/* The header that a step means; what follows it is `payload`, of length bytes. */
static struct frame peer_frame(const struct step *step, uint8_t payload[UINT16_MAX])
{
    struct frame frame = {.length = step->length % 5000,
                          .type = step->type,
                          .flags = step->flags,
                          .status = step->status,
                          .open = peer_handle(step->open),
                          .request = peer_handle(step->request),
                          .region = peer_handle(step->region),
                          .offset = peer_number(step->offset),
                          .value = peer_number(step->value)};
    struct frame_open ask = {.uid = step->status < 0 ? 1001 : 1000};

    memset(payload, step->length & 255, frame.length);
    if (step->type == FRAME_OPEN) {
        snprintf(ask.segment, sizeof(ask.segment), "%s", FIXTURE_SEGMENT);
        snprintf(ask.sender, sizeof(ask.sender), "peer:1/sender");
        frame.length = sizeof(ask);
        memcpy(payload, &ask, sizeof(ask));
    } else if (step->type == FRAME_NOTIFY) {
        frame.region = step->region % (frame.length + 1);
    } else if (step->type != FRAME_OPENED && step->type != FRAME_WRITE &&
               step->type != FRAME_DATA) {
        frame.length = 0;
    }
    return frame;
}

static void step_submit(const struct step *step)
{
    struct channel_header *header = fixture.job.main.map.header;
    struct sqe *ring = channel_bytes(&fixture.job.main.map, &fixture.job.main.map.sq);
    uint8_t *ntx = channel_bytes(&fixture.job.main.map, &fixture.job.main.map.ntx);
    uint64_t tail = atomic_peek(&header->sq_words.tail);
    uint64_t pos = atomic_peek(&header->ntx_words.tail);
    struct notify_record record = {.kind = NOTIFY_KIND_MESSAGE, .name_len = 4, .msg_len = 12};
    struct sqe sqe = {.op = step->open % 4,
                      .flags = step->flags & (SQE_FLAG_NOTIFY | SQE_FLAG_NOTIFY_ALWAYS),
                      .slot = (uint16_t)(tail % FIXTURE_SLOTS),
                      .cookie = tail,
                      .length = peer_number(step->value) % FIXTURE_MEMORY,
                      .local_region = JOB_HANDLE(step->region % REGION_COUNT),
                      .remote_region = peer_handle(step->request),
                      .remote = JOB_HANDLE(0)};

    if (fixture_channel()->requests[sqe.slot].state != 0 || tail - fixture_channel()->sq.head > 8)
        return; /* an honest library does not use a slot twice */
    record.size = (uint32_t)ring_record_size(0, record.name_len, record.msg_len);
    memcpy(ntx + (pos & (fixture.job.main.map.ntx.size - 1)), &record, sizeof(record));
    sqe.notify_pos = pos;
    sqe.notify_len = record.size;
    if ((sqe.flags & SQE_FLAG_NOTIFY) != 0)
        atomic_publish(&header->ntx_words.tail, pos + record.size);
    ring[tail & (FIXTURE_SLOTS - 1)] = sqe;
    atomic_publish(&header->sq_words.tail, tail + 1);
}

static void step_cancel(const struct step *step)
{
    struct channel_header *header = fixture.job.main.map.header;
    struct sqe *ring = channel_bytes(&fixture.job.main.map, &fixture.job.main.map.sq);
    uint64_t tail = atomic_peek(&header->sq_words.tail);

    ring[tail & (FIXTURE_SLOTS - 1)] = (struct sqe){
        .op = SQE_CANCEL, .slot = step->open % FIXTURE_SLOTS, .local_offset = step->value};
    atomic_publish(&header->sq_words.tail, tail + 1);
}

/* The job takes all that arrived. */
static void step_drain(void)
{
    struct channel_header *header = fixture.job.main.map.header;

    atomic_publish(&header->cq_words.head, atomic_observe(&header->cq_words.tail));
    atomic_publish(&header->nrx_words.head, atomic_observe(&header->nrx_words.tail));
}

/* Steps that are no frames. */
static void peer_do(const struct step *step)
{
    switch (step->type) {
    case STEP_SUBMIT:
        step_submit(step);
        break;
    case STEP_CANCEL:
        step_cancel(step);
        break;
    case STEP_DRAIN:
        step_drain();
        break;
    case STEP_SHRINK:
        host_require(ftruncate(fixture.shrunk, step->length) == 0, "shrink");
        break;
    case STEP_DELETE:
        (void)region_delete(fixture.job.session, JOB_HANDLE(step->region % REGION_COUNT), 77);
        break;
    default:
        break;
    }
    host_turns(2);
}

#endif
