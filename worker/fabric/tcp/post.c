#include <stdlib.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/fabric/tcp/tcp.h"

static uint8_t address_flag(const struct transfer *transfer)
{
    return transfer->by_address ? FRAME_FLAG_ADDR : 0;
}

static void post_write(struct tcp_link *tcp, struct transfer *transfer)
{
    struct frame frame = {.type = FRAME_WRITE,
                          .flags = address_flag(transfer),
                          .open = transfer->open,
                          .request = transfer->wire,
                          .region = transfer->remote_region,
                          .offset = transfer->remote_offset};
    struct tcp_stream *stream =
        tcp_stream_add(tcp, transfer->local, transfer->local_offset, transfer->length, &frame);

    if (stream == NULL) {
        transfer_on_done(transfer, TS_ERR_NO_MEMORY, 0);
        return;
    }
    stream->transfer = transfer;
    transfer->progress = stream;
}

static void post_read(struct tcp_link *tcp, struct transfer *transfer)
{
    struct frame frame = {.type = FRAME_READ,
                          .flags = address_flag(transfer),
                          .open = transfer->open,
                          .request = transfer->wire,
                          .region = transfer->remote_region,
                          .offset = transfer->remote_offset,
                          .value = transfer->length};

    if (tcp_send_frame(&tcp->link, &frame, NULL, 0, NULL, 0) != TS_OK)
        transfer_on_done(transfer, TS_ERR_NO_MEMORY, 0);
    else
        transfer->started = true;
}

static void tcp_post(struct link *link, struct transfer *transfer)
{
    if (transfer->read)
        post_read(tcp_of(link), transfer);
    else
        post_write(tcp_of(link), transfer);
}

static void send_cancel(struct tcp_link *tcp, uint32_t wire)
{
    struct frame frame = {.type = FRAME_CANCEL, .request = wire};

    if (tcp_send_frame(&tcp->link, &frame, NULL, 0, NULL, 0) != TS_OK)
        link_on_lost(&tcp->link, TS_ERR_NO_MEMORY, "no memory for a cancel");
}

static void tcp_cancel(struct link *link, struct transfer *transfer)
{
    struct tcp_link *tcp = tcp_of(link);

    transfer->cancelling = true;
    if (transfer->progress != NULL)
        tcp_stream_free(tcp, transfer->progress);
    if (!transfer->started) {
        transfer_on_done(transfer, TS_ERR_CANCELLED, 0);
        return;
    }
    send_cancel(tcp, transfer->wire); /* RESULT comes when the peer has let go */
}

static void tcp_forget(struct link *link, struct transfer *transfer)
{
    struct tcp_link *tcp = tcp_of(link);

    if (transfer->progress != NULL)
        tcp_stream_free(tcp, transfer->progress);
    if (transfer->started && link->endpoint->lost_status == TS_OK)
        send_cancel(tcp, transfer->wire); /* its answer will name a handle that is gone */
}

/* The transfer that a peer's frame names. NULL with TS_OK when it ended before. */
static int find_transfer(struct tcp_link *tcp, uint32_t wire, struct transfer **transfer)
{
    void *object = NULL;
    int rc = table_get(&tcp->link.endpoint->wire, wire, &object);

    *transfer = object;
    if (rc == TS_ERR_GONE) {
        atomic_count(&tcp->link.endpoint->worker->stats->stale_completions, 1);
        return TS_OK;
    }
    return rc == TS_OK ? TS_OK : TS_ERR_PROTOCOL;
}

int tcp_post_data_begin(struct tcp_link *tcp, const struct frame *frame)
{
    struct transfer *transfer;
    int rc = find_transfer(tcp, frame->request, &transfer);

    if (rc != TS_OK || transfer == NULL)
        return rc;
    if (!transfer->read || frame->offset != transfer->moved ||
        frame->length > transfer->length - transfer->moved)
        return TS_ERR_PROTOCOL;
    if (transfer->local->revoked || transfer->fault != TS_OK)
        return TS_OK; /* thrown away */
    tcp->target = transfer->local;
    tcp->target->references++; /* released at the end of the slice */
    tcp->target_offset = transfer->local_offset + transfer->moved;
    return TS_OK;
}

static void data_done(struct transfer *transfer)
{
    transfer_on_done(transfer, transfer->fault, transfer->fault == TS_OK ? transfer->moved : 0);
}

int tcp_post_data_end(struct tcp_link *tcp, const struct frame *frame)
{
    struct transfer *transfer;
    int rc = find_transfer(tcp, frame->request, &transfer);

    if (rc != TS_OK || transfer == NULL)
        return rc;
    transfer->moved += frame->length;
    if (tcp->target_status != TS_OK && transfer->fault == TS_OK)
        transfer->fault = tcp->target_status;
    if ((frame->flags & FRAME_FLAG_LAST) == 0)
        return TS_OK;
    if (transfer->moved != transfer->length)
        return TS_ERR_PROTOCOL;
    if (!tcp_gpu_defer(tcp, frame, TS_OK))
        data_done(transfer);
    return TS_OK;
}

void tcp_post_data_ended(struct tcp_link *tcp, const struct frame *frame)
{
    void *object;

    if (table_get(&tcp->link.endpoint->wire, frame->request, &object) == TS_OK)
        data_done(object);
}

int tcp_post_result(struct tcp_link *tcp, const struct frame *frame)
{
    struct transfer *transfer;
    int rc = find_transfer(tcp, frame->request, &transfer);
    int status = frame->status;

    if (rc != TS_OK || transfer == NULL)
        return rc;
    if (!transfer->started || frame->value > transfer->length)
        return TS_ERR_PROTOCOL;
    if (transfer->fault != TS_OK)
        status = transfer->fault;
    else if (status == TS_OK && (transfer->read || frame->value != transfer->length))
        return TS_ERR_PROTOCOL;
    if (transfer->progress != NULL)
        tcp_stream_free(tcp, transfer->progress); /* refused half-way: the rest stays here */
    transfer_on_done(transfer, status, frame->value);
    return TS_OK;
}

static void revoke_streams(struct tcp_link *tcp, struct list *streams, const struct region *region)
{
    list_each (node, following, streams) {
        struct tcp_stream *stream = list_entry(node, struct tcp_stream, link);

        if (stream->region == region && stream->transfer == NULL) {
            tcp_send_result(tcp, stream->frame.request, TS_ERR_GONE, stream->queued);
            tcp_stream_free(tcp, stream);
        }
    }
}

/* The region goes: READs that are being answered from it end, slices that come in are dropped. */
static void tcp_revoke(struct link *link, struct region *region)
{
    struct tcp_link *tcp = tcp_of(link);

    revoke_streams(tcp, &tcp->streams, region);
    revoke_streams(tcp, &tcp->resting, region);
    if (tcp->target == region) {
        tcp->target = NULL;
        tcp->target_status = TS_ERR_GONE;
        region_release(region);
    }
}

static void tcp_close(struct link *link)
{
    struct tcp_link *tcp = tcp_of(link);

    reactor_watch(&link->endpoint->worker->reactor, &tcp->source, 0);
    close(tcp->source.fd);
    tcp_rx_fini(tcp);
    tcp_serve_fini(tcp);
    tcp_tx_fini(tcp);
    list_remove(&tcp->tx_waiter.link);
    list_remove(&tcp->rx_waiter.link);
    list_remove(&tcp->link.busy);
    free(tcp);
}

static const struct link_ops tcp_ops = {
    .name = "tcp",
    .notify = "tcp",
    .send = tcp_send_frame,
    .post = tcp_post,
    .cancel = tcp_cancel,
    .forget = tcp_forget,
    .do_work = tcp_do_work,
    .flush = link_flush_once,
    .revoke = tcp_revoke,
    .close = tcp_close,
};

struct link *tcp_link_open(struct endpoint *endpoint, int socket)
{
    struct tcp_link *tcp = calloc(1, sizeof(*tcp));

    if (tcp == NULL)
        goto err_close;
    link_init(&tcp->link, &tcp_ops, endpoint);
    list_init(&tcp->control);
    list_init(&tcp->streams);
    list_init(&tcp->sending);
    list_init(&tcp->resting);
    list_init(&tcp->landing);
    list_init(&tcp->ends);
    tcp_gpu_waiters_init(tcp);
    table_init(&tcp->writes, TABLE_SLOTS_MAX);
    tcp->source = (struct source){.fd = socket, .ready = tcp_on_ready};
    if (reactor_watch(&endpoint->worker->reactor, &tcp->source, EPOLLIN | EPOLLRDHUP) < 0)
        goto err_free;
    return &tcp->link;

err_free:
    free(tcp);
err_close:
    close(socket);
    return NULL;
}
