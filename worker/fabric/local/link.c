#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/endpoint.h"
#include "worker/fabric/local/local.h"

#define POLL_FRAMES 64 /* of one link before others have their turn */

/* ---- out ---- */

/* A frame as a ring record: "name" is the header, "message" the payload. */
static int ring_put(struct local_link *local, const struct frame *frame, const void *part1,
                    size_t size1, const void *part2, size_t size2)
{
    struct notify_record record = {.kind = NOTIFY_KIND_MESSAGE,
                                   .name_len = sizeof(*frame),
                                   .msg_len = (uint32_t)(size1 + size2)};
    uint8_t *at;
    int rc;

    record.size = (uint32_t)ring_record_size(0, record.name_len, record.msg_len);
    rc = ring_record_claim(&local->out, record.size, &at);
    if (rc != TS_OK)
        return rc;
    memcpy(at, &record, sizeof(record));
    at += sizeof(record);
    memcpy(at, frame, sizeof(*frame));
    at += sizeof(*frame);
    if (size1 > 0)
        memcpy(at, part1, size1);
    if (size2 > 0)
        memcpy(at + size1, part2, size2);
    endpoint_moved(local->link.endpoint, sizeof(*frame) + frame->length, 0);
    return TS_OK;
}

static int local_enqueue(struct local_link *local, const struct frame *frame, const void *part1,
                         size_t size1, const void *part2, size_t size2)
{
    struct local_frame *copy = malloc(sizeof(*copy) + size1 + size2);

    if (copy == NULL)
        return TS_ERR_NO_MEMORY;
    copy->frame = *frame;
    if (size1 > 0)
        memcpy(copy->payload, part1, size1);
    if (size2 > 0)
        memcpy(copy->payload + size1, part2, size2);
    list_append(&local->queue, &copy->link);
    if (frame_is_answer(frame))
        local->answer_bytes += sizeof(*frame) + frame->length;
    return TS_OK;
}

int local_send(struct link *link, const struct frame *frame, const void *part1, size_t size1,
               const void *part2, size_t size2)
{
    struct local_link *local = local_of(link);
    int rc = TS_AGAIN;

    if (list_empty(&local->queue))
        rc = ring_put(local, frame, part1, size1, part2, size2);
    if (rc == TS_AGAIN)
        rc = local_enqueue(local, frame, part1, size1, part2, size2);
    if (rc == TS_ERR_PROTOCOL)
        link_on_lost(link, rc, "impossible counters in the peer's ring");
    link_wake(link);
    return rc == TS_ERR_NO_MEMORY ? rc : TS_OK;
}

/* Moves waiting frames into the ring; arms the room bell when it is full. */
static int local_flush(struct local_link *local)
{
    int done = 0;

    while (!list_empty(&local->queue)) {
        struct local_frame *copy = list_entry(local->queue.next, struct local_frame, link);
        int rc = ring_put(local, &copy->frame, copy->payload, copy->frame.length, NULL, 0);

        if (rc == TS_AGAIN) {
            doorbell_arm(&local->room);
            rc = ring_put(local, &copy->frame, copy->payload, copy->frame.length, NULL, 0);
        }
        if (rc == TS_ERR_PROTOCOL)
            link_on_lost(&local->link, rc, "impossible counters in the peer's ring");
        if (rc != TS_OK)
            break;
        list_remove(&copy->link);
        if (frame_is_answer(&copy->frame))
            local->answer_bytes -= sizeof(copy->frame) + copy->frame.length;
        free(copy);
        done++;
    }
    return done;
}

static int local_do_work(struct link *link)
{
    struct local_link *local = local_of(link);
    int done = local_flush(local) + copy_do_work(&local->copies);

    ring_producer_publish(&local->out);
    if (doorbell_ring(&local->bell))
        atomic_count(&link->endpoint->worker->stats->doorbells_rung, 1);
    if (!list_empty(&local->copies.copies))
        link_wake(link);
    return done;
}

/* ---- in ---- */

static int local_on_frame(struct local_link *local, const struct frame *frame,
                          const uint8_t *payload)
{
    switch (frame->type) {
    case FRAME_EXPORT:
        return local_on_export(local, frame);
    case FRAME_EXPORTED:
        return local_on_refused(local, frame);
    case FRAME_REVOKE:
        return local_on_revoke(local, frame);
    case FRAME_REVOKED:
        return local_on_revoked(local, frame);
    default:
        return link_on_frame(&local->link, frame, payload);
    }
}

/* The peer is a process of this host, yet not trusted more than a stream: copy the header once. */
static int local_take(struct local_link *local)
{
    struct notify_record record;
    const uint8_t *body;
    struct frame frame;
    int rc = ring_record_peek(&local->in, &record, &body);

    if (rc != TS_OK)
        return rc;
    if (record.from_len != 0 || record.name_len != sizeof(frame))
        return TS_ERR_PROTOCOL;
    memory_copy_once(&frame, body, sizeof(frame));
    if (frame_check(&frame) != TS_OK || frame.length != record.msg_len)
        return TS_ERR_PROTOCOL;
    endpoint_moved(local->link.endpoint, 0, sizeof(frame) + frame.length);
    rc = local_on_frame(local, &frame, body + sizeof(frame));
    ring_record_consume(&local->in, &record);
    return rc;
}

static bool local_may_read(const struct local_link *local)
{
    const struct endpoint *endpoint = local->link.endpoint;

    return endpoint->lost_status == TS_OK && endpoint->state != ENDPOINT_LINKING &&
           local->answer_bytes <= LOCAL_QUEUE_MAX;
}

static int local_poll(struct link *link)
{
    struct local_link *local = local_of(link);
    int done = 0, rc = TS_OK;

    while (done < POLL_FRAMES && local_may_read(local)) {
        rc = local_take(local);
        if (rc != TS_OK)
            break;
        done++;
    }
    if (rc < 0)
        link_on_lost(link, rc, "the peer wrote a frame that makes no sense");
    if (done > 0) {
        ring_consumer_publish(&local->in);
        doorbell_ring(&local->peer_room);
    }
    return done;
}

static bool local_arm(struct link *link)
{
    struct local_link *local = local_of(link);
    uint64_t ready = 0;

    doorbell_arm(&local->own_bell);
    if (!local_may_read(local))
        return false;
    return ring_consumer_ready(&local->in, &ready) != TS_OK || ready > 0;
}

static void local_on_event(struct source *source, uint32_t events)
{
    struct local_link *local = list_entry(source, struct local_link, event);

    (void)events;
    if (!list_empty(&local->queue))
        link_wake(&local->link); /* room, maybe */
}

static int local_on_message(struct local_link *local, struct wire_message *message)
{
    switch (message->header.type) {
    case WIRE_REPLY: /* the peer has mapped the rings */
        endpoint_handle(local->link.endpoint, ENDPOINT_EVENT_LINKED, TS_OK, "");
        return TS_OK;
    case WIRE_REGION_ADD:
    case WIRE_REGION_ADD_GPU:
        return local_on_exported(local, message);
    default:
        return TS_ERR_PROTOCOL;
    }
}

static void local_on_socket(struct source *source, uint32_t events)
{
    struct local_link *local = list_entry(source, struct local_link, socket);
    struct link *link = &local->link;
    struct wire_message message;
    int rc = TS_OK;

    (void)events;
    while (link->endpoint->lost_status == TS_OK && rc == TS_OK) {
        rc = wire_receive(source->fd, &message);
        if (rc != TS_OK)
            break;
        rc = local_on_message(local, &message);
        wire_message_close(&message);
    }
    if (rc < 0) {
        /* What the peer wrote before it went is still in the ring. */
        if (rc == TS_ERR_GONE)
            while (local_poll(link) > 0)
                ;
        link_on_lost(link, rc == TS_ERR_GONE ? TS_ERR_UNREACHABLE : rc,
                     rc == TS_ERR_GONE ? "the peer worker is gone"
                                       : "the peer broke the local protocol");
    }
}

/* ---- life ---- */

static void local_close(struct link *link)
{
    struct local_link *local = local_of(link);
    struct reactor *reactor = &link->endpoint->worker->reactor;

    reactor_watch(reactor, &local->socket, 0);
    reactor_watch(reactor, &local->event, 0);
    close(local->socket.fd);
    close(local->event.fd);
    close(local->bell.fd);
    while (!list_empty(&local->queue)) {
        struct local_frame *copy = list_entry(local->queue.next, struct local_frame, link);

        list_remove(&copy->link);
        free(copy);
    }
    copy_queue_fini(&local->copies);
    imports_fini(&local->imports);
    local_exports_fini(local);
    channel_unmap(&local->map);
    free(local);
}

static const struct link_ops local_ops = {
    .name = "local",
    .notify = "local",
    .send = local_send,
    .post = local_post,
    .cancel = local_cancel,
    .forget = local_forget,
    .do_work = local_do_work,
    .flush = link_flush_once,
    .poll = local_poll,
    .arm = local_arm,
    .revoke = local_revoke,
    .close = local_close,
};

static void local_rings(struct local_link *local, bool first, const int fds[3])
{
    struct channel_map *map = &local->map;
    struct channel_header *header = map->header;
    struct ring_shared *out = first ? &header->ntx_words : &header->nrx_words;
    struct ring_shared *in = first ? &header->nrx_words : &header->ntx_words;
    struct ring_place *out_place = first ? &map->ntx : &map->nrx;
    struct ring_place *in_place = first ? &map->nrx : &map->ntx;

    ring_producer_init(&local->out, out, channel_bytes(map, out_place), out_place->size,
                       out_place->start);
    ring_consumer_init(&local->in, in, channel_bytes(map, in_place), in_place->size,
                       in_place->start);
    local->bell.word = first ? &header->worker_bell : &header->job_bell;
    local->own_bell.word = first ? &header->job_bell : &header->worker_bell;
    local->room.word = first ? &header->ntx_room : &header->nrx_room;
    local->peer_room.word = first ? &header->nrx_room : &header->ntx_room;
    local->bell.fd = local->peer_room.fd = first ? fds[1] : fds[2];
    local->event.fd = local->own_bell.fd = local->room.fd = first ? fds[2] : fds[1];
}

static int local_confirm(int socket)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_REPLY);
    return wire_send(socket, &message);
}

struct link *local_link_open(struct endpoint *endpoint, int socket, const int fds[3], bool first,
                             char *text, size_t text_size)
{
    struct reactor *reactor = &endpoint->worker->reactor;
    struct local_link *local = calloc(1, sizeof(*local));
    int rc;

    if (local == NULL)
        goto err_close;
    rc = channel_map(fds[0], &local->map);
    if (rc != TS_OK) {
        snprintf(text, text_size, "cannot map the rings of a local link: %s", err_name(rc));
        goto err_free;
    }
    local_rings(local, first, fds);
    list_init(&local->queue);
    list_init(&local->exports);
    imports_init(&local->imports, &local->link, &local_import_ops);
    copy_queue_init(&local->copies, endpoint->worker->config.slice_bytes);
    local->socket = (struct source){.fd = socket, .ready = local_on_socket};
    local->event.ready = local_on_event;
    if (reactor_watch(reactor, &local->socket, EPOLLIN) < 0 ||
        reactor_watch(reactor, &local->event, REACTOR_NEWS) < 0)
        goto err_unmap;
    if (!first && local_confirm(socket) != TS_OK)
        goto err_unmap;
    link_init(&local->link, &local_ops, endpoint);
    close(fds[0]);
    return &local->link;

err_unmap:
    reactor_watch(reactor, &local->socket, 0);
    reactor_watch(reactor, &local->event, 0);
    channel_unmap(&local->map);
err_free:
    free(local);
err_close:
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    close(socket);
    return NULL;
}
