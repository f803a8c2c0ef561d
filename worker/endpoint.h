/* Endpoints: this worker's relation to one peer worker, across all its connections.
 *
 * Life (worker/endpoint_fsm.c has the table): an endpoint is made to reach a HOST:PORT for a
 * segment, connects, shakes hands, and is then known by the peer worker's id.  Should another live
 * endpoint to that id exist, one of the two is kept and the other drained.  A lost link ends what
 * was posted as uncertain and, while someone here still wants the peer, is tried again with
 * backoff.
 */
#ifndef TESUP_WORKER_ENDPOINT_H
#define TESUP_WORKER_ENDPOINT_H

#include "worker/connect.h"
#include "worker/fabric/fabric.h"
#include "worker/worker.h"

enum endpoint_event {
    ENDPOINT_EVENT_START = 0, /* someone wants the peer */
    ENDPOINT_EVENT_CONNECTED, /* TCP is up */
    ENDPOINT_EVENT_WELCOME,   /* handshake done; link is a TCP link */
    ENDPOINT_EVENT_LINKING,   /* handshake done; a local or verbs link is being set up */
    ENDPOINT_EVENT_LINKED,    /* that link works */
    ENDPOINT_EVENT_ACCEPTED,  /* made by the peer's connection: ready at once */
    ENDPOINT_EVENT_DUPLICATE, /* another endpoint to the same peer is kept */
    ENDPOINT_EVENT_LOST,      /* connection or link failed */
    ENDPOINT_EVENT_REFUSED,   /* the peer said a final no */
    ENDPOINT_EVENT_TIMER,     /* deadline of the state, end of the backoff or of the linger */
    ENDPOINT_EVENT_DRAINED,   /* both sides are done with it */
    ENDPOINT_EVENT_COUNT
};

struct endpoint {
    struct worker *worker;
    struct list link_node; /* worker.endpoints */
    enum endpoint_state state;
    bool self;
    bool initiated; /* the present connection was made by us */
    bool known;     /* peer_id is valid */
    uint8_t peer_id[HANDSHAKE_ID];
    uint64_t generation;              /* of the present connection */
    uint32_t notify_max;              /* the peer's limit */
    uint32_t attempts;                /* failed ones in a row */
    char attempt_why[PROTO_TEXT_MAX]; /* of the last of them */
    bool tcp_only;                    /* another link did not work: do not ask for it again */
    uint32_t gid_tried;               /* pairs of GIDs over which no link came up */
    uint32_t gid_pairs;               /* that there are */
    bool bye_sent, bye_received;
    int lost_status; /* of a link that reported its death in this turn; TS_OK = alive */
    char lost_why[PROTO_TEXT_MAX];
    struct list lost;              /* in worker's list of links to close; self-linked when not */
    char address[LAYOUT_NAME_MAX]; /* HOST:PORT of the peer's supervisor */
    char peer_name[PROTO_LABEL_MAX];
    char asked[PROTO_LABEL_MAX]; /* segment of the present handshake */
    struct connect connect;      /* while connecting and shaking hands */
    struct link *offer;          /* queue pairs that the present handshake offers; NULL none */
    struct link *link;
    struct timer timer;
    uint64_t unused_since;           /* clock_now() when the last user left */
    struct table wire;               /* struct transfer by the handle in its frames */
    struct table inbounds;           /* struct inbound: segments of ours that the peer opened */
    struct table outbounds;          /* struct remote by the handle in its frames */
    struct list remotes;             /* struct remote.link */
    struct counters_endpoint *shown; /* its line in status; NULL when there are too many */
};

/* The endpoint that a remote shall use: an attempt that asks for `segment` at `address`. At the
 * limit one that nobody uses is evicted for it. NULL: all are in use, or memory; text says which.
 */
struct endpoint *endpoint_reach(struct worker *worker, const char *address, char *text,
                                size_t text_size);
/* One made by a peer's connection: known, and ready once `link` is set. */
struct endpoint *endpoint_accept(struct worker *worker, const struct handshake_hello *hello,
                                 char *text, size_t text_size);
/* It is ready, and leads to that worker. */
bool endpoint_reaches(const struct endpoint *endpoint, const uint8_t id[HANDSHAKE_ID]);
struct endpoint *endpoint_find_peer(struct worker *worker, const uint8_t id[HANDSHAKE_ID],
                                    const struct endpoint *except);
struct endpoint *endpoint_open_self(struct worker *worker);

void endpoint_handle(struct endpoint *endpoint, enum endpoint_event event, int status,
                     const char *why);
/* A segment was closed, on this side or the peer's: an endpoint that nobody uses is kept for a
 * while, for the next one who does, and then drained. */
void endpoint_on_unused(struct endpoint *endpoint);
/* Does anybody here want the peer?  A segment that is gone does not come back. */
bool endpoint_is_wanted(const struct endpoint *endpoint);
/* Frees the queue pairs of a handshake that will not use them. */
void endpoint_withdraw_offer(struct endpoint *endpoint);
/* Ends what was posted over the link, and the link. */
void endpoint_drop_link(struct endpoint *endpoint);
void endpoint_say_bye(struct endpoint *endpoint);
void endpoint_check_drained(struct endpoint *endpoint);
void endpoint_free(struct endpoint *endpoint);
/* Gives all segments of `from` to `to`, which is ready. */
void endpoint_hand_over(struct endpoint *from, struct endpoint *to);
/* Says BYE to all peers and frees all, at the end of the process. */
void endpoint_fini(struct worker *worker);
/* Of two connections between the same two workers both sides keep the same one. */
bool endpoint_prefers_new(const struct endpoint *old, bool new_initiated);
/* Updates its line in the counters segment. */
void endpoint_show(struct endpoint *endpoint);
/* The same for its link's queue pairs alone: they can change while the endpoint does not. */
void endpoint_show_queues(struct endpoint *endpoint);
/* Counts bytes that its link has sent and received. */
static inline void endpoint_moved(struct endpoint *endpoint, uint64_t out, uint64_t in)
{
    if (endpoint->shown == NULL)
        return;
    atomic_count(&endpoint->shown->bytes_out, out);
    atomic_count(&endpoint->shown->bytes_in, in);
}
/* Closes links that reported their death. Called once per loop turn. */
int endpoint_reap(struct worker *worker);

#endif
