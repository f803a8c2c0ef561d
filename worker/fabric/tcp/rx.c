#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "shm/err.h"
#include "worker/fabric/tcp/tcp.h"

#define RX_TURN (1024u * 1024u) /* bytes taken from one link before others have their turn */

static void rx_broken(struct tcp_link *tcp, int rc)
{
    link_on_lost(&tcp->link, TS_ERR_PROTOCOL,
                 rc == TS_ERR_PROTOCOL ? "the peer sent a frame that makes no sense"
                                       : err_name(rc));
}

static void target_release(struct tcp_link *tcp)
{
    if (tcp->target != NULL)
        region_release(tcp->target);
    tcp->target = NULL;
}

void tcp_target_fault(struct tcp_link *tcp, int status)
{
    if (tcp->target_status == TS_OK)
        tcp->target_status = (int16_t)status;
    target_release(tcp); /* the rest of the slice is thrown away */
}

/* `size` bytes of the slice lie in a buffer of ours. False: they must wait (GPU memory). */
static bool target_store(struct tcp_link *tcp, const uint8_t *bytes, size_t size)
{
    int rc;

    if (tcp->target != NULL && tcp->target->revoked)
        tcp_target_fault(tcp, TS_ERR_GONE);
    if (tcp->target != NULL && tcp->target->memory.gpu != NULL)
        return tcp_gpu_store(tcp, bytes, size);
    if (tcp->target != NULL) {
        rc = memory_store(&tcp->target->memory, tcp->target_offset, bytes, size);
        if (rc != TS_OK)
            tcp_target_fault(tcp, rc);
    }
    tcp->target_offset += size;
    tcp->target_left -= (uint32_t)size;
    return true;
}

/* ---- frames ---- */

static int bulk_begin(struct tcp_link *tcp)
{
    tcp->target = NULL;
    tcp->target_status = TS_OK;
    tcp->target_left = tcp->frame.length;
    return tcp->frame.type == FRAME_WRITE ? tcp_serve_write_begin(tcp, &tcp->frame)
                                          : tcp_post_data_begin(tcp, &tcp->frame);
}

static int bulk_end(struct tcp_link *tcp)
{
    tcp->in_frame = false;
    target_release(tcp);
    return tcp->frame.type == FRAME_WRITE ? tcp_serve_write_end(tcp, &tcp->frame)
                                          : tcp_post_data_end(tcp, &tcp->frame);
}

static int small_frame(struct tcp_link *tcp, const uint8_t *payload)
{
    tcp->in_frame = false;
    switch (tcp->frame.type) {
    case FRAME_READ:
        return tcp_serve_read(tcp, &tcp->frame);
    case FRAME_CANCEL:
        return tcp_serve_cancel(tcp, &tcp->frame);
    case FRAME_RESULT:
        return tcp_post_result(tcp, &tcp->frame);
    case FRAME_NOTIFY:
        tcp_serve_bound(tcp, &tcp->frame);
        break;
    default:
        break;
    }
    return link_on_frame(&tcp->link, &tcp->frame, payload);
}

/* Payload of a small frame that the buffer cannot hold in one piece is collected aside. */
static int small_collect(struct tcp_link *tcp)
{
    size_t have = tcp->in_have - tcp->in_at;
    size_t want = tcp->frame.length - tcp->small_have;
    size_t take = have < want ? have : want;
    int rc;

    if (tcp->small == NULL && have >= want) {
        const uint8_t *payload = tcp->in + tcp->in_at;

        tcp->in_at += want;
        return small_frame(tcp, payload);
    }
    if (tcp->small == NULL) {
        tcp->small = malloc(tcp->frame.length);
        if (tcp->small == NULL)
            return TS_ERR_NO_MEMORY;
    }
    memcpy(tcp->small + tcp->small_have, tcp->in + tcp->in_at, take);
    tcp->small_have += take;
    tcp->in_at += take;
    if (tcp->small_have < tcp->frame.length)
        return TS_OK;
    rc = small_frame(tcp, tcp->small);
    free(tcp->small);
    tcp->small = NULL;
    tcp->small_have = 0;
    return rc;
}

static int header_take(struct tcp_link *tcp)
{
    memcpy(&tcp->frame, tcp->in + tcp->in_at, sizeof(tcp->frame));
    tcp->in_at += sizeof(tcp->frame);
    if (frame_check(&tcp->frame) != TS_OK)
        return TS_ERR_PROTOCOL;
    tcp->in_frame = true;
    return frame_is_bulk(&tcp->frame) ? bulk_begin(tcp) : TS_OK;
}

/* Everything that can be done with what is in the buffer. */
static int buffer_consume(struct tcp_link *tcp)
{
    int rc = TS_OK;

    while (rc == TS_OK && tcp->link.endpoint->lost_status == TS_OK) {
        size_t have = tcp->in_have - tcp->in_at;

        if (!tcp->in_frame) {
            if (have < sizeof(tcp->frame))
                break;
            rc = header_take(tcp);
        } else if (frame_is_bulk(&tcp->frame)) {
            size_t take = have < tcp->target_left ? have : tcp->target_left;

            if (take > 0 && !target_store(tcp, tcp->in + tcp->in_at, take))
                break;
            tcp->in_at += take;
            if (tcp->target_left > 0)
                break;
            rc = bulk_end(tcp);
        } else {
            if (have == 0 && tcp->frame.length > tcp->small_have)
                break;
            if (!list_empty(&tcp->landing)) {
                tcp_gpu_hold(tcp); /* it may say that bytes are there */
                break;
            }
            rc = small_collect(tcp);
        }
    }
    if (tcp->in_at > 0) {
        memmove(tcp->in, tcp->in + tcp->in_at, tcp->in_have - tcp->in_at);
        tcp->in_have -= tcp->in_at;
        tcp->in_at = 0;
    }
    return rc;
}

/* ---- socket ---- */

static bool rx_make_stage(struct tcp_link *tcp)
{
    if (tcp->stage == NULL)
        tcp->stage = malloc(TCP_STAGE_SIZE);
    return tcp->stage != NULL;
}

/* Inside a slice: its bytes go to their place, and a little of what follows into the buffer. */
static ssize_t rx_bulk(struct tcp_link *tcp, size_t *asked)
{
    bool direct = tcp->target != NULL && tcp->target->memory.map != NULL && !tcp->target->revoked;
    size_t room = tcp->target_left;
    struct iovec parts[2];
    size_t here;
    ssize_t got;

    if (tcp->target != NULL && tcp->target->memory.gpu != NULL && !tcp->target->revoked)
        return tcp_gpu_receive(tcp, asked);
    if (!direct && !rx_make_stage(tcp)) {
        errno = ENOMEM;
        return -1;
    }
    if (!direct && room > TCP_STAGE_SIZE)
        room = TCP_STAGE_SIZE;
    parts[0] = (struct iovec){.iov_base = direct ? tcp->target->memory.map + tcp->target_offset
                                                 : tcp->stage,
                              .iov_len = room};
    parts[1] = (struct iovec){.iov_base = tcp->in, .iov_len = TCP_IN_BEHIND};
    *asked = room == tcp->target_left ? room + TCP_IN_BEHIND : room;
    got = readv(tcp->source.fd, parts, room == tcp->target_left ? 2 : 1);
    if (got < 0 && errno == EFAULT) {
        tcp_target_fault(tcp,
                         TS_ERR_FAULT); /* nothing was consumed: read it again, to throw it away */
        errno = EINTR;
    }
    if (got <= 0)
        return got;
    here = (size_t)got < room ? (size_t)got : room;
    if (direct) {
        tcp->target_offset += here;
        tcp->target_left -= (uint32_t)here;
    } else {
        target_store(tcp, tcp->stage, here);
    }
    tcp->in_have = (size_t)got - here;
    return got;
}

static ssize_t rx_some(struct tcp_link *tcp, size_t *asked)
{
    ssize_t got;

    if (tcp->in_frame && frame_is_bulk(&tcp->frame) && tcp->target_left > 0)
        return rx_bulk(tcp, asked);
    *asked = sizeof(tcp->in) - tcp->in_have;
    got = recv(tcp->source.fd, tcp->in + tcp->in_have, *asked, 0);
    if (got > 0)
        tcp->in_have += (size_t)got;
    return got;
}

static void rx_pause_if_full(struct tcp_link *tcp)
{
    if (tcp->answer_bytes <= TCP_QUEUE_MAX || tcp->paused)
        return;
    tcp->paused = true;
    tcp_watch(tcp);
}

static void rx_do_work(struct tcp_link *tcp)
{
    size_t taken = 0, asked = 0;

    while (taken < RX_TURN && tcp->link.endpoint->lost_status == TS_OK && !tcp->paused &&
           !tcp->held) {
        ssize_t got = rx_some(tcp, &asked);
        int rc;

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            link_on_lost(&tcp->link, TS_ERR_UNREACHABLE,
                         got == 0 ? "the peer closed the connection" : strerror(errno));
            return;
        }
        taken += (size_t)got;
        endpoint_moved(tcp->link.endpoint, 0, (uint64_t)got);
        rc = buffer_consume(tcp);
        if (rc != TS_OK) {
            rx_broken(tcp, rc);
            return;
        }
        rx_pause_if_full(tcp);
        if ((size_t)got < asked)
            return; /* the socket was empty: epoll tells of what comes later */
    }
}

void tcp_resume(struct tcp_link *tcp)
{
    int rc;

    if (tcp->link.endpoint->lost_status != TS_OK)
        return;
    tcp->held = false;
    rc = buffer_consume(tcp);
    if (rc != TS_OK) {
        rx_broken(tcp, rc);
        return;
    }
    if (tcp->held)
        return;
    if (tcp->muted) {
        tcp->muted = false;
        tcp_watch(tcp);
    }
    rx_do_work(tcp);
}

void tcp_on_ready(struct source *source, uint32_t events)
{
    struct tcp_link *tcp = list_entry(source, struct tcp_link, source);

    if (tcp->link.endpoint->lost_status != TS_OK)
        return;
    if ((events & EPOLLOUT) != 0) {
        tcp->blocked = false;
        tcp_watch(tcp);
        link_wake(&tcp->link);
    }
    if (tcp->held && !tcp->muted) {
        tcp->muted = true; /* else it would tell again and again */
        tcp_watch(tcp);
    } else if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
        if (tcp->paused && (events & (EPOLLHUP | EPOLLERR)) != 0)
            link_on_lost(&tcp->link, TS_ERR_UNREACHABLE, "the connection broke");
        else
            rx_do_work(tcp);
    }
}

void tcp_rx_fini(struct tcp_link *tcp)
{
    tcp_gpu_rx_fini(tcp);
    target_release(tcp);
    free(tcp->small);
    free(tcp->stage);
}
