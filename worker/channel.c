#include "worker/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void channel_on_doorbell(struct source *source, uint32_t events)
{
    struct channel *channel = list_entry(source, struct channel, source);

    (void)events; /* the loop looks at all rings after this */
    atomic_count(&channel->session->worker->stats->doorbells_heard, 1);
}

/* Our own counters come from shared memory once, when a worker takes over from a dead one. */
static int channel_adopt_counters(struct channel *channel)
{
    struct channel_header *header = channel->map.header;

    channel->sq.head = channel->sq.published = channel->sq.tail =
        atomic_observe(&header->sq_words.head);
    channel->ntx.head = channel->ntx.published = channel->ntx.tail =
        atomic_observe(&header->ntx_words.head);
    channel->cq.tail = channel->cq.published = atomic_observe(&header->cq_words.tail);
    channel->cq.head = atomic_observe(&header->cq_words.head);
    channel->nrx.tail = channel->nrx.published = atomic_observe(&header->nrx_words.tail);
    channel->nrx.head = atomic_observe(&header->nrx_words.head);
    if (channel->cq.tail - channel->cq.head > channel->cq.size ||
        channel->nrx.tail - channel->nrx.head > channel->nrx.size ||
        ((channel->ntx.head | channel->nrx.tail) & 7) != 0)
        return TS_ERR_PROTOCOL;
    return TS_OK;
}

static void channel_rings_init(struct channel *channel)
{
    struct channel_map *map = &channel->map;
    struct channel_header *header = map->header;

    ring_consumer_init(&channel->sq, &header->sq_words, channel_bytes(map, &map->sq), map->sq.size,
                       map->sq.start);
    ring_producer_init(&channel->cq, &header->cq_words, channel_bytes(map, &map->cq), map->cq.size,
                       map->cq.start);
    ring_consumer_init(&channel->ntx, &header->ntx_words, channel_bytes(map, &map->ntx),
                       map->ntx.size, map->ntx.start);
    ring_producer_init(&channel->nrx, &header->nrx_words, channel_bytes(map, &map->nrx),
                       map->nrx.size, map->nrx.start);
}

static void cqe_push(struct channel *channel, const struct cqe *cqe)
{
    /* Room is certain: intake takes no more than cq can hold beside what is in flight. */
    memcpy(ring_slot_next(&channel->cq, sizeof(*cqe)), cqe, sizeof(*cqe));
    channel->cq.tail++;
    if (list_empty(&channel->touched))
        list_append(&channel->session->worker->touched, &channel->touched);
}

static void journal_note(struct journal_entry *entry, enum journal_state state)
{
    atomic_publish(&entry->state, state); /* J0, pairs with J1 of the next worker */
}

/* The leader of a group whose last accepted member says MORE is still in the ring, or to come. */
static void channel_adopt_group(struct channel *channel)
{
    uint64_t start = channel->map.sq.start, last = 0;
    uint8_t flags = 0;

    for (uint32_t slot = 0; slot < channel->map.slots; slot++) {
        const struct journal_entry *entry = &channel->map.journal[slot];
        uint64_t at = entry->ticket - start + 1;

        if (at <= last || at > channel->sq.head - start)
            continue;
        last = at;
        flags = entry->flags;
    }
    if ((flags & SQE_FLAG_MORE) != 0)
        group_adopt(&channel->group);
}

/* Completes what the dead worker had accepted: once, and as uncertain. */
static int channel_adopt_journal(struct channel *channel)
{
    struct worker *worker = channel->session->worker;
    uint64_t published = channel->cq.tail;
    uint64_t seen = channel->sq.head;

    for (uint32_t slot = 0; slot < channel->map.slots; slot++) {
        struct journal_entry *entry = &channel->map.journal[slot];
        uint64_t state = atomic_observe(&entry->state); /* J1, pairs with J0 */

        if ((state == JOURNAL_ACCEPTED && (int64_t)(entry->ticket - seen) < 0) ||
            (state == JOURNAL_COMPLETING && (int64_t)(entry->cq_pos - published) >= 0)) {
            struct cqe cqe = {.cookie = entry->cookie,
                              .ticket = entry->ticket,
                              .status = TS_ERR_UNCERTAIN,
                              .slot = (uint16_t)slot,
                              .op = entry->op};

            if (ring_producer_room(&channel->cq, 1) != TS_OK)
                return TS_ERR_PROTOCOL;
            entry->cq_pos = channel->cq.tail;
            journal_note(entry, JOURNAL_COMPLETING);
            cqe_push(channel, &cqe);
            atomic_count(&worker->stats->uncertain, 1);
        }
    }
    return TS_OK;
}

static int channel_start(struct channel *channel, bool adopt)
{
    struct worker *worker = channel->session->worker;
    struct channel_header *header = channel->map.header;
    int rc;

    channel_rings_init(channel);
    channel->bell = (struct doorbell){.word = &header->job_bell, .fd = channel->bell.fd};
    channel->own_bell = (struct doorbell){.word = &header->worker_bell, .fd = channel->source.fd};
    if (adopt) {
        rc = channel_adopt_counters(channel);
        if (rc == TS_OK)
            rc = channel_adopt_journal(channel);
        if (rc != TS_OK)
            return rc;
        channel_adopt_group(channel);
    }
    channel->source.ready = channel_on_doorbell;
    if (reactor_watch(&worker->reactor, &channel->source, REACTOR_NEWS) < 0)
        return TS_ERR_SYSTEM;
    atomic_publish(&header->epoch, atomic_peek(&header->epoch) + 1); /* pairs with the observe in
                                                                      * session_grant_again */
    if (adopt)
        doorbell_ring(&channel->bell); /* the job looks at the epoch: its private memory is asked
                                        * for again */
    return TS_OK;
}

const char *channel_refusal(int status)
{
    switch (status) {
    case TS_OK:
        return "";
    case TS_ERR_NO_MEMORY:
        return "the worker has no memory or address space for the channel: raise RLIMIT_AS of the "
               "supervisor (LimitAS= in its unit), or the memory of its cgroup";
    case TS_ERR_PROTOCOL:
        return "the channel's header or journal makes no sense";
    default:
        return "the worker refuses the channel";
    }
}

int channel_add(struct session *session, const struct proto_channel *ask, int memfd, int own_event,
                int job_event)
{
    struct channel *channel = calloc(1, sizeof(*channel));
    int rc = channel != NULL ? TS_ERR_INVALID : TS_ERR_NO_MEMORY;

    if (channel == NULL || ask->handle >= SESSION_CHANNELS_MAX ||
        session->channels[ask->handle] != NULL) {
        close(own_event);
        close(job_event);
        goto err_free;
    }
    channel->session = session;
    channel->handle = ask->handle;
    channel->source.fd = own_event;
    channel->bell.fd = job_event;
    list_init(&channel->link);
    list_init(&channel->touched);
    group_init(&channel->group);
    gate_init(&channel->gate);
    rc = channel_map(memfd, &channel->map);
    if (rc != TS_OK)
        goto err_close;
    rc = TS_ERR_NO_MEMORY;
    channel->requests = calloc(channel->map.slots, sizeof(*channel->requests));
    if (channel->requests == NULL)
        goto err_unmap;
    rc = channel_start(channel, ask->adopt != 0);
    if (rc != TS_OK)
        goto err_requests;
    close(memfd);
    session->channels[ask->handle] = channel;
    if (channel->map.mailbox)
        session->mailbox = channel;
    list_append(&session->worker->channels, &channel->link);
    atomic_count(&session->worker->stats->channels, 1);
    return TS_OK;

err_requests:
    list_remove(&channel->touched);
    free(channel->requests);
err_unmap:
    channel_unmap(&channel->map);
err_close:
    close(own_event);
    close(job_event);
err_free:
    close(memfd);
    free(channel);
    if (rc == TS_ERR_PROTOCOL) /* served before, and its job has written nonsense meanwhile */
        session_kill(session, "its channel cannot be adopted: header or journal make no sense");
    return rc;
}

void channel_delete(struct channel *channel)
{
    struct worker *worker = channel->session->worker;

    for (uint32_t slot = 0; slot < channel->map.slots; slot++)
        request_discard(&channel->requests[slot]);
    if (channel->session->mailbox == channel)
        channel->session->mailbox = NULL;
    channel->session->channels[channel->handle] = NULL;
    list_remove(&channel->link);
    list_remove(&channel->touched);
    reactor_watch(&worker->reactor, &channel->source, 0);
    close(channel->source.fd);
    close(channel->bell.fd);
    channel_unmap(&channel->map);
    free(channel->requests);
    free(channel);
    atomic_count(&worker->stats->channels, (uint64_t)-1);
}

void channel_complete(struct channel *channel, struct request *request, int status, uint64_t bytes)
{
    struct journal_entry *entry = &channel->map.journal[request->slot];
    struct counters_worker_stats *stats = channel->session->worker->stats;
    struct cqe cqe = {.cookie = request->cookie,
                      .ticket = request->ticket,
                      .bytes = bytes,
                      .status = status,
                      .slot = request->slot,
                      .op = request->op};

    entry->cq_pos = channel->cq.tail;
    journal_note(entry, JOURNAL_COMPLETING);
    cqe_push(channel, &cqe);
    request->state = REQUEST_FREE;
    channel->in_flight--;
    atomic_count(&stats->completions, 1);
    atomic_count(&stats->in_flight, (uint64_t)-1);
}

int channel_deliver(struct channel *channel, const struct notify_record *header, const char *from,
                    const void *name, const void *msg)
{
    struct ring_producer *ring = &channel->nrx;
    uint8_t *at;
    int rc = ring_record_claim(ring, header->size, &at);

    if (rc == TS_AGAIN) {
        struct doorbell room = {.word = &channel->map.header->nrx_room};

        doorbell_arm(&room);
        rc = ring_record_claim(ring, header->size, &at);
    }
    if (rc == TS_ERR_PROTOCOL)
        session_kill(channel->session, "impossible counters in the notification ring");
    if (rc != TS_OK)
        return rc;
    memcpy(at, header, sizeof(*header));
    at += sizeof(*header);
    memcpy(at, from, header->from_len);
    at += header->from_len;
    memcpy(at, name, header->name_len);
    at += header->name_len;
    memcpy(at, msg, header->msg_len);
    if (list_empty(&channel->touched))
        list_append(&channel->session->worker->touched, &channel->touched);
    return TS_OK;
}

void channel_publish(struct channel *channel)
{
    list_remove(&channel->touched);
    ring_producer_publish(&channel->cq);
    ring_producer_publish(&channel->nrx);
    if (doorbell_ring(&channel->bell))
        atomic_count(&channel->session->worker->stats->doorbells_rung, 1);
}
