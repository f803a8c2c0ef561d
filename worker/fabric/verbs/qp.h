/* One queue pair, and what is on its send queue.
 *
 * Work requests are staged one by one and posted as one list: one doorbell, and only the last of
 * the list is signalled (and each full slice, move.c).  A reliable connection completes in order,
 * so that one completion retires everything up to it (InfiniBand Architecture Specification, volume
 * 1, section 10.8.5).
 */
#ifndef TESUP_WORKER_FABRIC_VERBS_QP_H
#define TESUP_WORKER_FABRIC_VERBS_QP_H

#include "worker/fabric/verbs/nic.h"
#include "worker/fabric/verbs/renew.h"
#include "worker/fabric/verbs/stall.h"

#define VERBS_QP_DEPTH 64u /* work requests on a send queue; also what it charges its CQ */

struct verbs_link;
struct verbs_move;

enum verbs_posted_kind { VERBS_POSTED_SLICE, VERBS_POSTED_PACKET };

/* What a work request was for. */
struct verbs_posted {
    enum verbs_posted_kind kind;
    bool read;
    struct verbs_move *move;     /* slice */
    struct verbs_buffer *buffer; /* packet */
    uint64_t length;
};

struct verbs_qp {
    struct ibv_qp *qp;
    struct verbs_nic *nic;
    struct verbs_link *link;
    struct verbs_cq *cq;
    bool notify; /* the notification QP */
    bool broken; /* a work request failed: the rest will be flushed */
    struct verbs_renewal renewal;
    struct verbs_qp *same_number; /* next in nic->by_number */
    uint32_t slot;                /* in nic->slots */
    uint32_t peer;                /* number of the one that it is connected to */
    uint32_t generation;
    uint32_t inline_max;
    uint32_t head, tail, staged; /* free-running; [tail, head - staged) is posted */
    struct verbs_stall stall;
    uint32_t reads;  /* RDMA READs among them */
    uint64_t flying; /* bytes of slices among them */
    struct ibv_send_wr wr[VERBS_QP_DEPTH];
    struct ibv_sge sge[VERBS_QP_DEPTH];
    struct verbs_posted entry[VERBS_QP_DEPTH];
};

/* Where the QP leads to. */
struct verbs_path {
    uint32_t gid; /* own, in nic->gid */
    union ibv_gid dgid;
    uint16_t dlid;
    uint32_t mtu; /* bytes */
    uint32_t own_psn, psn;
    uint32_t reads; /* outstanding ones that the peer takes */
    uint32_t qp;    /* the peer's number */
};

/* How a packet on it is addressed. */
void verbs_path_address(const struct verbs_nic *nic, const struct verbs_path *path,
                        struct ibv_ah_attr *address);

/* A QP in INIT with its completions charged. NULL with text, *rc is TS_ERR_LIMIT or another. */
struct verbs_qp *verbs_qp_create(struct verbs_link *link, bool notify, int *rc, char *text,
                                 size_t text_size);
/* From wherever a failed verbs_qp_connect left it back to INIT. TS_OK, TS_ERR_SYSTEM. */
int verbs_qp_reset(struct verbs_qp *qp, char *text, size_t text_size);
/* INIT -> RTR -> RTS; errno says why not. */
int verbs_qp_connect(struct verbs_qp *qp, const struct verbs_path *path, char *text,
                     size_t text_size);
/* Another one in its place, in INIT, with another number; what the old one had under way is retired
 * as by verbs_qp_destroy. TS_OK, or an error with text: then the link ends. */
int verbs_qp_renew(struct verbs_qp *qp, char *text, size_t text_size);
/* To ERR: everything posted is flushed, and seen by whoever polls. */
void verbs_qp_stop(struct verbs_qp *qp);
/* No completion of it is left in the queues' hands, or they are stale from now on. */
void verbs_qp_destroy(struct verbs_qp *qp);

/* READs that the device allows at once: the verbs' field for it has eight bits. */
static inline uint8_t verbs_reads_max(int most)
{
    return most > UINT8_MAX ? UINT8_MAX : (uint8_t)most;
}
static inline uint32_t verbs_qp_room(const struct verbs_qp *qp)
{
    return VERBS_QP_DEPTH - (qp->head - qp->tail);
}
/* May something be staged and posted? */
static inline bool verbs_qp_is_live(const struct verbs_qp *qp)
{
    return !qp->broken && qp->renewal.state == RENEW_LIVE;
}
/* Is nothing posted that has not come back? */
static inline bool verbs_qp_is_quiet(const struct verbs_qp *qp)
{
    return qp->tail == qp->head - qp->staged;
}
/* The next work request to fill; there must be room. Its sge has one element. */
struct ibv_send_wr *verbs_qp_stage(struct verbs_qp *qp, const struct verbs_posted *entry);
/* Rings the doorbell for all that is staged. Returns how many went out. */
int verbs_qp_post(struct verbs_qp *qp);
/* A completion of its send queue. */
void verbs_qp_on_sent(struct verbs_qp *qp, const struct ibv_wc *wc);
/* A work request of either kind failed: the first one ends the queue pair or the link. */
void verbs_qp_on_error(struct verbs_qp *qp, const struct ibv_wc *wc);
struct verbs_qp *verbs_qp_find(const struct verbs_nic *nic, uint32_t number);

/* A sentence for the log: device, GID, peer, QP, what happened and what to look at. */
void verbs_qp_explain(const struct verbs_qp *qp, const char *what, char *text, size_t text_size);

#endif
