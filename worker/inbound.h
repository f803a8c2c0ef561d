/* Inbound opens: a sender (session of a peer worker) that opened a segment of ours.
 *
 * Every frame names one, so every frame's right was checked when it was opened.  Credit bounds what
 * a sender may have on its way: what does not fit the mailbox is parked here, never more than the
 * credit given; credit goes back as the job drains its mailbox.
 */
#ifndef TESUP_WORKER_INBOUND_H
#define TESUP_WORKER_INBOUND_H

#include "worker/endpoint.h"
#include "worker/session.h"

struct region;

struct inbound {
    struct endpoint *endpoint; /* NULL once the sender's link is gone */
    struct session *session;   /* NULL once that job is gone */
    uint32_t handle;           /* in endpoint.inbounds */
    uint32_t sender_remote;    /* the peer's remote handle, for frames back */
    uint32_t uid;
    char sender[LAYOUT_NAME_MAX];
    struct list member;  /* session.inbound */
    struct list waiting; /* session.parked */
    struct list parked;  /* struct parked */
    bool welcomed;       /* the sender knows that it is open */
    uint64_t window;     /* credit given in all */
    uint64_t credit;     /* of it, not used by the sender */
    uint64_t owed;       /* used and delivered, not yet given back */
};

void inbound_open(struct endpoint *endpoint, const struct frame *frame,
                  const struct frame_open *ask);
/* Tells the sender that it is open, once. */
void inbound_welcome(struct inbound *inbound);
/* The sender's link is gone: what it sent is still delivered, then the inbound is freed. */
void inbound_free(struct inbound *inbound);
/* The session is going: the sender is told. */
void inbound_end(struct inbound *inbound, int status);

/* A notification arrived. TS_OK (delivered, parked, or the session is gone), TS_ERR_PROTOCOL when
 * the sender had no credit for it. */
/* The region that a FRAME_EXPORT asks for: *status TS_OK with a reference taken, or the answer why
 * not. TS_OK, or TS_ERR_PROTOCOL for a handle that was never given out. */
int inbound_find_region(struct endpoint *endpoint, const struct frame *frame,
                        struct region **region, int *status);
int inbound_notify(struct inbound *inbound, const struct frame *frame, const uint8_t *payload);

/* Moves events and parked notifications into the mailbox as far as there is room. */
int inbound_do_work(struct session *session);

#endif
