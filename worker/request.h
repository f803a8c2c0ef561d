/* Requests: the life of one accepted descriptor, from submission to its one completion.
 *
 *   START -> WAITING (for the segment's connection) -> MOVING -> [NOTIFYING] -> done
 *
 * A bound notification goes out when the bytes are in the link's ordered stream (WRITE) or have
 * arrived (READ), when it is the oldest of its channel for that segment, and when the receiver has
 * given credit for it.  The leader of a group (group.h) waits for its members, too.
 */
#ifndef TESUP_WORKER_REQUEST_H
#define TESUP_WORKER_REQUEST_H

#include "worker/fabric/fabric.h"
#include "worker/gpu/event.h"
#include "worker/group.h"
#include "worker/worker.h"

struct channel;
struct remote;

enum request_state {
    REQUEST_FREE = 0,
    REQUEST_WAITING,   /* for the segment to be open, or for an event (gate.h) */
    REQUEST_MOVING,    /* posted to a link */
    REQUEST_NOTIFYING, /* bytes done (or none); the notification waits for its turn or credit */
    REQUEST_STATE_COUNT
};

struct request {
    struct channel *channel;
    struct remote *remote;
    uint8_t state;
    uint8_t op, flags;
    uint16_t slot;
    bool moved;          /* the transfer part ended; moved_status says how */
    bool posted;         /* all bytes are in the ordered stream */
    bool notify_pending; /* a notification is still to be sent */
    int16_t stop_status; /* why it is being cancelled; TS_OK = it is not */
    int16_t moved_status;
    uint64_t ticket, cookie, bytes;
    struct transfer transfer;
    struct timer deadline;
    struct list order;   /* in remote.order[channel]: notifications leave in this order */
    struct list waiting; /* in remote.waiting, or a wait's `kept` */
    struct list member;  /* in the group of its channel or of its leader */
    struct request *leader;
    struct group group;   /* that it leads; most have no members */
    struct gpu_wait wait; /* of SQE_WAIT */
    struct list kept;     /* by it: requests that go when it has ended */

    uint32_t name_len, msg_len;
    const uint8_t *body; /* name and message: in ntx during intake, else in `stash` */
    uint8_t *stash;
};

/* It may be discarded before its start, if the session is killed. */
void request_init_lists(struct request *request);
/* Fills the request of sqe.slot and starts it. `body` is valid during the call only. */
void request_start(struct request *request, const struct sqe *sqe,
                   const struct notify_record *record, const uint8_t *body);
/* Stops it with `status` (TS_ERR_CANCELLED, TS_ERR_TIMEOUT, TS_ERR_GONE); completes when no byte
 * can land any more. */
void request_stop(struct request *request, int status);

/* TS_OK: what was kept goes on its way; else it ends so, nothing of it was sent. */
void request_go(struct request *request, int status);
/* A wait's event has come. */
void request_on_waited(struct request *request);

/* The segment is open: post what waits.  The link died: what was posted is uncertain. */
void request_resume(struct request *request);
void request_on_link_lost(struct request *request);
/* Sends the notification if its turn has come, it is due and there is credit. */
void request_try_notify(struct request *request);
/* Forgets a request of a dying session; its link has let go already. */
void request_discard(struct request *request);

#endif
