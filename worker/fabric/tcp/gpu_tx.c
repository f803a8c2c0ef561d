/* Out of a GPU: each slice is copied into a pinned chunk before it is chosen for the socket, one or
 * two ahead of it.  Copies end in the order of their start, so slices keep theirs; what is sent
 * behind the last one is chosen after it, as with host memory. */
#include "shm/err.h"
#include "worker/fabric/tcp/tcp.h"
#include "worker/gpu/mapping.h"

/* Those that can go on have their turn again. */
static void tx_rouse(struct tcp_link *tcp)
{
    bool roused = false;

    list_each (node, following, &tcp->resting) {
        struct tcp_stream *stream = list_entry(node, struct tcp_stream, link);

        if (stream->staged == stream->length || stream->flying >= TCP_AHEAD)
            continue;
        list_remove(node);
        list_append(&tcp->streams, node);
        roused = true;
    }
    if (roused)
        link_wake(&tcp->link);
}

static void tx_on_free(struct gpu_waiter *waiter)
{
    tx_rouse(list_entry(waiter, struct tcp_link, tx_waiter));
}

static void rx_on_free(struct gpu_waiter *waiter)
{
    link_wake(&list_entry(waiter, struct tcp_link, rx_waiter)->link);
}

void tcp_gpu_waiters_init(struct tcp_link *tcp)
{
    list_init(&tcp->tx_waiter.link);
    list_init(&tcp->rx_waiter.link);
    tcp->tx_waiter.wake = tx_on_free;
    tcp->rx_waiter.wake = rx_on_free;
}

static void tx_return(struct tcp_link *tcp, struct gpu_copy *copy)
{
    tcp->chunks--;
    gpu_copy_give(copy);
}

void tcp_gpu_sent(struct gpu_copy *copy)
{
    struct tcp_link *tcp = copy->owner;

    tx_return(tcp, copy);
    tx_rouse(tcp);
}

void tcp_gpu_forget(struct tcp_stream *stream)
{
    list_each (node, following, &stream->copies) {
        struct gpu_copy *copy = list_entry(node, struct gpu_copy, member);

        copy->done = NULL; /* it is free again when it has ended */
        list_remove(node);
        stream->tcp->chunks--;
    }
    stream->flying = 0;
    tx_rouse(stream->tcp);
}

/* The bytes of the next slice are in the chunk. */
static void tx_on_copied(struct gpu_copy *copy)
{
    struct tcp_stream *stream = copy->owner;
    struct tcp_link *tcp = stream->tcp;
    struct tcp_item *item = tcp_item_new(&stream->frame, 0);

    list_remove(&copy->member);
    stream->flying--;
    if (item == NULL) {
        tx_return(tcp, copy);
        tcp_stream_fault(tcp, stream, TS_ERR_NO_MEMORY);
        return;
    }
    copy->owner = tcp;
    item->copy = copy;
    item->payload = copy->bytes;
    item->frame.length = (uint32_t)copy->size;
    if (stream->queued + copy->size == stream->length)
        item->frame.flags |= FRAME_FLAG_LAST;
    tcp_stream_on_queued(tcp, stream, item);
    tx_rouse(tcp);
    link_wake(&tcp->link);
}

/* TS_OK; TS_AGAIN: not now. */
static int tx_stage(struct tcp_link *tcp, struct tcp_stream *stream)
{
    struct gpu_mapping *mapping = stream->region->memory.gpu;
    uint64_t left = stream->length - stream->staged;
    uint32_t most = tcp->link.endpoint->worker->config.slice_bytes;
    struct gpu_copy *copy;
    int rc;

    if (most > GPU_CHUNK)
        most = GPU_CHUNK;
    if (stream->region->revoked)
        return TS_ERR_GONE;
    if (tcp->chunks >= TCP_CHUNKS)
        return TS_AGAIN;
    copy = gpu_copy_take(mapping->device, GPU_LANE_OUT);
    if (copy == NULL) {
        gpu_wait(mapping->device, GPU_LANE_OUT, &tcp->tx_waiter);
        return TS_AGAIN;
    }
    rc = gpu_copy_out(copy, mapping, stream->start + stream->staged, left < most ? left : most,
                      stream->region);
    if (rc != TS_OK) {
        gpu_copy_give(copy);
        return rc;
    }
    copy->done = tx_on_copied;
    copy->owner = stream;
    list_append(&stream->copies, &copy->member);
    tcp->chunks++;
    stream->flying++;
    stream->staged += copy->size;
    return TS_OK;
}

void tcp_gpu_stage(struct tcp_link *tcp, struct tcp_stream *stream)
{
    int rc = tx_stage(tcp, stream);
    bool more = rc == TS_OK && stream->staged < stream->length && stream->flying < TCP_AHEAD;

    if (rc < 0) {
        tcp_stream_fault(tcp, stream, rc);
        return;
    }
    list_remove(&stream->link);
    list_append(more ? &tcp->streams : &tcp->resting, &stream->link);
}
