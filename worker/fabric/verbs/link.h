/* One endpoint over verbs: data QPs, one notification QP, and the TCP connection of the handshake,
 * which stays as the sign of the peer's life and carries frames where there is no notification QP.
 *
 *   out   a transfer becomes a move (move.c), cut into RDMA WRITEs or READs on the data QPs; one
 *         with a notification and small enough goes on the notification QP, the SEND right behind
 * it frames wait in stream.c for a packet, a credit and a place on the send queue in    packets
 * come from the shared receive queue (poll.c) to stream.c, which takes the frames out and gives
 * credit back; the bytes of transfers need no hand of ours key.c what the peer must know to reach
 * our jobs' memory, and what we know of theirs link.c  link_ops, set-up and the end: stop, drain by
 * counting, destroy, refund
 */
#ifndef TESUP_WORKER_FABRIC_VERBS_LINK_H
#define TESUP_WORKER_FABRIC_VERBS_LINK_H

#include "worker/endpoint.h"
#include "worker/fabric/import.h"
#include "worker/fabric/verbs/qp.h"

struct verbs_import;

/* What a packet begins with. */
struct verbs_packet {
    uint32_t generation; /* of the connection: a late packet of an earlier one is told by it */
    uint32_t sequence;
    uint16_t credits; /* receive buffers that are free again */
    uint16_t epoch;   /* of the queue pair (renew.h) */
    uint32_t length;  /* bytes of frames that follow */
};
#define VERBS_PACKET_ROOM (VERBS_BUFFER_SIZE - sizeof(struct verbs_packet))

/* A frame that waits for a packet. */
struct verbs_frame {
    struct list link;
    struct frame frame;
    uint32_t sent; /* of header and payload together */
    uint8_t payload[];
};

struct verbs_stream {
    struct verbs_buffer *open; /* packet being filled */
    uint32_t open_used;
    struct list queue;   /* verbs_frame */
    size_t answer_bytes; /* of them, what the peer asked for */
    uint32_t credits;    /* receive buffers of the peer that we may fill */
    uint32_t owed;       /* of ours that it emptied and may fill again */
    uint32_t window;     /* ours, promised to it */
    uint32_t peer_window;
    uint32_t sequence_out, sequence_in;
    /* of a notification QP that failed, in order: not known to have arrived */
    struct verbs_buffer *kept, **kept_end;
    uint32_t kept_count;
    struct frame frame; /* being received */
    bool in_frame;
    uint8_t *payload; /* of a frame that spans packets */
    uint32_t have;
};

struct verbs_link {
    struct link link;
    struct verbs_nic *nic;
    struct list member;   /* nic->links */
    struct link *carrier; /* tcp */
    struct verbs_qp *notify;
    struct verbs_qp *data[HANDSHAKE_QPS];
    uint32_t data_count, data_next;
    uint32_t generation;
    uint32_t psn;
    struct handshake_verbs mine; /* as it was offered */
    struct verbs_path path;      /* without the peer's QP number */
    bool initiator;
    bool linked;  /* a packet came through */
    bool closing; /* nothing goes out any more */
    bool peer_renews;
    struct verbs_stream stream;
    struct list moves;      /* struct verbs_move.link: have slices to stage */
    struct list flying;     /* struct verbs_move.link: all is staged */
    struct imports imports; /* struct verbs_import */
    struct list exports;
    struct timer patience; /* for peers that must let go of an export */
    struct timer draining; /* for work requests of a queue pair that failed to come back */
    struct timer renewing; /* set while a queue pair is replaced: then the link ends */
    char notify_text[48];  /* for status */
};

static inline struct verbs_link *verbs_of(struct link *link)
{
    return list_entry(link, struct verbs_link, link);
}

/* link.c */
/* One side's device does not know the memory: the transfer goes over the socket beside. */
void verbs_link_post_aside(struct verbs_link *link, struct transfer *transfer);
void verbs_link_fail(struct verbs_link *link, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool verbs_link_is_dead(const struct verbs_link *link);
int verbs_on_frame(struct link *link, const struct frame *frame, const uint8_t *payload);
void verbs_link_linked(struct verbs_link *link);

/* stream.c */
void verbs_stream_init(struct verbs_link *link);
void verbs_stream_fini(struct verbs_link *link);
int verbs_stream_send(struct verbs_link *link, const struct frame *frame, const void *part1,
                      size_t size1, const void *part2, size_t size2);
/* Packs what waits; stages the packet that is open. */
void verbs_stream_fill(struct verbs_link *link);
void verbs_stream_flush(struct verbs_link *link);
bool verbs_stream_is_idle(const struct verbs_link *link);
/* A packet that is not known to have arrived. */
void verbs_stream_keep(struct verbs_link *link, struct verbs_buffer *buffer);
/* The peer says that it received the packets before `received`: can that be? */
bool verbs_stream_may_resume(const struct verbs_link *link, uint32_t received);
/* Sends again what it did not. */
void verbs_stream_resume(struct verbs_link *link, uint32_t received);
void verbs_stream_on_packet(struct verbs_link *link, const uint8_t *bytes, uint32_t size);

/* move.c */
#define VERBS_SLICE (1024u * 1024u)
/* Bytes under way on one data QP: fills any path there is (400 Gb/s for 160 us), and is what a
 * cancel or a small transfer waits for at most. */
#define VERBS_FLIGHT (8u * 1024u * 1024u)
struct verbs_move {
    struct list link;
    struct verbs_link *owner;
    struct transfer *transfer; /* NULL: forgotten */
    struct region *region;     /* referenced */
    struct verbs_import *import;
    bool read, fused;
    int16_t stopped; /* TS_OK: goes on */
    int16_t fault;   /* of a work request: nothing landed */
    uint64_t local_offset, remote_offset, length;
    uint64_t staged, retired;
    uint32_t flying; /* work requests */
};
void verbs_move_start(struct verbs_link *link, struct transfer *transfer,
                      struct verbs_import *import, uint64_t remote_offset);
/* Ends when what is posted has retired. */
void verbs_move_stop(struct verbs_move *move, int status);
void verbs_move_forget(struct verbs_move *move);
void verbs_moves_stage(struct verbs_link *link);
void verbs_move_on_done(struct verbs_move *move, uint64_t length, int status);
/* Ends those that failed and have nothing under way. */
void verbs_moves_settle(struct verbs_link *link);
/* All work requests are gone: ends what has a known outcome, frees all. */
void verbs_moves_fini(struct verbs_link *link);

/* key.c */
struct verbs_import {
    struct import import;
    uint32_t users;  /* moves */
    uint64_t iova;   /* of the region's first byte */
    uint32_t *rkeys; /* one for each piece */
    uint32_t count;
};
extern const struct import_ops verbs_import_ops;
void verbs_key_release(struct verbs_link *link, struct verbs_import *import);
int verbs_key_on_export(struct verbs_link *link, const struct frame *frame);
int verbs_key_on_exported(struct verbs_link *link, const struct frame *frame,
                          const uint8_t *payload);
int verbs_key_on_revoke(struct verbs_link *link, const struct frame *frame);
int verbs_key_on_revoked(struct verbs_link *link, const struct frame *frame);
void verbs_key_revoke(struct verbs_link *link, struct region *region);
void verbs_keys_fini(struct verbs_link *link);

#endif
