/* Frames in packets on the notification QP, and the credits that keep the receiver ready.
 *
 * A packet is one SEND into one receive buffer: frames one behind the other; a header never spans
 * two packets, a payload may.  Each side knows how many buffers the other has for it.  The last
 * credit is kept for packets that give credits back: so two sides that are out of credit cannot
 * wait for each other (tests/model/credits.pml).
 */
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "worker/fabric/verbs/link.h"

#define ANSWERS_FULL (8u * 1024u * 1024u) /* queued before we give no more credit */
#define ANSWERS_MAX  (2u * ANSWERS_FULL)  /* an honest peer takes them before it asks on */

void verbs_stream_init(struct verbs_link *link)
{
    link->stream = (struct verbs_stream){.open = NULL};
    link->stream.kept_end = &link->stream.kept;
    list_init(&link->stream.queue);
}

static struct verbs_buffer *kept_take(struct verbs_stream *stream)
{
    struct verbs_buffer *buffer = stream->kept;

    if (buffer == NULL)
        return NULL;
    stream->kept = buffer->next;
    if (stream->kept == NULL)
        stream->kept_end = &stream->kept;
    stream->kept_count--;
    return buffer;
}

void verbs_stream_fini(struct verbs_link *link)
{
    struct verbs_stream *stream = &link->stream;
    struct verbs_buffer *kept;

    while ((kept = kept_take(stream)) != NULL)
        verbs_pool_give(&link->nic->send, kept);
    if (stream->open != NULL)
        verbs_pool_give(&link->nic->send, stream->open);
    while (!list_empty(&stream->queue)) {
        struct verbs_frame *waiting = list_entry(stream->queue.next, struct verbs_frame, link);

        list_remove(&waiting->link);
        free(waiting);
    }
    free(stream->payload);
    stream->open = NULL;
    stream->payload = NULL;
}

bool verbs_stream_is_idle(const struct verbs_link *link)
{
    return list_empty(&link->stream.queue) && link->stream.open == NULL &&
           link->stream.kept_count == 0;
}

/* ---- out ---- */

static bool packet_open(struct verbs_link *link)
{
    struct verbs_stream *stream = &link->stream;

    if (stream->open != NULL)
        return true;
    if (stream->credits == 0 || (stream->credits == 1 && stream->owed == 0)) {
        atomic_count(&link->nic->worker->stats->rdma_no_credit, 1);
        return false;
    }
    if (verbs_qp_room(link->notify) == 0)
        return false; /* a completion wakes the link */
    stream->open = verbs_pool_take(&link->nic->send);
    if (stream->open == NULL) {
        link->nic->send_short = true; /* buffers that come back wake the link */
        return false;
    }
    stream->credits--;
    stream->open_used = 0;
    return true;
}

static uint32_t packet_left(const struct verbs_stream *stream)
{
    return (uint32_t)VERBS_PACKET_ROOM - stream->open_used;
}

static void packet_append(struct verbs_stream *stream, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    memcpy(stream->open->bytes + sizeof(struct verbs_packet) + stream->open_used, bytes, size);
    stream->open_used += (uint32_t)size;
}

/* Who has many answers waiting gives no credit back, so that the peer stops asking; but for one
 * with its own last: else both would be out of credit. */
static uint32_t credit_to_give(const struct verbs_stream *stream)
{
    if (stream->answer_bytes < ANSWERS_FULL)
        return stream->owed;
    return stream->credits == 0 && stream->owed > 0 ? 1 : 0;
}

/* Into the list of work requests. Fenced: what it says about READs before it is true only when they
 * are done. */
static void packet_stage(struct verbs_link *link, struct verbs_buffer *buffer,
                         const struct verbs_packet *head)
{
    uint32_t size = (uint32_t)sizeof(*head) + head->length;
    struct verbs_posted entry = {.kind = VERBS_POSTED_PACKET, .buffer = buffer, .length = size};
    bool fenced = link->notify->reads > 0;
    struct ibv_send_wr *wr;

    memcpy(buffer->bytes, head, sizeof(*head));
    wr = verbs_qp_stage(link->notify, &entry);
    wr->opcode = IBV_WR_SEND;
    wr->send_flags = fenced ? IBV_SEND_FENCE : 0;
    if (size <= link->notify->inline_max)
        wr->send_flags |= IBV_SEND_INLINE;
    *wr->sg_list =
        (struct ibv_sge){.addr = (uintptr_t)buffer->bytes, .length = size, .lkey = buffer->lkey};
    endpoint_moved(link->link.endpoint, size, 0);
}

static void packet_close(struct verbs_link *link)
{
    struct verbs_stream *stream = &link->stream;
    struct verbs_packet head = {.generation = link->generation,
                                .epoch = link->notify->renewal.epoch,
                                .sequence = stream->sequence_out++,
                                .length = stream->open_used};

    head.credits = (uint16_t)credit_to_give(stream);
    stream->owed -= head.credits;
    packet_stage(link, stream->open, &head);
    stream->open = NULL;
}

/* A whole frame into the open packet or a new one. */
static bool frame_put(struct verbs_link *link, const struct frame *frame, const void *part1,
                      size_t size1, const void *part2, size_t size2)
{
    struct verbs_stream *stream = &link->stream;
    size_t size = sizeof(*frame) + size1 + size2;

    if (size > VERBS_PACKET_ROOM || !verbs_qp_is_live(link->notify))
        return false;
    if (stream->open != NULL && size > packet_left(stream))
        packet_close(link);
    if (!packet_open(link))
        return false;
    packet_append(stream, frame, sizeof(*frame));
    packet_append(stream, part1, size1);
    packet_append(stream, part2, size2);
    return true;
}

static int frame_enqueue(struct verbs_link *link, const struct frame *frame, const void *part1,
                         size_t size1, const void *part2, size_t size2)
{
    struct verbs_frame *waiting;

    if (frame_is_answer(frame) && link->stream.answer_bytes > ANSWERS_MAX) {
        verbs_link_fail(link, TS_ERR_PROTOCOL, "the peer asks on and does not take its answers");
        return TS_OK;
    }
    waiting = malloc(sizeof(*waiting) + size1 + size2);
    if (waiting == NULL)
        return TS_ERR_NO_MEMORY;
    waiting->frame = *frame;
    waiting->sent = 0;
    if (size1 > 0)
        memcpy(waiting->payload, part1, size1);
    if (size2 > 0)
        memcpy(waiting->payload + size1, part2, size2);
    list_append(&link->stream.queue, &waiting->link);
    if (frame_is_answer(frame))
        link->stream.answer_bytes += sizeof(*frame) + frame->length;
    return TS_OK;
}

int verbs_stream_send(struct verbs_link *link, const struct frame *frame, const void *part1,
                      size_t size1, const void *part2, size_t size2)
{
    int rc = TS_OK;

    if (!list_empty(&link->stream.queue) || !frame_put(link, frame, part1, size1, part2, size2))
        rc = frame_enqueue(link, frame, part1, size1, part2, size2);
    link_wake(&link->link);
    return rc;
}

/* As much of the frame as goes. True: all of it. */
static bool frame_pack(struct verbs_link *link, struct verbs_frame *waiting)
{
    struct verbs_stream *stream = &link->stream;
    const uint32_t head = sizeof(waiting->frame), whole = head + waiting->frame.length;

    while (waiting->sent < whole) {
        uint32_t size;

        if (stream->open != NULL && packet_left(stream) < (waiting->sent == 0 ? head : 1))
            packet_close(link);
        if (!packet_open(link))
            return false;
        if (waiting->sent == 0) {
            packet_append(stream, &waiting->frame, head);
            waiting->sent = head;
        }
        size = whole - waiting->sent;
        if (size > packet_left(stream))
            size = packet_left(stream);
        packet_append(stream, waiting->payload + (waiting->sent - head), size);
        waiting->sent += size;
    }
    return true;
}

void verbs_stream_fill(struct verbs_link *link)
{
    struct verbs_stream *stream = &link->stream;

    while (!list_empty(&stream->queue) && verbs_qp_is_live(link->notify)) {
        struct verbs_frame *waiting = list_entry(stream->queue.next, struct verbs_frame, link);

        if (!frame_pack(link, waiting))
            return;
        list_remove(&waiting->link);
        if (frame_is_answer(&waiting->frame))
            stream->answer_bytes -= sizeof(waiting->frame) + waiting->frame.length;
        free(waiting);
    }
}

void verbs_stream_flush(struct verbs_link *link)
{
    struct verbs_stream *stream = &link->stream;

    if (!verbs_qp_is_live(link->notify))
        return;
    /* Half of the window is empty again and nothing goes that way: credits go by themselves. */
    if (stream->open == NULL && stream->owed >= stream->window / 2 &&
        stream->answer_bytes < ANSWERS_FULL)
        (void)packet_open(link);
    if (stream->open != NULL)
        packet_close(link);
}

/* ---- a queue pair that failed ---- */

void verbs_stream_keep(struct verbs_link *link, struct verbs_buffer *buffer)
{
    struct verbs_stream *stream = &link->stream;

    buffer->next = NULL;
    *stream->kept_end = buffer;
    stream->kept_end = &buffer->next;
    stream->kept_count++;
}

bool verbs_stream_may_resume(const struct verbs_link *link, uint32_t received)
{
    return link->stream.sequence_out - received <= link->stream.kept_count;
}

/* They have places on the queue: they came from one of this depth, and nothing was staged since. */
void verbs_stream_resume(struct verbs_link *link, uint32_t received)
{
    struct verbs_stream *stream = &link->stream;
    struct verbs_buffer *buffer;
    struct verbs_packet head;

    while ((buffer = kept_take(stream)) != NULL) {
        memcpy(&head, buffer->bytes, sizeof(head));
        if ((int32_t)(head.sequence - received) < 0) {
            verbs_pool_give(&link->nic->send, buffer); /* it arrived, only its answer did not */
            continue;
        }
        head.epoch = link->notify->renewal.epoch;
        packet_stage(link, buffer, &head);
    }
}

/* ---- in ---- */

static int frame_deliver(struct verbs_link *link, const uint8_t *payload)
{
    link->stream.in_frame = false;
    return link_on_frame(&link->link, &link->stream.frame, payload);
}

/* The rest of a frame that began in an earlier packet. */
static int payload_collect(struct verbs_link *link, const uint8_t **at, uint32_t *left)
{
    struct verbs_stream *stream = &link->stream;
    uint32_t size = stream->frame.length - stream->have;
    int rc;

    if (size > *left)
        size = *left;
    memcpy(stream->payload + stream->have, *at, size);
    stream->have += size;
    *at += size;
    *left -= size;
    if (stream->have < stream->frame.length)
        return TS_OK;
    rc = frame_deliver(link, stream->payload);
    free(stream->payload);
    stream->payload = NULL;
    return rc;
}

static int frame_begin(struct verbs_link *link, const uint8_t **at, uint32_t *left)
{
    struct verbs_stream *stream = &link->stream;
    const uint8_t *payload;

    if (*left < sizeof(stream->frame))
        return TS_ERR_PROTOCOL;
    memcpy(&stream->frame, *at, sizeof(stream->frame));
    *at += sizeof(stream->frame);
    *left -= (uint32_t)sizeof(stream->frame);
    if (frame_check(&stream->frame) != TS_OK || frame_is_bulk(&stream->frame))
        return TS_ERR_PROTOCOL;
    if (stream->frame.length <= *left) {
        payload = *at;
        *at += stream->frame.length;
        *left -= stream->frame.length;
        return frame_deliver(link, payload);
    }
    stream->payload = malloc(stream->frame.length);
    if (stream->payload == NULL)
        return TS_ERR_NO_MEMORY;
    stream->in_frame = true;
    stream->have = 0;
    return payload_collect(link, at, left);
}

static int packet_take(struct verbs_link *link, const uint8_t *bytes, uint32_t size,
                       const char **why)
{
    struct verbs_stream *stream = &link->stream;
    struct verbs_packet head;
    uint32_t left;
    int rc = TS_OK;

    *why = "a packet of the wrong length";
    if (size < sizeof(head))
        return TS_ERR_PROTOCOL;
    memcpy(&head, bytes, sizeof(head));
    if (head.generation != link->generation || head.epoch != link->notify->renewal.epoch) {
        atomic_count(&link->nic->worker->stats->stale_completions, 1);
        return TS_OK;
    }
    if (head.length != size - sizeof(head))
        return TS_ERR_PROTOCOL;
    verbs_link_linked(link);
    *why = "a packet out of order";
    if (head.sequence != stream->sequence_in++)
        return TS_ERR_PROTOCOL;
    *why = "more credit than there are buffers";
    stream->credits += head.credits;
    if (stream->credits > stream->peer_window)
        return TS_ERR_PROTOCOL;
    *why = "more packets than it had credit for";
    if (++stream->owed > stream->window)
        return TS_ERR_PROTOCOL;
    *why = "a broken frame";
    bytes += sizeof(head);
    left = head.length;
    while (left > 0 && rc == TS_OK)
        rc = stream->in_frame ? payload_collect(link, &bytes, &left)
                              : frame_begin(link, &bytes, &left);
    return rc;
}

void verbs_stream_on_packet(struct verbs_link *link, const uint8_t *bytes, uint32_t size)
{
    const char *why;
    int rc;

    endpoint_moved(link->link.endpoint, 0, size);
    rc = packet_take(link, bytes, size, &why);
    if (rc == TS_ERR_PROTOCOL)
        verbs_link_fail(link, rc, "the peer sent %s", why);
    else if (rc != TS_OK)
        verbs_link_fail(link, rc, "no memory for a frame");
    if (!link->closing)
        link_wake(&link->link);
}
