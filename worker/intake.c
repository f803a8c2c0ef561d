#include "worker/intake.h"

#include <string.h>

#include "worker/remote.h"

#define INTAKE_BATCH 32

/* What only a broken or hostile library writes: the session ends.  Everything that an application
 * can get wrong is checked in request_start and ends as an error completion. */
static const char *sqe_check(const struct channel *channel, const struct sqe *sqe)
{
    if (sqe->op >= SQE_OP_COUNT)
        return "unknown operation in a descriptor";
    if ((sqe->flags & ~SQE_FLAG_MASK) != 0)
        return "unknown flags in a descriptor";
    if (sqe->slot >= channel->map.slots)
        return "request slot out of range";
    if (sqe->op != SQE_CANCEL && channel->requests[sqe->slot].state != REQUEST_FREE)
        return "request slot in use";
    return NULL;
}

static void sqe_accept(struct channel *channel, const struct sqe *sqe, uint64_t ticket)
{
    struct request *request = &channel->requests[sqe->slot];
    struct journal_entry *entry = &channel->map.journal[sqe->slot];

    entry->ticket = ticket;
    entry->cookie = sqe->cookie;
    entry->op = sqe->op;
    entry->flags = sqe->flags;
    atomic_publish(&entry->state, JOURNAL_ACCEPTED); /* J0, pairs with J1 of the next worker */
    request->channel = channel;
    request->state = REQUEST_WAITING; /* the slot is taken; request_start says how it goes on */
    request->ticket = ticket;
    request_init_lists(request);
    channel->in_flight++;
    atomic_count(&channel->session->worker->stats->in_flight, 1);
}

static void sqe_cancel(struct channel *channel, const struct sqe *sqe)
{
    struct request *request = &channel->requests[sqe->slot];

    if (request->state != REQUEST_FREE && request->ticket == sqe->local_offset)
        request_stop(request, TS_ERR_CANCELLED);
}

static const char *sqe_start(struct channel *channel, const struct sqe *sqe)
{
    struct request *request = &channel->requests[sqe->slot];
    struct notify_record record;
    const uint8_t *body = NULL;

    if ((sqe->flags & SQE_FLAG_NOTIFY) == 0) {
        request_start(request, sqe, NULL, NULL);
        return NULL;
    }
    if (ring_record_at(&channel->ntx, sqe->notify_pos, sqe->notify_len, &record, &body) != TS_OK ||
        record.from_len != 0)
        return "forged notification record";
    request_start(request, sqe, &record, body);
    ring_record_consume(&channel->ntx, &record);
    return NULL;
}

static bool intake_next_is_cancel(const struct channel *channel)
{
    struct sqe next;

    ring_slot_read(&channel->sq, &next, sizeof(next));
    return next.op == SQE_CANCEL;
}

/* How many submissions may be taken: completions of all in flight must fit cq. */
static int intake_room(struct channel *channel, uint64_t *count)
{
    uint64_t ready;
    int rc = ring_consumer_ready(&channel->sq, &ready);

    *count = 0;
    if (rc == TS_OK && ready == 0)
        ring_slot_prefetch(&channel->sq, sizeof(struct sqe));
    if (rc != TS_OK || ready == 0)
        return rc;
    if (ready > INTAKE_BATCH)
        ready = INTAKE_BATCH;
    rc = ring_producer_room(&channel->cq, channel->in_flight + ready);
    if (rc == TS_AGAIN) {
        uint64_t room = channel->cq.size - (channel->cq.tail - channel->cq.head);

        ready = room > channel->in_flight ? room - channel->in_flight : 0;
        if (ready == 0)
            ready = intake_next_is_cancel(channel); /* needs no completion of its own */
        rc = TS_OK;
    }
    *count = ready;
    return rc;
}

bool intake_has_work(struct channel *channel)
{
    uint64_t count;

    if (channel->session->killed || channel->session->held)
        return false;
    return intake_room(channel, &count) != TS_OK || count > 0;
}

int intake_do_work(struct channel *channel)
{
    struct session *session = channel->session;
    struct sqe batch[INTAKE_BATCH];
    const char *why = "impossible counters in a ring";
    uint64_t first = channel->sq.head;
    uint64_t count;

    if (session->killed || session->held)
        return 0;
    if (intake_room(channel, &count) != TS_OK)
        goto kill;
    if (count == 0)
        return 0;
    for (uint64_t i = 0; i < count; i++) {
        ring_slot_read(&channel->sq, &batch[i], sizeof(batch[i]));
        why = sqe_check(channel, &batch[i]);
        if (why != NULL)
            goto kill;
        if (batch[i].op != SQE_CANCEL)
            sqe_accept(channel, &batch[i], first + i);
        channel->sq.head++;
    }
    ring_consumer_publish(&channel->sq); /* after the journal: nothing accepted is forgotten */
    for (uint64_t i = 0; i < count; i++) {
        if (batch[i].op == SQE_CANCEL)
            sqe_cancel(channel, &batch[i]);
        else if ((why = sqe_start(channel, &batch[i])) != NULL)
            goto kill;
    }
    ring_consumer_publish(&channel->ntx);
    atomic_count(&session->worker->stats->requests, count);
    return (int)count;

kill:
    session_kill(session, why);
    return 1;
}
