/* A queue pair that failed is replaced, while its link and its other queue pairs go on.
 *
 *   either side   BROKEN (index, epoch)                 to the peer, whose own end stops, too
 *   both          drain: flushed work requests are counted in, packets that came are delivered
 *   both          a new queue pair; RENEW (index, epoch + 1, number, PSN, packets received)
 *   on RENEW      connect to it; RENEWED: ours can receive
 *   on RENEWED    send again: first the packets that the peer did not receive
 *
 * The words travel on the connection beside the queue pairs, in order.  Nothing is lost and nothing
 * comes twice: each side knows by number which packets it sent, and is told how many arrived.  What
 * a failed transfer had under way can land no more once both old queue pairs are gone; only then
 * does it end.
 *
 * The whole link ends instead when its path is dead, when the new queue pair fails at once, and
 * when the notification QP fails with a transfer's bytes on it (whose notification is right
 * behind).
 */
#ifndef TESUP_WORKER_FABRIC_VERBS_RENEW_H
#define TESUP_WORKER_FABRIC_VERBS_RENEW_H

#include <infiniband/verbs.h>

#include "worker/frame.h"

struct verbs_link;
struct verbs_qp;

enum verbs_renew_state {
    RENEW_LIVE,     /* in use */
    RENEW_DRAINING, /* stopped; its work requests come back */
    RENEW_FRESH,    /* a new one, that the peer was told of */
    RENEW_READY,    /* connected; the peer is not known to be */
    RENEW_STATE_COUNT
};

/* In each verbs_qp. */
struct verbs_renewal {
    enum verbs_renew_state state;
    uint32_t index; /* of the data QPs, or VERBS_RENEW_NOTIFY */
    uint16_t epoch; /* how often it was replaced; in each packet, too */
    uint32_t psn;
    uint64_t pause_until; /* clock_now(): a failure before that ends the link */
    /* what the peer's RENEW said */
    bool offered;
    uint32_t peer_qp, peer_psn, peer_received;
};
#define VERBS_RENEW_NOTIFY UINT32_MAX

void verbs_renew_init(struct verbs_link *link);
void verbs_renew_fini(struct verbs_link *link);

/* The queue pair failed, `text` says how: replaced, or the link ends. */
void verbs_renew_break(struct verbs_qp *qp, const char *text);
/* Could another queue pair do better after such an end of a work request? */
bool verbs_renew_helps(enum ibv_wc_status status);
/* May bytes of a work request that failed still land? */
bool verbs_renew_is_pending(const struct verbs_link *link);
/* Of the link's do_work. */
void verbs_renew_step(struct verbs_link *link);
/* BROKEN, RENEW, RENEWED. TS_OK or TS_ERR_PROTOCOL. */
int verbs_renew_on_frame(struct verbs_link *link, const struct frame *frame);

#endif
