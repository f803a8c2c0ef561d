/* The tcp fabric: frames and slices of transfers over one stream.
 *
 *   out (tx.c)  control frames go first, then one slice of each transfer in turn, gathered into one
 *               sendmsg; a slice's bytes go straight from the region to the socket
 *   in  (rx.c)  headers and small frames through a buffer; a slice's bytes go straight from the
 *               socket into the region
 *   serve.c     the target's half: READs being answered, WRITEs being taken
 *   post.c      the initiator's half: link_ops of this fabric
 *   gpu_tx.c    slices of GPU memory are copied into pinned chunks ahead of the socket
 *   gpu_rx.c    slices for GPU memory are received into pinned chunks and copied on; what says that
 *               bytes are there waits until they are
 */
#ifndef TESUP_WORKER_FABRIC_TCP_TCP_H
#define TESUP_WORKER_FABRIC_TCP_TCP_H

#include "worker/endpoint.h"
#include "worker/fabric/fabric.h"
#include "worker/gpu/staging.h"
#include "worker/inbound.h"
#include "worker/region.h"

#define TCP_IN_SIZE    (16u * 1024u)        /* buffer for headers and small frames */
#define TCP_IN_BEHIND  4096u                /* read beyond the end of a slice, at most */
#define TCP_STAGE_SIZE (256u * 1024u)       /* private memory goes through this much */
#define TCP_QUEUE_MAX  (8u * 1024u * 1024u) /* answers queued before we stop reading */
#define TCP_PARTS_MAX  64                   /* of one sendmsg */
#define TCP_AHEAD      2u                   /* copies of one GPU stream at a time */
#define TCP_CHUNKS     4u                   /* of one link: being filled, or on their way out */

/* A WRITE that is going out, or a READ that is being answered. */
struct tcp_stream {
    struct list link;          /* tcp_link.streams: has slices left to queue */
    struct transfer *transfer; /* WRITE of ours; NULL when answering, or when forgotten */
    struct region *region;     /* referenced */
    struct frame frame;        /* of the next slice: offset moves on */
    uint64_t start;            /* region offset of the first byte */
    uint64_t length, queued;
    /* memory of a GPU */
    struct tcp_link *tcp;
    uint64_t staged; /* bytes that copies were asked for */
    uint32_t flying; /* copies under way */
    struct list copies;
};

/* Something on its way into the socket. */
struct tcp_item {
    struct list link;
    struct frame frame;
    const uint8_t *payload;
    size_t sent;           /* of header and payload together */
    struct region *region; /* payload lies in it; referenced */
    struct gpu_copy *copy; /* payload lies in its chunk */
    uint8_t bytes[];       /* copied payload of a control frame or of private memory */
};

/* A WRITE that is coming in over several slices, or that failed and may have a notification bound.
 */
struct tcp_write {
    uint32_t request; /* the peer's handle */
    int16_t status;
    bool ended;
    uint64_t bytes;
};

/* The last slice of a transfer came, and its bytes are still being copied to a GPU. */
struct tcp_end {
    struct list link;
    struct frame frame;
    int16_t status;
    uint64_t after; /* copy that it waits for */
};

struct tcp_link {
    struct link link;
    struct source source;
    bool blocked;  /* the socket is full: wait for EPOLLOUT */
    bool paused;   /* too much queued for a peer that does not read: we do not read either */
    bool faulted;  /* some memory of `sending` is gone: find out whose, one by one */
    bool in_frame; /* `frame` is valid, its payload is coming */
    bool held;     /* what is in `in` must wait for copies to a GPU, or for a chunk */
    bool muted;    /* and epoll was told not to tell of more */

    struct list control; /* tcp_item: frames, first in first out */
    size_t answer_bytes; /* of them, what the peer asked for */
    struct list streams; /* tcp_stream, round robin */
    uint32_t answering;  /* of them, READs of the peer */
    struct list sending; /* tcp_item: chosen, in wire order */
    size_t sending_bytes;

    uint8_t in[TCP_IN_SIZE];
    size_t in_at, in_have;
    uint8_t *stage; /* TCP_STAGE_SIZE, made when first needed */
    uint8_t *small; /* payload of a frame that is larger than `in` */
    size_t small_have;
    struct frame frame;    /* being received */
    struct region *target; /* where a slice goes; NULL: bytes are thrown away */
    uint64_t target_offset;
    uint32_t target_left;
    int16_t target_status;

    struct table writes; /* tcp_write, at the index of the peer's handle */

    struct list resting; /* tcp_stream: of a GPU, whose copies must get on first */
    uint32_t chunks;     /* of TCP_CHUNKS, in use */
    struct gpu_waiter tx_waiter, rx_waiter;
    struct list landing; /* gpu_copy.member: to a GPU, oldest first */
    uint64_t landings;   /* copies begun */
    struct list ends;    /* tcp_end, oldest first */
};

static inline struct tcp_link *tcp_of(struct link *link)
{
    return list_entry(link, struct tcp_link, link);
}

/* tx.c */
int tcp_send_frame(struct link *link, const struct frame *frame, const void *part1, size_t size1,
                   const void *part2, size_t size2);
int tcp_do_work(struct link *link);
/* Tells epoll what `blocked` and `paused` ask for. */
void tcp_watch(struct tcp_link *tcp);
struct tcp_stream *tcp_stream_add(struct tcp_link *tcp, struct region *region, uint64_t start,
                                  uint64_t length, const struct frame *frame);
/* Of that transfer; NULL: all of it is queued. */
struct tcp_stream *tcp_stream_find(const struct tcp_link *tcp, uint8_t type, uint32_t request);
void tcp_stream_free(struct tcp_link *tcp, struct tcp_stream *stream);
void tcp_tx_fini(struct tcp_link *tcp);

/* The next slice of the stream, `item`, is chosen. The stream may be over: it is freed. */
void tcp_stream_on_queued(struct tcp_link *tcp, struct tcp_stream *stream, struct tcp_item *item);
struct tcp_item *tcp_item_new(const struct frame *frame, size_t copied);
void tcp_stream_fault(struct tcp_link *tcp, struct tcp_stream *stream, int status);

/* gpu_tx.c: the stream's region is of a GPU */
void tcp_gpu_stage(struct tcp_link *tcp, struct tcp_stream *stream);
/* A chunk that lay in `sending` has been sent, or will not be. */
void tcp_gpu_sent(struct gpu_copy *copy);
/* The stream goes: what is being copied for it is for nobody. */
void tcp_gpu_forget(struct tcp_stream *stream);

/* gpu_rx.c: the target is of a GPU */
/* Bytes of the slice that lie in `in`. False: no chunk is free, the link is held. */
bool tcp_gpu_store(struct tcp_link *tcp, const uint8_t *bytes, size_t size);
/* Bytes of the slice from the socket, as rx_bulk. */
ssize_t tcp_gpu_receive(struct tcp_link *tcp, size_t *asked);
/* True: bytes of this link are still on their way, and the end of the transfer is told behind them
 * (tcp_ended). */
bool tcp_gpu_defer(struct tcp_link *tcp, const struct frame *frame, int16_t status);
void tcp_gpu_hold(struct tcp_link *tcp);
void tcp_gpu_waiters_init(struct tcp_link *tcp);
void tcp_gpu_rx_fini(struct tcp_link *tcp);

/* rx.c */
void tcp_target_fault(struct tcp_link *tcp, int status);
/* Goes on with what was held, if it can. */
void tcp_resume(struct tcp_link *tcp);
void tcp_on_ready(struct source *source, uint32_t events);
void tcp_rx_fini(struct tcp_link *tcp);

/* serve.c: TS_OK or TS_ERR_PROTOCOL */
int tcp_serve_read(struct tcp_link *tcp, const struct frame *frame);
int tcp_serve_cancel(struct tcp_link *tcp, const struct frame *frame);
/* A slice begins: where it goes is set in target*. A slice ended: answer when it was the last. */
int tcp_serve_write_begin(struct tcp_link *tcp, const struct frame *frame);
int tcp_serve_write_end(struct tcp_link *tcp, const struct frame *frame);
/* The same for a slice whose bytes were late, with its status. */
int tcp_serve_write_ended(struct tcp_link *tcp, const struct frame *frame, int16_t status);
/* A bound notification must not claim success for a WRITE that failed here. */
void tcp_serve_bound(struct tcp_link *tcp, struct frame *frame);
void tcp_serve_fini(struct tcp_link *tcp);
void tcp_send_result(struct tcp_link *tcp, uint32_t request, int status, uint64_t bytes);

/* post.c: slices and results of our own transfers. TS_OK or TS_ERR_PROTOCOL */
int tcp_post_data_begin(struct tcp_link *tcp, const struct frame *frame);
int tcp_post_data_end(struct tcp_link *tcp, const struct frame *frame);
/* The last slice of a READ, whose bytes were late, is there. */
void tcp_post_data_ended(struct tcp_link *tcp, const struct frame *frame);
int tcp_post_result(struct tcp_link *tcp, const struct frame *frame);

#endif
