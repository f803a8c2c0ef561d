#include <stdlib.h>

#include "shm/err.h"
#include "worker/fabric/tcp/tcp.h"

/* A peer has no handles for more: one that asks for more does not keep to its own table. */
#define READS_MAX TABLE_SLOTS_MAX

void tcp_send_result(struct tcp_link *tcp, uint32_t request, int status, uint64_t bytes)
{
    struct frame frame = {
        .type = FRAME_RESULT, .request = request, .status = (int16_t)status, .value = bytes};

    if (tcp_send_frame(&tcp->link, &frame, NULL, 0, NULL, 0) != TS_OK)
        link_on_lost(&tcp->link, TS_ERR_NO_MEMORY, "no memory for an answer");
}

/* The sender's right and the range, for each slice anew. TS_OK takes a reference. */
static int serve_find(struct tcp_link *tcp, const struct frame *frame, uint64_t length, bool store,
                      uint64_t *offset, struct region **region, int *status)
{
    struct inbound *inbound;
    void *object = NULL;
    int rc = table_get(&tcp->link.endpoint->inbounds, frame->open, &object);

    if (rc == TS_ERR_NOT_FOUND)
        return TS_ERR_PROTOCOL; /* a handle that we never gave out */
    inbound = object;
    *offset = frame->offset;
    if (rc != TS_OK || inbound->session == NULL)
        *status = TS_ERR_GONE;
    else
        *status =
            region_use_remote(inbound->session, frame->region,
                              (frame->flags & FRAME_FLAG_ADDR) != 0, offset, length, store, region);
    return TS_OK;
}

int tcp_serve_read(struct tcp_link *tcp, const struct frame *frame)
{
    struct frame data = {.type = FRAME_DATA, .request = frame->request};
    struct region *region = NULL;
    struct tcp_stream *stream;
    uint64_t offset;
    int status;

    if (frame->value == 0 || tcp->answering >= READS_MAX)
        return TS_ERR_PROTOCOL;
    if (serve_find(tcp, frame, frame->value, false, &offset, &region, &status) != TS_OK)
        return TS_ERR_PROTOCOL;
    if (status != TS_OK) {
        tcp_send_result(tcp, frame->request, status, 0);
        return TS_OK;
    }
    stream = tcp_stream_add(tcp, region, offset, frame->value, &data);
    region_release(region); /* the stream has its own reference */
    if (stream == NULL) {
        tcp_send_result(tcp, frame->request, TS_ERR_NO_MEMORY, 0);
        return TS_OK;
    }
    atomic_count(&tcp->link.endpoint->worker->stats->served_reads, 1);
    atomic_count(&tcp->link.endpoint->worker->stats->bytes_served_read, frame->value);
    return TS_OK;
}

static void served_write_count(struct tcp_link *tcp, uint64_t bytes)
{
    struct counters_worker_stats *stats = tcp->link.endpoint->worker->stats;

    atomic_count(&stats->served_writes, 1);
    atomic_count(&stats->bytes_served_written, bytes);
}

/* Of a handle of the peer's: its index is the place, so a later WRITE with the same index finds
 * what is left of an earlier one, whose outcome no notification asked for. */
static struct tcp_write *write_find(struct tcp_link *tcp, uint32_t request)
{
    void *object;

    return table_get(&tcp->writes, request, &object) == TS_OK ? object : NULL;
}

static void write_free(struct tcp_link *tcp, struct tcp_write *write)
{
    table_remove(&tcp->writes, write->request);
    free(write);
}

/* Room at the place of `request`: what an earlier generation left there is history. */
static void write_make_room(struct tcp_link *tcp, uint32_t request)
{
    struct tcp_write *old = table_peek(&tcp->writes, request);

    if (old != NULL && old->request != request)
        write_free(tcp, old);
}

static struct tcp_write *write_add(struct tcp_link *tcp, uint32_t request)
{
    struct tcp_write *write = calloc(1, sizeof(*write));

    if (write == NULL)
        return NULL;
    write_make_room(tcp, request);
    write->request = request;
    if (table_put(&tcp->writes, request, write) == TS_OK)
        return write;
    free(write);
    return NULL;
}

int tcp_serve_cancel(struct tcp_link *tcp, const struct frame *frame)
{
    struct tcp_write *write = write_find(tcp, frame->request);
    struct tcp_stream *stream = tcp_stream_find(tcp, FRAME_DATA, frame->request);

    if (stream != NULL) {
        tcp_send_result(tcp, frame->request, TS_ERR_CANCELLED, stream->queued);
        tcp_stream_free(tcp, stream);
        return TS_OK;
    }
    if (write != NULL && !write->ended) {
        tcp_send_result(tcp, frame->request, TS_ERR_CANCELLED, write->bytes);
        write_free(tcp, write);
    }
    return TS_OK; /* else it ended before the cancel came: its answer is on the way */
}

int tcp_serve_write_begin(struct tcp_link *tcp, const struct frame *frame)
{
    struct tcp_write *write = tcp->writes.used > 0 ? write_find(tcp, frame->request) : NULL;
    int status = TS_OK;

    if (frame->request >> TABLE_INDEX_BITS == 0)
        return TS_ERR_PROTOCOL; /* no table gives such a handle out */
    if (write != NULL && write->ended)
        write_free(tcp, write); /* of an earlier WRITE that had this handle */
    else if (write != NULL && write->status != TS_OK) {
        tcp->target_status = write->status; /* the rest of a WRITE that failed is thrown away */
        return TS_OK;
    }
    if (serve_find(tcp, frame, frame->length, true, &tcp->target_offset, &tcp->target, &status) !=
        TS_OK)
        return TS_ERR_PROTOCOL;
    tcp->target_status = (int16_t)status;
    return TS_OK;
}

int tcp_serve_write_end(struct tcp_link *tcp, const struct frame *frame)
{
    if (tcp_gpu_defer(tcp, frame, tcp->target_status))
        return TS_OK;
    return tcp_serve_write_ended(tcp, frame, tcp->target_status);
}

int tcp_serve_write_ended(struct tcp_link *tcp, const struct frame *frame, int16_t status)
{
    struct tcp_write *write = tcp->writes.used > 0 ? write_find(tcp, frame->request) : NULL;
    bool last = (frame->flags & FRAME_FLAG_LAST) != 0;
    uint64_t bytes = status == TS_OK ? frame->length : 0;

    if (write == NULL && last && status == TS_OK) {
        /* The common case: one slice, done; nothing is to be remembered. */
        served_write_count(tcp, bytes);
        tcp_send_result(tcp, frame->request, TS_OK, bytes);
        return TS_OK;
    }
    if (write == NULL)
        write = write_add(tcp, frame->request);
    if (write == NULL)
        return TS_ERR_NO_MEMORY;
    if (write->status == TS_OK)
        write->status = status;
    write->bytes += bytes;
    if (!last)
        return TS_OK;
    served_write_count(tcp, write->bytes);
    tcp_send_result(tcp, frame->request, write->status, write->bytes);
    if (write->status == TS_OK)
        write_free(tcp, write);
    else
        write->ended = true; /* a bound notification may follow and must learn of it */
    return TS_OK;
}

void tcp_serve_bound(struct tcp_link *tcp, struct frame *frame)
{
    struct tcp_write *write;

    if ((frame->flags & FRAME_FLAG_BOUND) == 0 || tcp->writes.used == 0)
        return;
    write = write_find(tcp, frame->request);
    if (write == NULL)
        return;
    frame->status = write->status;
    frame->value = write->bytes;
    if (write->ended)
        write_free(tcp, write);
}

void tcp_serve_fini(struct tcp_link *tcp)
{
    struct tcp_write *write;
    uint32_t cursor = 0;

    while ((write = table_next(&tcp->writes, &cursor)) != NULL)
        write_free(tcp, write);
    table_fini(&tcp->writes);
}
