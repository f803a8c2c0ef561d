/* The mailbox: notifications that arrived on the main channel. */
#include "client/internal.h"

static int mailbox_check(const struct tesup_channel *channel)
{
    int rc = channel_guard(channel);

    if (rc == TS_OK && !channel->main)
        rc = error_set(TS_ERR_INVALID, "only the main channel (tesup_channel_main) has a mailbox");
    return rc;
}

static bool look_at_owed(struct tesup_channel *channel)
{
    struct mailbox_look *look = &channel->look;
    int status;

    if (atomic_peek(&channel->session->events_owed) == 0 ||
        !remote_event_owed(channel->session, &look->remote, &status))
        return false;
    look->valid = true;
    look->ring = NULL;
    look->body = NULL;
    look->header = (struct notify_record){.kind = NOTIFY_KIND_EVENT, .status = (int32_t)status};
    return true;
}

static int look_at_ring(struct tesup_channel *channel, struct ring_consumer *ring)
{
    struct mailbox_look *look = &channel->look;
    int rc = ring_record_peek(ring, &look->header, &look->body);

    if (rc != TS_OK)
        return rc == TS_AGAIN ? rc
                              : channel_break(channel, "the ring of arrived notifications is "
                                                       "impossible");
    look->valid = true;
    look->ring = ring;
    look->remote = look->header.remote;
    if (look->header.kind == NOTIFY_KIND_EVENT && atomic_peek(&channel->session->moved) != 0)
        look->remote = book_user(&channel->session->remotes, look->header.remote);
    return TS_OK;
}

static void left_forget(struct tesup_channel *channel)
{
    channel_unmap(&channel->left_map);
    channel->has_left = false;
}

/* Oldest first: what a lost worker left, the ring of now, events of our own. */
static int mailbox_look(struct tesup_channel *channel)
{
    int rc = TS_AGAIN;

    if (channel->has_left) {
        rc = look_at_ring(channel, &channel->left_nrx);
        if (rc == TS_OK)
            return rc;
        left_forget(channel);
    }
    if (!channel->broken)
        rc = look_at_ring(channel, &channel->nrx);
    if (rc == TS_AGAIN && look_at_owed(channel))
        rc = TS_OK;
    return rc;
}

static void notification_fill(const struct mailbox_look *look, struct tesup_notification *out)
{
    const struct notify_record *header = &look->header;
    const char *from = (const char *)look->body;

    *out = (struct tesup_notification){.kind = header->kind,
                                       .status = header->status,
                                       .from_len = header->from_len,
                                       .name_len = header->name_len,
                                       .msg_len = header->msg_len,
                                       .bytes = header->bytes};
    if (header->kind == NOTIFY_KIND_EVENT)
        out->remote = look->remote;
    if (from == NULL)
        return;
    out->from = from;
    out->name = from + header->from_len;
    out->msg = from + header->from_len + header->name_len;
}

int tesup_notify_peek(struct tesup_channel *channel, struct tesup_notification *out)
{
    int rc = mailbox_check(channel);

    if (rc == TS_OK && out == NULL)
        rc = error_set(TS_ERR_INVALID, "tesup_notify_peek needs a place for the notification");
    if (rc == TS_OK && !channel->look.valid)
        rc = mailbox_look(channel);
    if (rc == TS_OK)
        notification_fill(&channel->look, out);
    return rc;
}

int tesup_notify_release(struct tesup_channel *channel)
{
    struct mailbox_look *look;
    int rc = mailbox_check(channel);

    if (rc != TS_OK)
        return rc;
    look = &channel->look;
    if (!look->valid)
        return error_set(TS_ERR_INVALID, "there is nothing to release: tesup_notify_peek first");
    look->valid = false;
    if (look->header.kind == NOTIFY_KIND_EVENT)
        remote_event_taken(channel->session, look->remote, look->ring == NULL);
    if (look->ring == NULL)
        return TS_OK;
    ring_record_consume(look->ring, &look->header);
    if (look->ring == &channel->nrx) {
        ring_consumer_publish(&channel->nrx);
        doorbell_ring(&channel->nrx_bell); /* a worker may wait for this room */
    } else if (look->ring->head == look->ring->tail) {
        left_forget(channel);
    }
    return TS_OK;
}
