/* Into a GPU: what the socket has is received into a pinned chunk and copied on at once, so that no
 * chunk waits for a peer.  What can say that bytes are there (a frame that is no slice, the end of
 * a transfer) is looked at when the copies before it have ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "shm/err.h"
#include "worker/fabric/tcp/tcp.h"
#include "worker/gpu/mapping.h"

void tcp_gpu_hold(struct tcp_link *tcp)
{
    tcp->held = true;
}

/* ---- the end of a transfer ---- */

bool tcp_gpu_defer(struct tcp_link *tcp, const struct frame *frame, int16_t status)
{
    struct tcp_end *end;

    if (list_empty(&tcp->landing) || (frame->flags & FRAME_FLAG_LAST) == 0)
        return false;
    end = malloc(sizeof(*end));
    if (end == NULL) {
        link_on_lost(&tcp->link, TS_ERR_NO_MEMORY, "no memory for the end of a transfer");
        return true;
    }
    *end = (struct tcp_end){.frame = *frame, .status = status, .after = tcp->landings};
    list_append(&tcp->ends, &end->link);
    return true;
}

static bool end_is_due(const struct tcp_link *tcp, const struct tcp_end *end)
{
    return list_empty(&tcp->landing) ||
           list_entry(tcp->landing.next, struct gpu_copy, member)->offset > end->after;
}

static void ends_tell(struct tcp_link *tcp)
{
    int rc = TS_OK;

    while (!list_empty(&tcp->ends) && rc == TS_OK) {
        struct tcp_end *end = list_entry(tcp->ends.next, struct tcp_end, link);

        if (!end_is_due(tcp, end))
            return;
        list_remove(&end->link);
        if (end->frame.type == FRAME_WRITE)
            rc = tcp_serve_write_ended(tcp, &end->frame, end->status);
        else
            tcp_post_data_ended(tcp, &end->frame);
        free(end);
    }
    if (rc != TS_OK)
        link_on_lost(&tcp->link, rc, "no memory for the end of a transfer");
}

/* ---- copies ---- */

static void rx_on_landed(struct gpu_copy *copy)
{
    struct tcp_link *tcp = copy->owner;

    list_remove(&copy->member);
    gpu_copy_give(copy);
    ends_tell(tcp);
    if (tcp->held && list_empty(&tcp->landing))
        link_wake(&tcp->link);
}

static struct gpu_copy *rx_take(struct tcp_link *tcp)
{
    struct gpu_device *device = tcp->target->memory.gpu->device;
    struct gpu_copy *copy = gpu_copy_take(device, GPU_LANE_IN);

    if (copy == NULL) {
        gpu_wait(device, GPU_LANE_IN, &tcp->rx_waiter);
        tcp_gpu_hold(tcp);
    }
    return copy;
}

/* The first `size` bytes of the chunk go to where the slice is. */
static void rx_land(struct tcp_link *tcp, struct gpu_copy *copy, size_t size)
{
    int rc = gpu_copy_in(copy, tcp->target->memory.gpu, tcp->target_offset, size, tcp->target);

    tcp->target_offset += size;
    tcp->target_left -= (uint32_t)size;
    if (rc != TS_OK) {
        gpu_copy_give(copy);
        tcp_target_fault(tcp, rc);
        return;
    }
    copy->done = rx_on_landed;
    copy->owner = tcp;
    copy->offset = ++tcp->landings;
    list_append(&tcp->landing, &copy->member);
}

bool tcp_gpu_store(struct tcp_link *tcp, const uint8_t *bytes, size_t size)
{
    struct gpu_copy *copy = rx_take(tcp);

    static_assert(TCP_IN_SIZE <= GPU_CHUNK, "what is in the buffer fits a chunk");
    if (copy == NULL)
        return false;
    memcpy(copy->bytes, bytes, size);
    rx_land(tcp, copy, size);
    return true;
}

ssize_t tcp_gpu_receive(struct tcp_link *tcp, size_t *asked)
{
    struct gpu_copy *copy = rx_take(tcp);
    bool whole = tcp->target_left <= GPU_CHUNK;
    size_t room = whole ? tcp->target_left : GPU_CHUNK, here;
    struct iovec parts[2];
    ssize_t got;

    if (copy == NULL) {
        errno = EAGAIN;
        return -1;
    }
    parts[0] = (struct iovec){.iov_base = copy->bytes, .iov_len = room};
    parts[1] = (struct iovec){.iov_base = tcp->in, .iov_len = TCP_IN_BEHIND};
    *asked = whole ? room + TCP_IN_BEHIND : room;
    got = readv(tcp->source.fd, parts, whole ? 2 : 1);
    if (got <= 0) {
        int saved = errno;

        gpu_copy_give(copy);
        errno = saved;
        return got;
    }
    here = (size_t)got < room ? (size_t)got : room;
    tcp->in_have = (size_t)got - here;
    rx_land(tcp, copy, here);
    return got;
}

void tcp_gpu_rx_fini(struct tcp_link *tcp)
{
    list_each (node, following, &tcp->landing) {
        list_entry(node, struct gpu_copy, member)->done = NULL;
        list_remove(node);
    }
    while (!list_empty(&tcp->ends)) {
        struct tcp_end *end = list_entry(tcp->ends.next, struct tcp_end, link);

        list_remove(&end->link);
        free(end);
    }
}
