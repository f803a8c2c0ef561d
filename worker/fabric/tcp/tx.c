#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "shm/err.h"
#include "worker/fabric/tcp/tcp.h"

static size_t item_size(const struct tcp_item *item)
{
    return sizeof(item->frame) + item->frame.length;
}

static void item_free(struct tcp_item *item)
{
    list_remove(&item->link);
    if (item->region != NULL)
        region_release(item->region);
    if (item->copy != NULL)
        tcp_gpu_sent(item->copy);
    free(item);
}

struct tcp_item *tcp_item_new(const struct frame *frame, size_t copied)
{
    struct tcp_item *item = malloc(sizeof(*item) + copied);

    if (item == NULL)
        return NULL;
    *item = (struct tcp_item){.frame = *frame};
    item->payload = item->bytes;
    list_init(&item->link);
    return item;
}

int tcp_send_frame(struct link *link, const struct frame *frame, const void *part1, size_t size1,
                   const void *part2, size_t size2)
{
    struct tcp_link *tcp = tcp_of(link);
    struct tcp_item *item = tcp_item_new(frame, size1 + size2);

    if (item == NULL)
        return TS_ERR_NO_MEMORY;
    if (size1 > 0)
        memcpy(item->bytes, part1, size1);
    if (size2 > 0)
        memcpy(item->bytes + size1, part2, size2);
    list_append(&tcp->control, &item->link);
    if (frame_is_answer(frame))
        tcp->answer_bytes += item_size(item);
    link_wake(link);
    return TS_OK;
}

struct tcp_stream *tcp_stream_add(struct tcp_link *tcp, struct region *region, uint64_t start,
                                  uint64_t length, const struct frame *frame)
{
    struct tcp_stream *stream = malloc(sizeof(*stream));

    if (stream == NULL)
        return NULL;
    *stream = (struct tcp_stream){
        .region = region, .start = start, .length = length, .frame = *frame, .tcp = tcp};
    list_init(&stream->copies);
    region->references++; /* released by tcp_stream_free */
    if (frame->type == FRAME_DATA)
        tcp->answering++;
    list_append(&tcp->streams, &stream->link);
    link_wake(&tcp->link);
    return stream;
}

static struct tcp_stream *stream_find(const struct list *streams, uint8_t type, uint32_t request)
{
    list_each (node, following, streams) {
        struct tcp_stream *stream = list_entry(node, struct tcp_stream, link);

        if (stream->frame.type == type && stream->frame.request == request)
            return stream;
    }
    return NULL;
}

struct tcp_stream *tcp_stream_find(const struct tcp_link *tcp, uint8_t type, uint32_t request)
{
    struct tcp_stream *stream = stream_find(&tcp->streams, type, request);

    return stream != NULL ? stream : stream_find(&tcp->resting, type, request);
}

void tcp_stream_free(struct tcp_link *tcp, struct tcp_stream *stream)
{
    list_remove(&stream->link);
    if (stream->frame.type == FRAME_DATA)
        tcp->answering--;
    if (stream->transfer != NULL)
        stream->transfer->progress = NULL;
    if (stream->flying > 0)
        tcp_gpu_forget(stream);
    region_release(stream->region);
    free(stream);
}

/* The transfer cannot go on: its memory is gone. The peer is told to forget it. */
void tcp_stream_fault(struct tcp_link *tcp, struct tcp_stream *stream, int status)
{
    struct frame cancel = {.type = FRAME_CANCEL, .request = stream->frame.request};

    struct transfer *transfer = stream->transfer;

    if (transfer == NULL)
        tcp_send_result(tcp, stream->frame.request, status, stream->queued);
    else if (transfer->started)
        tcp_send_frame(&tcp->link, &cancel, NULL, 0, NULL, 0);
    if (transfer != NULL)
        transfer->fault = (int16_t)status;
    tcp_stream_free(tcp, stream);
    if (transfer != NULL && !transfer->started)
        transfer_on_done(transfer, status, 0); /* the peer never heard of it */
}

/* The next slice as an item. Mapped memory is sent from where it lies, private memory is copied. So
 * is the last slice of a file that can shrink: once its header is out, nothing can take the success
 * back that it stands for. */
static struct tcp_item *stream_slice(struct tcp_stream *stream, uint32_t length, int *status)
{
    const struct memory *memory = &stream->region->memory;
    uint64_t at = stream->start + stream->queued;
    bool last = stream->queued + length == stream->length;
    bool copied = memory->map == NULL || (last && !memory->sealed);
    struct tcp_item *item = tcp_item_new(&stream->frame, copied ? length : 0);

    *status = TS_ERR_NO_MEMORY;
    if (item == NULL)
        return NULL;
    *status = copied ? memory_load(item->bytes, memory, at, length) : TS_OK;
    if (*status != TS_OK) {
        item_free(item);
        return NULL;
    }
    if (!copied)
        item->payload = memory->map + at;
    item->frame.length = length;
    item->region = stream->region;
    item->region->references++; /* released by item_free */
    if (last)
        item->frame.flags |= FRAME_FLAG_LAST;
    return item;
}

void tcp_stream_on_queued(struct tcp_link *tcp, struct tcp_stream *stream, struct tcp_item *item)
{
    struct transfer *transfer = stream->transfer;
    uint32_t length = item->frame.length;

    list_append(&tcp->sending, &item->link);
    tcp->sending_bytes += item_size(item);
    stream->queued += length;
    stream->frame.offset += length;
    if (transfer != NULL) {
        transfer->started = true;
        transfer->moved = stream->queued;
    }
    if (stream->queued < stream->length)
        return;
    tcp_stream_free(tcp, stream);
    if (transfer != NULL)
        transfer_on_posted(transfer); /* what is sent now comes behind the last slice */
}

/* Queues one slice of the first stream, which then waits behind the others. */
static void stream_queue_slice(struct tcp_link *tcp)
{
    struct tcp_stream *stream = list_entry(tcp->streams.next, struct tcp_stream, link);
    uint64_t left = stream->length - stream->queued;
    uint32_t most = tcp->link.endpoint->worker->config.slice_bytes;
    uint32_t length = left < most ? (uint32_t)left : most;
    struct tcp_item *item;
    int status = TS_ERR_GONE;

    if (stream->region->memory.gpu != NULL) {
        tcp_gpu_stage(tcp, stream);
        return;
    }
    item = stream->region->revoked ? NULL : stream_slice(stream, length, &status);
    if (item == NULL) {
        tcp_stream_fault(tcp, stream, status);
        return;
    }
    list_remove(&stream->link);
    if (length < left)
        list_append(&tcp->streams, &stream->link);
    tcp_stream_on_queued(tcp, stream, item);
}

/* Chooses what goes next: all control frames, then slices in turn, up to one slice's worth. */
static void tcp_fill(struct tcp_link *tcp)
{
    size_t enough = tcp->link.endpoint->worker->config.slice_bytes;

    while (tcp->sending_bytes < enough) {
        if (!list_empty(&tcp->control)) {
            struct tcp_item *item = list_entry(tcp->control.next, struct tcp_item, link);

            list_remove(&item->link);
            if (frame_is_answer(&item->frame))
                tcp->answer_bytes -= item_size(item);
            list_append(&tcp->sending, &item->link);
            tcp->sending_bytes += item_size(item);
        } else if (!list_empty(&tcp->streams)) {
            stream_queue_slice(tcp);
        } else {
            return;
        }
    }
}

static int tcp_gather(struct tcp_link *tcp, struct iovec parts[TCP_PARTS_MAX])
{
    int count = 0;

    list_each (node, following, &tcp->sending) {
        struct tcp_item *item = list_entry(node, struct tcp_item, link);
        size_t head = sizeof(item->frame);
        size_t skip = item->sent > head ? item->sent - head : 0;

        if (count + 2 > TCP_PARTS_MAX)
            break;
        if (item->sent < head)
            parts[count++] = (struct iovec){.iov_base = (uint8_t *)&item->frame + item->sent,
                                            .iov_len = head - item->sent};
        if (item->frame.length > skip)
            parts[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)(item->payload + skip),
                                            .iov_len = item->frame.length - skip};
        if (tcp->faulted)
            break; /* some item of the last try: this one alone will tell */
    }
    return count;
}

static void tcp_sent(struct tcp_link *tcp, size_t bytes)
{
    endpoint_moved(tcp->link.endpoint, bytes, 0);
    tcp->sending_bytes -= bytes;
    while (bytes > 0) {
        struct tcp_item *item = list_entry(tcp->sending.next, struct tcp_item, link);
        size_t left = item_size(item) - item->sent;

        if (bytes < left) {
            item->sent += bytes;
            return;
        }
        bytes -= left;
        item_free(item);
    }
}

/* A notification that is queued behind a WRITE must not announce bytes that were not there. */
static void tcp_spoil_bound(struct list *items, uint32_t wire)
{
    list_each (node, following, items) {
        struct frame *frame = &list_entry(node, struct tcp_item, link)->frame;

        if (frame->type == FRAME_NOTIFY && (frame->flags & FRAME_FLAG_BOUND) != 0 &&
            frame->request == wire)
            frame->status = TS_ERR_FAULT;
    }
}

/* Of a transfer that failed no more is sent: neither what is chosen already nor what would be. */
static void tcp_drop_rest(struct tcp_link *tcp, const struct frame *failed)
{
    struct tcp_stream *stream;

    list_each (node, following, &tcp->sending) {
        struct tcp_item *item = list_entry(node, struct tcp_item, link);

        if (item->frame.type != failed->type || item->frame.request != failed->request ||
            item->sent > 0)
            continue;
        tcp->sending_bytes -= item_size(item);
        item_free(item);
    }
    stream = tcp_stream_find(tcp, failed->type, failed->request);
    if (stream != NULL)
        tcp_stream_free(tcp, stream);
}

/* A WRITE of ours is taken back, a READ that we answer is said to have failed.  `unsent`: nothing
 * of the slice went out. */
static void tcp_tell_fault(struct tcp_link *tcp, const struct frame *failed, bool unsent)
{
    struct frame cancel = {.type = FRAME_CANCEL, .request = failed->request};
    struct transfer *transfer;
    void *object;

    if (failed->type == FRAME_DATA) {
        tcp_send_result(tcp, failed->request, TS_ERR_FAULT, 0);
        return;
    }
    tcp_spoil_bound(&tcp->sending, failed->request);
    tcp_spoil_bound(&tcp->control, failed->request);
    if (table_get(&tcp->link.endpoint->wire, failed->request, &object) == TS_OK) {
        transfer = object;
        transfer->fault = TS_ERR_FAULT;
        if (unsent && failed->offset == transfer->remote_offset) {
            transfer_on_done(transfer, TS_ERR_FAULT, 0); /* the peer never heard of it */
            return;
        }
    }
    if (tcp_send_frame(&tcp->link, &cancel, NULL, 0, NULL, 0) != TS_OK)
        link_on_lost(&tcp->link, TS_ERR_NO_MEMORY, "no memory for a cancel");
}

/* The bytes of the first item cannot be read.  A header that is out has promised them: zeros keep
 * the stream in step, and the transfer is taken back. */
static void tcp_patch_fault(struct tcp_link *tcp)
{
    struct tcp_item *item = list_entry(tcp->sending.next, struct tcp_item, link);
    struct frame failed = item->frame;
    struct tcp_item *filler;
    bool unsent = item->sent == 0;

    if (!unsent) {
        filler = tcp_item_new(&item->frame, item->frame.length);
        if (filler == NULL) {
            link_on_lost(&tcp->link, TS_ERR_NO_MEMORY, "no memory to complete a frame");
            return;
        }
        memset(filler->bytes, 0, item->frame.length);
        filler->sent = item->sent;
        item_free(item);
        list_append(tcp->sending.next, &filler->link); /* before the first: first again */
    }
    tcp_drop_rest(tcp, &failed);
    tcp_tell_fault(tcp, &failed, unsent);
}

void tcp_watch(struct tcp_link *tcp)
{
    uint32_t events = tcp->muted ? 0 : EPOLLRDHUP;

    if (!tcp->paused && !tcp->muted)
        events |= EPOLLIN;
    if (tcp->blocked)
        events |= EPOLLOUT;
    if (reactor_watch(&tcp->link.endpoint->worker->reactor, &tcp->source, events) < 0)
        link_on_lost(&tcp->link, TS_ERR_SYSTEM, strerror(errno));
}

int tcp_do_work(struct link *link)
{
    struct tcp_link *tcp = tcp_of(link);
    struct iovec parts[TCP_PARTS_MAX];
    struct msghdr message = {.msg_iov = parts};
    ssize_t sent;

    if (tcp->held)
        tcp_resume(tcp);
    if (link->endpoint->lost_status != TS_OK || tcp->blocked)
        return 0;
    tcp_fill(tcp);
    message.msg_iovlen = (size_t)tcp_gather(tcp, parts);
    if (message.msg_iovlen == 0)
        return 0;
    sent = sendmsg(tcp->source.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) {
        tcp->blocked = true;
        tcp_watch(tcp);
        return 0;
    }
    if (sent < 0 && errno == EFAULT) {
        if (tcp->faulted)
            tcp_patch_fault(tcp);
        tcp->faulted = !tcp->faulted;
        link_wake(link);
        return 1;
    }
    tcp->faulted = false;
    if (sent < 0 && errno != EINTR) {
        link_on_lost(link, TS_ERR_UNREACHABLE, strerror(errno));
        return 1;
    }
    if (sent > 0)
        tcp_sent(tcp, (size_t)sent);
    if (tcp->paused && tcp->answer_bytes < TCP_QUEUE_MAX / 2) {
        tcp->paused = false;
        tcp_watch(tcp);
    }
    if (!list_empty(&tcp->sending) || !list_empty(&tcp->control) || !list_empty(&tcp->streams))
        link_wake(link);
    return 1;
}

void tcp_tx_fini(struct tcp_link *tcp)
{
    while (!list_empty(&tcp->sending))
        item_free(list_entry(tcp->sending.next, struct tcp_item, link));
    while (!list_empty(&tcp->control))
        item_free(list_entry(tcp->control.next, struct tcp_item, link));
    while (!list_empty(&tcp->streams))
        tcp_stream_free(tcp, list_entry(tcp->streams.next, struct tcp_stream, link));
    while (!list_empty(&tcp->resting))
        tcp_stream_free(tcp, list_entry(tcp->resting.next, struct tcp_stream, link));
}
