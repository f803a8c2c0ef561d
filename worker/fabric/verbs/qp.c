#include "worker/fabric/verbs/qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "worker/fabric/verbs/link.h"

#define QP_INLINE_WISH 128u /* a notification of some words; a device that has none gives 0 */
#define QP_RNR_TIMER   12u  /* 0.64 ms: how long a peer without a buffer is left alone */

void verbs_qp_explain(const struct verbs_qp *qp, const char *what, char *text, size_t text_size)
{
    const struct endpoint *endpoint = qp->link->link.endpoint;

    snprintf(text, text_size, "%.24s, %s QP %u to %.32s at %.40s: %.110s", qp->nic->name,
             qp->notify ? "notification" : "data", qp->qp->qp_num, endpoint->peer_name,
             endpoint->address, what);
}

/* ---- states ---- */

static void qp_number_add(struct verbs_qp *qp)
{
    struct verbs_qp **bucket = &qp->nic->by_number[qp->qp->qp_num % VERBS_NUMBERS];

    qp->same_number = *bucket;
    *bucket = qp;
}

static void qp_number_remove(struct verbs_qp *qp)
{
    struct verbs_qp **at = &qp->nic->by_number[qp->qp->qp_num % VERBS_NUMBERS];

    while (*at != NULL && *at != qp)
        at = &(*at)->same_number;
    if (*at == qp)
        *at = qp->same_number;
}

static struct ibv_qp *qp_make(struct verbs_nic *nic, struct verbs_cq *cq, bool notify,
                              uint32_t inline_wish, uint32_t *inline_max)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq->cq,
        .recv_cq = cq->cq,
        .srq = notify ? nic->srq : NULL,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = VERBS_QP_DEPTH, .max_send_sge = 1, .max_inline_data = inline_wish},
    };
    struct ibv_qp *qp;

    if (notify && nic->srq == NULL) {
        init.cap.max_recv_wr = VERBS_QP_DEPTH;
        init.cap.max_recv_sge = 1;
    }
    qp = ibv_create_qp(nic->pd, &init);
    *inline_max = qp != NULL ? init.cap.max_inline_data : 0;
    return qp;
}

static int qp_init(const struct verbs_nic *nic, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = nic->port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* In INIT. NULL with text and *rc. */
static struct ibv_qp *qp_make_init(struct verbs_nic *nic, struct verbs_cq *cq, bool notify,
                                   uint32_t *inline_max, int *rc, char *text, size_t text_size)
{
    struct ibv_qp *qp = qp_make(nic, cq, notify, QP_INLINE_WISH, inline_max);

    if (qp == NULL) /* some devices refuse a wish that they cannot grant */
        qp = qp_make(nic, cq, notify, 0, inline_max);
    if (qp != NULL && qp_init(nic, qp) == 0)
        return qp;
    *rc = errno == ENOMEM || errno == EINVAL ? TS_ERR_LIMIT : TS_ERR_SYSTEM;
    snprintf(text, text_size,
             "%s: no %s queue pair: %s (the device allows %d QPs of %d work requests; memlock; "
             "rdma.max of its cgroup)",
             nic->name, notify ? "notification" : "data", strerror(errno), nic->attr.max_qp,
             nic->attr.max_qp_wr);
    if (qp != NULL)
        ibv_destroy_qp(qp);
    return NULL;
}

/* Receive completions of a queue of its own come on top. */
static uint32_t qp_charge(const struct verbs_nic *nic, bool notify)
{
    return notify && nic->srq == NULL ? 2 * VERBS_QP_DEPTH : VERBS_QP_DEPTH;
}

struct verbs_qp *verbs_qp_create(struct verbs_link *link, bool notify, int *rc, char *text,
                                 size_t text_size)
{
    struct verbs_nic *nic = link->nic;
    struct verbs_cq *cq = notify ? &nic->notify_cq : &nic->data_cq;
    uint32_t charge = qp_charge(nic, notify);
    struct verbs_qp *qp = calloc(1, sizeof(*qp));
    int slot;

    *rc = TS_ERR_NO_MEMORY;
    if (qp == NULL)
        return NULL;
    *rc = verbs_cq_charge(nic, cq, charge, text, text_size);
    if (*rc != TS_OK)
        goto err_free;
    qp->nic = nic;
    qp->link = link;
    qp->cq = cq;
    qp->notify = notify;
    slot = verbs_slot_take(nic, qp);
    *rc = slot < 0 ? TS_ERR_NO_MEMORY : TS_ERR_SYSTEM;
    if (slot < 0)
        goto err_refund;
    qp->slot = (uint32_t)slot;
    qp->generation = nic->slots[slot].generation;
    qp->qp = qp_make_init(nic, cq, notify, &qp->inline_max, rc, text, text_size);
    if (qp->qp == NULL)
        goto err_slot;
    if (notify)
        qp_number_add(qp);
    return qp;

err_slot:
    verbs_slot_give(nic, qp->slot);
err_refund:
    verbs_cq_refund(nic, cq, charge);
err_free:
    free(qp);
    return NULL;
}

void verbs_path_address(const struct verbs_nic *nic, const struct verbs_path *path,
                        struct ibv_ah_attr *address)
{
    const struct verbs_gid *gid = &nic->gid[path->gid];

    *address = (struct ibv_ah_attr){.port_num = nic->port, .dlid = path->dlid};
    if (nic->port_attr.link_layer == IBV_LINK_LAYER_INFINIBAND && path->dlid != 0 &&
        memcmp(gid->gid.raw, path->dgid.raw, 8) == 0)
        return; /* same subnet: the LID is enough */
    address->is_global = 1;
    address->grh.dgid = path->dgid;
    address->grh.sgid_index = (uint8_t)gid->index;
    address->grh.hop_limit = 64;
    address->grh.traffic_class = (uint8_t)nic->worker->config.rdma.traffic_class;
}

static int qp_failed(const struct verbs_qp *qp, const char *state, int error,
                     const struct verbs_path *path, char *text, size_t text_size)
{
    char gid[96], what[200];

    verbs_gid_format(&qp->nic->gid[path->gid], gid, sizeof(gid));
    snprintf(what, sizeof(what),
             "cannot go to %s with GID %s, peer QP %u, MTU %u: %s (can the hosts reach each other "
             "by these addresses?)",
             state, gid, path->qp, path->mtu, strerror(error));
    verbs_qp_explain(qp, what, text, text_size);
    errno = error;
    return TS_ERR_UNREACHABLE;
}

int verbs_qp_reset(struct verbs_qp *qp, char *text, size_t text_size)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    bool own_queue = qp->notify && qp->nic->srq == NULL;

    if (ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE) != 0 || qp_init(qp->nic, qp->qp) != 0) {
        verbs_qp_explain(qp, "cannot be reset", text, text_size);
        return TS_ERR_SYSTEM;
    }
    if (!own_queue)
        return TS_OK;
    verbs_receive_reclaim(qp->nic, qp->slot); /* RESET empties the queue without a word */
    return verbs_receive_fill(qp->nic, qp, qp->link->stream.window);
}

int verbs_qp_connect(struct verbs_qp *qp, const struct verbs_path *path, char *text,
                     size_t text_size)
{
    const struct proto_rdma *config = &qp->nic->worker->config.rdma;
    const struct ibv_device_attr *device = &qp->nic->attr;
    uint32_t reads = verbs_reads_max(device->max_qp_init_rd_atom);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = verbs_mtu(path->mtu),
                               .dest_qp_num = path->qp,
                               .rq_psn = path->psn,
                               .max_dest_rd_atomic = verbs_reads_max(device->max_qp_rd_atom),
                               .min_rnr_timer = QP_RNR_TIMER};
    int rc;

    verbs_path_address(qp->nic, path, &attr.ah_attr);
    rc = ibv_modify_qp(qp->qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (rc != 0)
        return qp_failed(qp, "RTR", rc, path, text, text_size);
    if (reads > path->reads)
        reads = path->reads;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .sq_psn = path->own_psn,
                                .timeout = (uint8_t)config->timeout,
                                .retry_cnt = (uint8_t)config->retries,
                                .rnr_retry = (uint8_t)config->rnr_retries,
                                .max_rd_atomic = (uint8_t)reads};
    rc = ibv_modify_qp(qp->qp, &attr,
                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    if (rc != 0)
        return qp_failed(qp, "RTS", rc, path, text, text_size);
    qp->peer = path->qp;
    return TS_OK;
}

static void entry_retire(struct verbs_qp *qp, int status)
{
    struct verbs_posted *entry = &qp->entry[qp->tail % VERBS_QP_DEPTH];

    qp->tail++;
    if (entry->read)
        qp->reads--;
    if (entry->kind == VERBS_POSTED_PACKET && status == TS_OK) {
        verbs_pool_give(&qp->nic->send, entry->buffer);
    } else if (entry->kind == VERBS_POSTED_PACKET) {
        verbs_stream_keep(qp->link, entry->buffer);
    } else {
        qp->flying -= entry->length;
        verbs_move_on_done(entry->move, entry->length, status);
    }
    if (status == TS_OK)
        verbs_link_linked(qp->link); /* the path carries */
}

void verbs_qp_stop(struct verbs_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    qp->broken = true;
    (void)ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE); /* destroying it ends it in any case */
}

/* After this no work request of it touches memory any more, and only then may its completions be
 * another's. */
static void qp_end(struct verbs_qp *qp)
{
    struct verbs_nic *nic = qp->nic;

    qp_number_remove(qp);
    if (ibv_destroy_qp(qp->qp) != 0)
        worker_error(nic->worker, &nic->worker->peer_limit, "%s: cannot destroy QP %u: %s",
                     nic->name, qp->qp->qp_num, strerror(errno));
    qp->staged = 0;
    while (qp->tail != qp->head) /* what was not seen to end has ended now */
        entry_retire(qp, TS_ERR_UNCERTAIN);
    if (nic->srq == NULL)
        verbs_receive_reclaim(nic, qp->slot);
}

int verbs_qp_renew(struct verbs_qp *qp, char *text, size_t text_size)
{
    struct verbs_nic *nic = qp->nic;
    uint32_t charge = qp_charge(nic, qp->notify), inline_max;
    int rc = verbs_cq_charge(nic, qp->cq, charge, text, text_size);
    struct ibv_qp *next;

    if (rc != TS_OK)
        return rc;
    next = qp_make_init(nic, qp->cq, qp->notify, &inline_max, &rc, text, text_size);
    if (next == NULL)
        goto err_refund;
    qp_end(qp);
    verbs_cq_refund(nic, qp->cq, charge);
    qp->qp = next;
    qp->inline_max = inline_max;
    qp->generation = verbs_slot_renew(nic, qp->slot);
    qp->head = qp->tail = 0;
    qp->stall = (struct verbs_stall){0};
    qp->broken = false;
    if (!qp->notify)
        return TS_OK;
    qp_number_add(qp);
    if (nic->srq != NULL || verbs_receive_fill(nic, qp, qp->link->stream.window) == TS_OK)
        return TS_OK;
    snprintf(text, text_size, "%s: cannot post a receive buffer: %s", nic->name, strerror(errno));
    return TS_ERR_LIMIT;

err_refund:
    verbs_cq_refund(nic, qp->cq, charge);
    return rc;
}

void verbs_qp_destroy(struct verbs_qp *qp)
{
    struct verbs_nic *nic = qp->nic;

    qp_end(qp);
    verbs_slot_give(nic, qp->slot);
    verbs_cq_refund(nic, qp->cq, qp_charge(nic, qp->notify));
    free(qp);
}

/* ---- the send queue ---- */

struct ibv_send_wr *verbs_qp_stage(struct verbs_qp *qp, const struct verbs_posted *entry)
{
    uint32_t at = qp->head % VERBS_QP_DEPTH;
    struct ibv_send_wr *wr = &qp->wr[at];

    *wr = (struct ibv_send_wr){
        .wr_id = verbs_wr_id(VERBS_WR_SEND, qp->generation, qp->slot << 16 | (qp->head & 0xffff)),
        .sg_list = &qp->sge[at],
        .num_sge = 1};
    qp->entry[at] = *entry;
    if (entry->read)
        qp->reads++;
    if (entry->kind == VERBS_POSTED_SLICE)
        qp->flying += entry->length;
    qp->head++;
    qp->staged++;
    return wr;
}

int verbs_qp_post(struct verbs_qp *qp)
{
    struct counters_worker_stats *stats = qp->nic->worker->stats;
    uint32_t first = qp->head - qp->staged, count = qp->staged;
    struct ibv_send_wr *bad = NULL;
    char text[PROTO_TEXT_MAX], what[80];
    int rc;

    if (count == 0 || !verbs_qp_is_live(qp))
        return 0;
    for (uint32_t i = first; i != qp->head; i++)
        qp->wr[i % VERBS_QP_DEPTH].next =
            i + 1 != qp->head ? &qp->wr[(i + 1) % VERBS_QP_DEPTH] : NULL;
    qp->wr[(qp->head - 1) % VERBS_QP_DEPTH].send_flags |= IBV_SEND_SIGNALED;
    qp->staged = 0;
    rc = ibv_post_send(qp->qp, &qp->wr[first % VERBS_QP_DEPTH], &bad);
    atomic_count(&stats->rdma_work_requests, count);
    atomic_count(&stats->rdma_doorbells, 1);
    if (rc != 0) { /* from the bad one on they never were posted: no completion will come */
        if (bad != NULL)
            qp->staged = count - ((uint32_t)(bad - qp->wr) - first) % VERBS_QP_DEPTH;
        snprintf(what, sizeof(what), "ibv_post_send: %s", strerror(rc));
        verbs_qp_explain(qp, what, text, sizeof(text));
        verbs_renew_break(qp, text);
    }
    return (int)count;
}

static const char *wc_advice(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer's host, its link and the path between: no packet was answered";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer's worker: it has no receive buffer posted";
    case IBV_WC_REM_ACCESS_ERR:
        return "the region at the peer: unregistered, or its worker died";
    case IBV_WC_LOC_PROT_ERR:
        return "the local region: it was unregistered, or is read-only";
    case IBV_WC_WR_FLUSH_ERR:
        return "the peer: its request put this queue pair into error";
    default:
        return "the device's counters (rdma statistic) and the kernel's log";
    }
}

static int wc_to_status(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
        return TS_ERR_FAULT;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return TS_ERR_PROTOCOL;
    default:
        /* It may have arrived, only the answer did not.  A refused key says no more: when the
         * peer's worker dies its keys go before its queue pairs, and the region is there for the
         * next one.
         */
        return TS_ERR_UNCERTAIN;
    }
}

/* What follows the first error is its wake.  A flush that comes first is news, too: a request of
 * the peer, one with a key of nobody, puts our queue pair into error and completes nothing here. */
void verbs_qp_on_error(struct verbs_qp *qp, const struct ibv_wc *wc)
{
    char what[160], text[PROTO_TEXT_MAX];

    if (qp->broken)
        return;
    qp->broken = true;
    atomic_count(&qp->nic->worker->stats->rdma_errors, 1);
    snprintf(what, sizeof(what), "%s (%d, vendor %#x); check %s", ibv_wc_status_str(wc->status),
             wc->status, wc->vendor_err, wc_advice(wc->status));
    verbs_qp_explain(qp, what, text, sizeof(text));
    if (verbs_renew_helps(wc->status))
        verbs_renew_break(qp, text);
    else
        verbs_link_fail(qp->link, TS_ERR_UNREACHABLE, "%s", text);
}

void verbs_qp_on_sent(struct verbs_qp *qp, const struct ibv_wc *wc)
{
    uint32_t ahead = ((uint32_t)wc->wr_id - qp->tail) & 0xffff;

    if (ahead >= qp->head - qp->staged - qp->tail) {
        atomic_count(&qp->nic->worker->stats->stale_completions, 1);
        return;
    }
    /* In order: what was posted before it is done. */
    for (uint32_t i = 0; i < ahead; i++)
        entry_retire(qp, TS_OK);
    if (wc->status != IBV_WC_SUCCESS)
        verbs_qp_on_error(qp, wc);
    entry_retire(qp, wc->status == IBV_WC_SUCCESS ? TS_OK : wc_to_status(wc->status));
    if (qp->link->link.endpoint->lost_status == TS_OK && !qp->link->closing)
        link_wake(&qp->link->link);
}
