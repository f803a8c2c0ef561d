#include "worker/request.h"

#include <stdlib.h>
#include <string.h>

#include "shm/clock.h"
#include "worker/channel.h"
#include "worker/gate.h"
#include "worker/region.h"
#include "worker/remote.h"

#define STASH_MAX (16u * 1024u * 1024u) /* notifications per channel that wait for credit */

static struct worker *request_worker(const struct request *request)
{
    return request->channel->session->worker;
}

/* Where it was posted: its segment may have moved to another connection since. */
static struct endpoint *request_endpoint(const struct request *request)
{
    return request->transfer.endpoint;
}

static void count_outcome(struct counters_worker_stats *stats, const struct request *request,
                          int status)
{
    if (status == TS_OK && request->op == SQE_READ) {
        atomic_count(&stats->reads, 1);
        atomic_count(&stats->bytes_read, request->bytes);
    } else if (status == TS_OK && request->op == SQE_WRITE) {
        atomic_count(&stats->writes, 1);
        atomic_count(&stats->bytes_written, request->bytes);
    } else if (status == TS_AGAIN) {
        atomic_count(&stats->again, 1);
    } else if (status == TS_ERR_CANCELLED) {
        atomic_count(&stats->cancelled, 1);
    } else if (status == TS_ERR_TIMEOUT) {
        atomic_count(&stats->timed_out, 1);
    } else if (status == TS_ERR_UNCERTAIN) {
        atomic_count(&stats->uncertain, 1);
    } else if (status != TS_OK) {
        atomic_count(&stats->failed, 1);
    }
}

static void request_drop_stash(struct request *request)
{
    if (request->stash == NULL)
        return;
    request->channel->stashed_bytes -= request->name_len + request->msg_len;
    free(request->stash);
    request->stash = NULL;
}

/* Takes the request out of everything that knows it. */
static void request_detach(struct request *request)
{
    timer_clear(&request_worker(request)->timers, &request->deadline);
    list_remove(&request->order);
    list_remove(&request->waiting);
    group_forget(request);
    gpu_wait_cancel(&request->wait);
    request_drop_stash(request);
    if (request->transfer.local != NULL)
        region_release(request->transfer.local);
    request->transfer.local = NULL;
}

static void request_finish(struct request *request, int status)
{
    request_detach(request);
    count_outcome(request_worker(request)->stats, request, status);
    channel_complete(request->channel, request, status, request->bytes);
    if (request->op == SQE_WAIT)
        gate_on_end(request, status);
}

/* The next of the same channel for the same segment may have waited for this one only. */
static void order_advance(struct list *order)
{
    if (!list_empty(order))
        request_try_notify(list_entry(order->next, struct request, order));
}

static struct list *request_order(const struct request *request)
{
    return &request->remote->order[request->channel->handle];
}

static int request_final_status(const struct request *request)
{
    if (request->stop_status != TS_OK && request->moved_status != TS_OK)
        return request->stop_status;
    return request->moved_status;
}

/* What the notification tells of the bytes before it: its transfer's end, then its group's. */
static int request_told_status(const struct request *request)
{
    int status = request_final_status(request);

    return status != TS_OK ? status : request->group.status;
}

/* The notification leaves the order without having been sent. */
static void request_skip_notify(struct request *request, int status)
{
    struct list *order = request_order(request);

    request->notify_pending = false;
    list_remove(&request->order);
    request_finish(request, status);
    order_advance(order);
}

static int request_send_notify(struct request *request)
{
    const struct remote *remote = request->remote;
    struct link *link = remote->endpoint->link;
    struct frame frame = {
        .type = FRAME_NOTIFY,
        .open = remote->open,
        .region = request->name_len,
        .length = request->name_len + request->msg_len,
        .status = (int16_t)(request->moved ? request_told_status(request) : TS_OK),
        .value =
            (request->moved ? request->bytes : request->transfer.length) + request->group.bytes,
    };

    if (!request->moved) {
        frame.flags |= FRAME_FLAG_BOUND;
        frame.request = request->transfer.wire;
    }
    if ((request->flags & SQE_FLAG_NOTIFY_ALWAYS) != 0)
        frame.flags |= FRAME_FLAG_ALWAYS;
    return link->ops->send(link, &frame, request->body, request->name_len,
                           request->body + request->name_len, request->msg_len);
}

void request_try_notify(struct request *request)
{
    struct counters_worker_stats *stats = request_worker(request)->stats;
    struct remote *remote = request->remote;
    struct list *order = request_order(request);
    uint64_t cost = notify_cost(request->name_len, request->msg_len);

    if (!request->notify_pending || order->next != &request->order ||
        !list_empty(&request->group.members))
        return;
    if (!request->moved &&
        (!request->posted || request->transfer.fault != TS_OK || request->group.status != TS_OK))
        return;
    /* Behind the bytes only on their own link: the segment may have changed to another meanwhile.
     */
    if (!request->moved && request->transfer.endpoint != remote->endpoint)
        return;
    if (request->moved && request_told_status(request) != TS_OK &&
        (request->flags & SQE_FLAG_NOTIFY_ALWAYS) == 0) {
        request_skip_notify(request, request_final_status(request) != TS_OK
                                         ? request_final_status(request)
                                         : TS_ERR_SKIPPED);
        return;
    }
    if (remote->state != REMOTE_OPEN) {
        if (remote->state == REMOTE_GONE && request->moved)
            request_skip_notify(request, request->moved_status != TS_OK ? request->moved_status
                                                                        : remote->gone_status);
        return;
    }
    if (remote->endpoint->link->notify_status != TS_OK) {
        if (request->moved) /* the next link of this segment carries none */
            request_skip_notify(request, remote->endpoint->link->notify_status);
        return;
    }
    if (request->name_len + request->msg_len > remote->notify_max) {
        if (!request->moved)
            return; /* the peer's limit shrank under a WRITE that is on its way: told at its end */
        request_skip_notify(request, TS_ERR_TOO_LONG);
        return;
    }
    if (remote->credit < cost) {
        atomic_count(&stats->notify_no_credit, 1);
        return;
    }
    if (request_send_notify(request) != TS_OK)
        return; /* memory: tried again when the link did some work */
    remote->credit -= cost;
    atomic_count(&stats->notify_sent, 1);
    request->notify_pending = false;
    request_drop_stash(request);
    list_remove(&request->order);
    if (request->moved)
        request_finish(request, request_final_status(request));
    order_advance(order);
}

void transfer_on_posted(struct transfer *transfer)
{
    struct request *request = list_entry(transfer, struct request, transfer);

    if (transfer->aside)
        return; /* its stream is not the notifications': they wait for its end */
    request->posted = true;
    if (request->notify_pending)
        request_try_notify(request);
}

static void request_on_moved(struct request *request, int status, uint64_t bytes)
{
    request->moved = true;
    request->moved_status = (int16_t)status;
    request->bytes = bytes;
    request->state = REQUEST_NOTIFYING;
    if (request->transfer.local != NULL)
        region_release(request->transfer.local);
    request->transfer.local = NULL;
    group_leave(request, request_final_status(request), bytes);
    if (request->notify_pending)
        request_try_notify(request);
    else
        request_finish(request, request_final_status(request));
}

void transfer_on_done(struct transfer *transfer, int status, uint64_t bytes)
{
    struct request *request = list_entry(transfer, struct request, transfer);
    struct endpoint *endpoint = request_endpoint(request);

    table_remove(&endpoint->wire, transfer->wire);
    transfer->wire = 0;
    request_on_moved(request, status, bytes);
    endpoint_check_drained(endpoint); /* it may have been the last of a connection that leaves */
}

void request_on_link_lost(struct request *request)
{
    struct transfer *transfer = &request->transfer;

    table_remove(&request_endpoint(request)->wire, transfer->wire);
    transfer->wire = 0;
    if (transfer->started || request->stop_status != TS_OK) {
        request_on_moved(request, transfer->started ? TS_ERR_UNCERTAIN : request->stop_status, 0);
        return;
    }
    request->state = REQUEST_WAITING; /* nothing of it was sent: it may go over the next link */
    list_append(&request->remote->waiting, &request->waiting);
}

void request_resume(struct request *request)
{
    struct endpoint *endpoint = request->remote->endpoint;
    struct transfer *transfer = &request->transfer;

    list_remove(&request->waiting);
    if (request->notify_pending &&
        request->name_len + request->msg_len > request->remote->notify_max) {
        request_on_moved(request, TS_ERR_TOO_LONG, 0); /* before anything is sent */
        return;
    }
    if (request->notify_pending && endpoint->link->notify_status != TS_OK) {
        request_on_moved(request, endpoint->link->notify_status, 0);
        return;
    }
    if (request->op == SQE_NOTIFY || transfer->length == 0) {
        request_on_moved(request, TS_OK, 0);
        return;
    }
    transfer->announced = request->notify_pending && list_empty(&request->group.members);
    transfer->aside = false;
    transfer->open = request->remote->open;
    transfer->endpoint = endpoint;
    transfer->wire = table_add(&endpoint->wire, transfer);
    if (transfer->wire == 0) {
        request_on_moved(request, TS_AGAIN, 0);
        return;
    }
    request->state = REQUEST_MOVING;
    endpoint->link->ops->post(endpoint->link, transfer);
}

static void request_on_deadline(struct timer *timer)
{
    struct request *request = list_entry(timer, struct request, deadline);
    struct worker *worker = request_worker(request);

    if (request->state == REQUEST_MOVING && request->stop_status != TS_OK) {
        link_on_lost(request_endpoint(request)->link, TS_ERR_TIMEOUT,
                     "the peer did not confirm a cancelled transfer");
        return;
    }
    request_stop(request, TS_ERR_TIMEOUT);
    if (request->state == REQUEST_MOVING)
        timer_set(&worker->timers, &request->deadline,
                  clock_now() + worker->config.connect_ms * CLOCK_NS_PER_MS);
}

/* A notification that must arrive in any case goes on waiting when its transfer or its job says
 * stop: until its deadline, or until its segment is gone for good. */
static bool request_waits_on(const struct request *request, int status)
{
    return (request->flags & SQE_FLAG_NOTIFY_ALWAYS) != 0 && status != TS_ERR_TIMEOUT &&
           request->remote->state != REMOTE_GONE;
}

void request_stop(struct request *request, int status)
{
    bool first = request->stop_status == TS_OK;
    struct endpoint *endpoint;

    if (first)
        request->stop_status = (int16_t)status;
    if (request->state == REQUEST_MOVING) {
        endpoint = request_endpoint(request);
        if (first)
            endpoint->link->ops->cancel(endpoint->link, &request->transfer);
        return;
    }
    if (request->state == REQUEST_WAITING) {
        list_remove(&request->waiting);
        request_on_moved(request, status, 0);
    }
    /* Still here: the notification waits. */
    if (request->state == REQUEST_NOTIFYING && request->notify_pending &&
        !request_waits_on(request, status))
        request_skip_notify(request, status);
}

/* Copies what the job's ring holds only until intake ends. */
static void request_keep_body(struct request *request)
{
    size_t size = (size_t)request->name_len + request->msg_len;

    if (!request->notify_pending || request->stash != NULL)
        return;
    request->stash = malloc(size > 0 ? size : 1);
    if (request->stash == NULL) {
        request->notify_pending = false;
        list_remove(&request->order);
        if (request->state != REQUEST_MOVING)
            request_finish(request, TS_ERR_NO_MEMORY);
        return;
    }
    memcpy(request->stash, request->body, size);
    request->body = request->stash;
    request->channel->stashed_bytes += size;
}

static int request_fill_transfer(struct request *request, const struct sqe *sqe)
{
    struct transfer *transfer = &request->transfer;
    bool read = sqe->op == SQE_READ;

    transfer->read = read;
    transfer->by_address = (sqe->flags & SQE_FLAG_REMOTE_ADDR) != 0;
    transfer->length = sqe->length;
    transfer->local_offset = sqe->local_offset;
    transfer->remote_region = sqe->remote_region;
    transfer->remote_offset = sqe->remote_offset;
    if (sqe->remote_offset > UINT64_MAX - sqe->length)
        return TS_ERR_INVALID;
    return region_use_local(request->channel->session, sqe->local_region, sqe->local_offset,
                            sqe->length, read, &transfer->local);
}

static int request_fill_notify(struct request *request, const struct notify_record *record,
                               const uint8_t *body)
{
    uint64_t size = (uint64_t)record->name_len + record->msg_len;

    if (size > request->channel->map.notify_max)
        return TS_ERR_TOO_LONG;
    if (request->channel->stashed_bytes + size > STASH_MAX)
        return TS_AGAIN;
    request->name_len = record->name_len;
    request->msg_len = record->msg_len;
    request->body = body;
    request->notify_pending = true;
    return TS_OK;
}

static int request_fill(struct request *request, const struct sqe *sqe,
                        const struct notify_record *record, const uint8_t *body)
{
    struct session *session = request->channel->session;
    void *remote;
    int rc = TS_OK;

    if (sqe->op == SQE_NOTIFY && record == NULL)
        return TS_ERR_INVALID;
    rc = table_get(&session->remotes, sqe->remote, &remote);
    if (rc != TS_OK)
        return rc;
    request->remote = remote;
    if (request->remote->state == REMOTE_GONE)
        return request->remote->gone_status;
    if (record != NULL)
        rc = request_fill_notify(request, record, body);
    if (rc == TS_OK && sqe->op != SQE_NOTIFY)
        rc = request_fill_transfer(request, sqe);
    return rc;
}

/* A transfer that cannot even begin has an outcome, too. */
static bool request_tells_always(const struct request *request)
{
    return request->notify_pending && (request->flags & SQE_FLAG_NOTIFY_ALWAYS) != 0;
}

/* What is to be done first is done. */
void request_go(struct request *request, int status)
{
    if (status == TS_OK && request->remote->state == REMOTE_GONE)
        status = request->remote->gone_status;
    if (status != TS_OK)
        request_on_moved(request, status, 0);
    else if (request->remote->state == REMOTE_OPEN)
        request_resume(request);
    else
        list_append(&request->remote->waiting, &request->waiting);
}

void request_on_waited(struct request *request)
{
    request_on_moved(request, TS_OK, 0);
}

void request_init_lists(struct request *request)
{
    list_init(&request->kept);
    list_init(&request->order);
    list_init(&request->waiting);
    list_init(&request->member);
    list_init(&request->transfer.waiting);
    group_init(&request->group);
}

void request_start(struct request *request, const struct sqe *sqe,
                   const struct notify_record *record, const uint8_t *body)
{
    struct worker *worker = request_worker(request);
    uint32_t deadline_ms = sqe->deadline_ms != 0 ? sqe->deadline_ms : worker->config.request_ms;
    struct channel *channel = request->channel;
    bool kept = false;
    int rc;

    *request = (struct request){.channel = channel,
                                .state = REQUEST_WAITING,
                                .op = sqe->op,
                                .flags = sqe->flags,
                                .slot = sqe->slot,
                                .ticket = request->ticket,
                                .cookie = sqe->cookie,
                                .deadline.fire = request_on_deadline};
    request_init_lists(request);
    group_enter(request);
    if (sqe->op == SQE_NOP) {
        group_leave(request, TS_OK, 0);
        request_finish(request, TS_OK);
        return;
    }
    if (sqe->op == SQE_WAIT)
        rc = gate_wait(request, sqe);
    else
        rc = worker->draining ? TS_ERR_GONE : request_fill(request, sqe, record, body);
    if (rc != TS_OK && !request_tells_always(request)) {
        group_leave(request, rc, 0);
        request_finish(request, rc);
        return;
    }
    if (request->notify_pending)
        list_append(request_order(request), &request->order);
    if (rc == TS_OK && sqe->op != SQE_WAIT && (sqe->flags & SQE_FLAG_AFTER) != 0) {
        rc = gate_pass(request);
        kept = rc == TS_AGAIN;
    }
    if (sqe->op != SQE_WAIT && !kept)
        request_go(request, rc);
    request_keep_body(request);
    if (request->state != REQUEST_FREE && deadline_ms != 0)
        timer_set(&worker->timers, &request->deadline, worker->now + deadline_ms * CLOCK_NS_PER_MS);
}

void request_discard(struct request *request)
{
    if (request->state == REQUEST_FREE)
        return;
    if (request->transfer.wire != 0) {
        struct endpoint *endpoint = request_endpoint(request);

        if (endpoint->link != NULL)
            endpoint->link->ops->forget(endpoint->link, &request->transfer);
        table_remove(&endpoint->wire, request->transfer.wire);
        endpoint_check_drained(endpoint);
    }
    request_detach(request);
    request->state = REQUEST_FREE;
    request->channel->in_flight--;
    atomic_count(&request_worker(request)->stats->in_flight, (uint64_t)-1);
}
