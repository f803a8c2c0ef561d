/* The local fabric: two workers of one host.
 *
 * Frames travel through the two byte rings of a shared channel, with the doorbells of
 * shm/doorbell.h. Bytes are copied once, by the initiator's worker, straight between the two jobs'
 * memories: the owner's worker exports a region (its descriptor, or for private memory who and
 * where) over a Unix socket the first time it is named, and takes it back by FRAME_REVOKE.
 */
#ifndef TESUP_WORKER_FABRIC_LOCAL_LOCAL_H
#define TESUP_WORKER_FABRIC_LOCAL_LOCAL_H

#include "shm/channel.h"
#include "shm/wire.h"
#include "worker/fabric/import.h"
#include "worker/fabric/local/copy.h"

#define LOCAL_QUEUE_MAX (8u * 1024u * 1024u) /* answers queued before we stop reading */

/* A frame that did not fit the ring. */
struct local_frame {
    struct list link;
    struct frame frame;
    uint8_t payload[];
};

struct local_link {
    struct link link;
    struct source socket; /* SEQPACKET: exports, and the sign of the peer's life */
    struct source event;  /* wakes us */
    struct channel_map map;
    struct ring_producer out;
    struct ring_consumer in;
    struct doorbell bell;     /* the peer sleeps behind it */
    struct doorbell own_bell; /* we do */
    struct doorbell room;     /* we wait for room in `out`: armed by us, rung by the peer */
    struct doorbell peer_room;
    struct list queue;   /* local_frame: waits for room */
    size_t answer_bytes; /* of them, what the peer asked for */
    struct copy_queue copies;
    struct imports imports; /* struct local_import */
    struct list exports;    /* struct local_export */
};

static inline struct local_link *local_of(struct link *link)
{
    return list_entry(link, struct local_link, link);
}

int local_send(struct link *link, const struct frame *frame, const void *part1, size_t size1,
               const void *part2, size_t size2);

/* import.c: the remote region of a transfer, now or when the peer has sent it. */
extern const struct import_ops local_import_ops;
void local_post(struct link *link, struct transfer *transfer);
void local_cancel(struct link *link, struct transfer *transfer);
void local_forget(struct link *link, struct transfer *transfer);
/* WIRE_REGION_ADD or WIRE_REGION_ADD_GPU */
int local_on_exported(struct local_link *local, struct wire_message *message);
int local_on_refused(struct local_link *local, const struct frame *frame);
int local_on_revoke(struct local_link *local, const struct frame *frame);

/* export.c: the owner's side */
int local_on_export(struct local_link *local, const struct frame *frame);
int local_on_revoked(struct local_link *local, const struct frame *frame);
void local_revoke(struct link *link, struct region *region);
void local_exports_fini(struct local_link *local);

#endif
