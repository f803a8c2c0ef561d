/* From the application's request to a descriptor in the submission ring. */
#include <string.h>

#include "client/internal.h"
#include "shm/table.h"

#define REQUEST_FLAGS (TESUP_NOTIFY_ALWAYS | TESUP_REMOTE_ADDR | TESUP_MORE | TESUP_AFTER)

static int refuse(const struct tesup_request *request, const char *why)
{
    static const char *const names[] = {"NOP", "READ", "WRITE", "NOTIFY", NULL, "WAIT"};

    return error_set(TS_ERR_INVALID, "%s with cookie %llu: %s", names[request->op],
                     (unsigned long long)request->cookie, why);
}

static bool request_has_notification(const struct tesup_request *request)
{
    return request->op == TESUP_OP_NOTIFY || request->name != NULL || request->msg != NULL ||
           request->name_len != 0 || request->msg_len != 0 ||
           (request->flags & TESUP_NOTIFY_ALWAYS) != 0;
}

static int notification_check(const struct tesup_channel *channel,
                              const struct tesup_request *request)
{
    if ((request->name == NULL && request->name_len != 0) ||
        (request->msg == NULL && request->msg_len != 0))
        return refuse(request, "name or msg is NULL, but its length is not 0");
    if ((uint64_t)request->name_len + request->msg_len > channel->notify_max)
        return error_set(TS_ERR_TOO_LONG,
                         "a notification of %u + %u bytes (name + msg) is longer than the %u bytes "
                         "allowed here; put the message into a region and send where it is",
                         request->name_len, request->msg_len, channel->notify_max);
    return TS_OK;
}

static int transfer_check(const struct tesup_request *request)
{
    if (request->local_region == 0)
        return refuse(request, "local_region is 0, which is no region");
    if (request->remote_region == 0 && (request->flags & TESUP_REMOTE_ADDR) == 0)
        return refuse(request, "remote_region is 0, and TESUP_REMOTE_ADDR is not set");
    if (request->length > UINT64_MAX - request->local_offset)
        return refuse(request, "local_offset + length overflows");
    if (request->length > UINT64_MAX - request->remote_offset)
        return refuse(request, "remote_offset + length overflows");
    return TS_OK;
}

static int wait_check(const struct tesup_request *request, bool notify)
{
    if (notify || (request->flags & TESUP_AFTER) != 0)
        return refuse(request, "it carries no notification, and waits for no other wait");
    if (request->local_region == 0)
        return refuse(request, "local_region is 0, which is no event");
    return TS_OK;
}

static int request_check(const struct tesup_channel *channel, const struct tesup_request *request,
                         bool notify)
{
    int rc = TS_OK;

    if (request->op > TESUP_OP_NOTIFY && request->op != TESUP_OP_WAIT)
        return error_set(TS_ERR_INVALID, "operation %u is unknown; TESUP_OP_* are", request->op);
    if ((request->flags & ~REQUEST_FLAGS) != 0)
        return refuse(request, "a flag is unknown");
    if (request->op == TESUP_OP_NOP)
        return notify ? refuse(request, "it carries no notification; use TESUP_OP_NOTIFY") : TS_OK;
    if (request->op == TESUP_OP_WAIT)
        return wait_check(request, notify);
    if (request->remote == 0)
        return refuse(request, "remote is 0, which is no segment; use tesup_segment_open");
    if (request->op != TESUP_OP_NOTIFY)
        rc = transfer_check(request);
    if (rc == TS_OK && notify)
        rc = notification_check(channel, request);
    return rc;
}

/* What the supervisor of now calls a handle of the application. */
static int handle_translate(struct tesup_session *session, struct book *book, uint32_t user,
                            uint32_t *wire)
{
    if (user == 0 || atomic_peek(&session->moved) == 0) {
        *wire = user;
        return TS_OK;
    }
    if (book_find(book, user, wire) != NULL && *wire != 0)
        return TS_OK;
    if (book == &session->remotes && atomic_peek(&session->opening) > 0) {
        control_collect(session);
        if (book_find(book, user, wire) != NULL)
            return *wire != 0 ? TS_OK : TS_AGAIN;
    }
    return error_set(TS_ERR_GONE, "handle %#x is closed, or did not survive the supervisor's death",
                     user);
}

static int sqe_fill(struct tesup_channel *channel, const struct tesup_request *request,
                    struct sqe *sqe)
{
    struct tesup_session *session = channel->session;
    int rc;

    *sqe = (struct sqe){.op = (uint8_t)request->op,
                        .flags = (uint8_t)request->flags & (SQE_FLAG_MORE | SQE_FLAG_AFTER),
                        .deadline_ms = request->deadline_ms,
                        .cookie = request->cookie};
    if (request->op == TESUP_OP_NOP)
        return TS_OK;
    if (request->op == TESUP_OP_WAIT)
        return handle_translate(session, &session->regions, request->local_region,
                                &sqe->local_region);
    rc = handle_translate(session, &session->remotes, request->remote, &sqe->remote);
    if (rc != TS_OK || request->op == TESUP_OP_NOTIFY)
        return rc;
    rc = handle_translate(session, &session->regions, request->local_region, &sqe->local_region);
    sqe->flags = (uint8_t)request->flags;
    sqe->length = request->length;
    sqe->local_offset = request->local_offset;
    sqe->remote_offset = request->remote_offset;
    if ((request->flags & TESUP_REMOTE_ADDR) == 0)
        sqe->remote_region = request->remote_region;
    return rc;
}

/* Puts the notification into ntx, if the remote's window and the ring have room. */
static int notification_write(struct tesup_channel *channel, const struct tesup_request *request,
                              struct sqe *sqe)
{
    uint64_t size = ring_record_size(0, request->name_len, request->msg_len);
    struct notify_record header = {.size = (uint32_t)size,
                                   .kind = NOTIFY_KIND_MESSAGE,
                                   .name_len = request->name_len,
                                   .msg_len = request->msg_len};
    uint8_t *record;
    int rc;

    if (channel->window[table_index(request->remote)] + size > channel->window_limit)
        return TS_AGAIN;
    rc = ring_record_claim(&channel->ntx, size, &record);
    if (rc != TS_OK)
        return rc;
    memset(record + size - 8, 0, 8); /* padding; what lies before it is overwritten below */
    memcpy(record, &header, sizeof(header));
    record += sizeof(header);
    if (request->name_len > 0)
        memcpy(record, request->name, request->name_len);
    if (request->msg_len > 0)
        memcpy(record + request->name_len, request->msg, request->msg_len);
    sqe->flags |= SQE_FLAG_NOTIFY;
    sqe->notify_pos = channel->ntx.tail - size;
    sqe->notify_len = (uint32_t)size;
    channel->window[table_index(request->remote)] += (uint32_t)size;
    return TS_OK;
}

static void sqe_push(struct tesup_channel *channel, const struct sqe *sqe)
{
    memcpy(ring_slot_next(&channel->sq, sizeof(*sqe)), sqe, sizeof(*sqe));
    channel->sq.tail++;
}

/* A new worker knows nothing of the requests that went before: it would send the notification
 * without them. */
static int group_refuse(struct tesup_channel *channel, const struct tesup_request *request)
{
    if ((request->flags & TESUP_MORE) == 0)
        channel->group = GROUP_NONE;
    return error_set(TS_ERR_GONE, "the supervisor died inside this group of requests");
}

static int submit_one(struct tesup_channel *channel, const struct tesup_request *request)
{
    struct sqe sqe;
    bool notify = request_has_notification(request);
    int rc = request_check(channel, request, notify);

    if (rc != TS_OK)
        return rc;
    if (channel->group == GROUP_LOST)
        return group_refuse(channel, request);
    if (channel->in_flight == channel->slots)
        return TS_AGAIN;
    rc = ring_producer_room(&channel->sq, 1);
    if (rc == TS_OK)
        rc = sqe_fill(channel, request, &sqe);
    if (rc == TS_OK && notify)
        rc = notification_write(channel, request, &sqe);
    if (rc == TS_ERR_PROTOCOL)
        return channel_break(channel, "the submission rings are impossible");
    if (rc != TS_OK)
        return rc;
    sqe.slot = channel->free_slots[channel->slots - channel->in_flight - 1];
    channel->notes[sqe.slot] = (struct slot_note){.ticket = channel->sq.tail,
                                                  .cookie = request->cookie,
                                                  .notify_bytes = sqe.notify_len,
                                                  .window = (uint16_t)table_index(request->remote),
                                                  .op = sqe.op,
                                                  .used = true};
    channel->in_flight++;
    channel->group = (request->flags & TESUP_MORE) != 0 ? GROUP_OPEN : GROUP_NONE;
    sqe_push(channel, &sqe);
    return TS_OK;
}

/* ntx before sq: a descriptor never names a record that is not there yet. */
static void submit_publish(struct tesup_channel *channel)
{
    ring_producer_publish(&channel->ntx);
    ring_producer_publish(&channel->sq);
    doorbell_ring(&channel->worker_bell);
}

int tesup_submit(struct tesup_channel *channel, const struct tesup_request *requests,
                 uint32_t count, uint64_t *tickets, uint32_t *accepted)
{
    uint32_t done = 0;
    int rc = channel_guard(channel);

    if (accepted != NULL)
        *accepted = 0;
    if (rc == TS_OK && (accepted == NULL || (requests == NULL && count > 0)))
        rc = error_set(TS_ERR_INVALID, "tesup_submit needs requests and a place for accepted");
    if (rc == TS_OK && !channel_live(channel))
        rc = channel_tend(channel);
    if (rc != TS_OK)
        return rc;
    for (; done < count; done++) {
        uint64_t ticket = channel->sq.tail;

        rc = submit_one(channel, &requests[done]);
        if (rc != TS_OK)
            break;
        if (tickets != NULL)
            tickets[done] = ticket;
    }
    *accepted = done;
    if (done > 0)
        submit_publish(channel);
    else if (rc == TS_AGAIN)
        channel_idle(channel);
    return rc;
}

int tesup_cancel(struct tesup_channel *channel, uint64_t ticket)
{
    struct sqe sqe = {.op = SQE_CANCEL, .local_offset = ticket};
    uint32_t slot = 0;
    int rc = channel_guard(channel);

    if (rc != TS_OK)
        return rc;
    while (slot < channel->slots &&
           !(channel->notes[slot].used && channel->notes[slot].ticket == ticket))
        slot++;
    if (slot == channel->slots || !channel_live(channel))
        return error_set(TS_ERR_GONE, "no request with ticket %llu is in the worker's hands",
                         (unsigned long long)ticket);
    rc = ring_producer_room(&channel->sq, 1);
    if (rc == TS_ERR_PROTOCOL)
        return channel_break(channel, "the submission ring is impossible");
    if (rc != TS_OK)
        return rc;
    sqe.slot = (uint16_t)slot;
    sqe_push(channel, &sqe);
    submit_publish(channel);
    return TS_OK;
}
