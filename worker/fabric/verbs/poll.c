#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "worker/fabric/verbs/link.h"

#define POLL_BATCH  32
#define POLL_ROUNDS 4 /* of one queue before the rest of the loop has its turn */
#define SLOTS_STEP  64u
#define SLOTS_MAX   65536u

/* ---- slots ---- */

int verbs_slot_take(struct verbs_nic *nic, struct verbs_qp *qp)
{
    uint32_t count = nic->slot_count;
    struct verbs_slot *more;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (nic->slot_free + i) % count;

        if (nic->slots[at].qp != NULL)
            continue;
        nic->slots[at].qp = qp;
        nic->slot_free = at + 1;
        return (int)at;
    }
    if (count + SLOTS_STEP > SLOTS_MAX)
        return -1;
    more = realloc(nic->slots, (count + SLOTS_STEP) * sizeof(*more));
    if (more == NULL)
        return -1;
    memset(more + count, 0, SLOTS_STEP * sizeof(*more));
    nic->slots = more;
    nic->slot_count = count + SLOTS_STEP;
    nic->slots[count].qp = qp;
    nic->slot_free = count + 1;
    return (int)count;
}

uint32_t verbs_slot_renew(struct verbs_nic *nic, uint32_t slot)
{
    nic->slots[slot].generation = (nic->slots[slot].generation + 1) & VERBS_GENERATION_MASK;
    return nic->slots[slot].generation;
}

void verbs_slot_give(struct verbs_nic *nic, uint32_t slot)
{
    nic->slots[slot].qp = NULL;
    (void)verbs_slot_renew(nic, slot);
}

/* Receive completions name the QP by its number only; who it is now is checked by the generation
 * inside the packet. */
struct verbs_qp *verbs_qp_find(const struct verbs_nic *nic, uint32_t number)
{
    struct verbs_qp *qp = nic->by_number[number % VERBS_NUMBERS];

    while (qp != NULL && qp->qp->qp_num != number)
        qp = qp->same_number;
    return qp;
}

/* ---- completions ---- */

static void stale(struct verbs_nic *nic)
{
    atomic_count(&nic->worker->stats->stale_completions, 1);
}

static void on_sent(struct verbs_nic *nic, const struct ibv_wc *wc)
{
    uint32_t slot = (uint32_t)wc->wr_id >> 16;
    uint32_t generation = (uint32_t)(wc->wr_id >> 32) & VERBS_GENERATION_MASK;

    atomic_count(&nic->worker->stats->rdma_sent, 1);
    if (slot >= nic->slot_count || nic->slots[slot].qp == NULL ||
        nic->slots[slot].generation != generation) {
        stale(nic);
        return;
    }
    verbs_qp_on_sent(nic->slots[slot].qp, wc);
}

static void on_received(struct verbs_nic *nic, const struct ibv_wc *wc, struct verbs_buffer *buffer)
{
    struct verbs_qp *qp = verbs_qp_find(nic, wc->qp_num);

    if (wc->status != IBV_WC_SUCCESS) {
        if (qp != NULL) /* a packet that does not fit, for one */
            verbs_qp_on_error(qp, wc);
        return;
    }
    atomic_count(&nic->worker->stats->rdma_received, 1);
    if (qp == NULL)
        stale(nic);
    else
        verbs_stream_on_packet(qp->link, buffer->bytes, wc->byte_len);
}

/* A queue of its own belongs to one QP; when that is stopping, nothing is posted to it any more. */
static void repost(struct verbs_nic *nic, struct verbs_buffer *buffer, const struct ibv_wc *wc)
{
    uint32_t owner = buffer->owner;
    struct verbs_qp *qp = owner < nic->slot_count ? nic->slots[owner].qp : NULL;

    if (nic->srq == NULL && (qp == NULL || qp->broken || wc->status != IBV_WC_SUCCESS)) {
        verbs_pool_give(&nic->receive, buffer);
        return;
    }
    if (verbs_receive_post(nic, qp, buffer) == TS_OK)
        return;
    worker_error(nic->worker, &nic->worker->peer_limit, "%s: cannot post a receive buffer: %s",
                 nic->name, strerror(errno));
    verbs_pool_give(&nic->receive, buffer); /* the next window that is promised posts it */
}

static void on_completion(struct verbs_nic *nic, const struct ibv_wc *wc)
{
    struct verbs_buffer *buffer;

    switch (wc->wr_id >> 60) {
    case VERBS_WR_SEND:
        on_sent(nic, wc);
        return;
    case VERBS_WR_RECEIVE:
        buffer = verbs_pool_at(&nic->receive, (uint32_t)wc->wr_id);
        if (buffer == NULL || buffer->generation != ((wc->wr_id >> 32) & VERBS_GENERATION_MASK)) {
            stale(nic);
            return;
        }
        on_received(nic, wc, buffer);
        repost(nic, buffer, wc);
        return;
    default:
        stale(nic);
    }
}

static int queue_poll(struct verbs_nic *nic, struct verbs_cq *cq)
{
    struct ibv_wc wc[POLL_BATCH];
    int done = 0;

    for (int round = 0; round < POLL_ROUNDS; round++) {
        int count = ibv_poll_cq(cq->cq, POLL_BATCH, wc);

        for (int i = 0; i < count; i++)
            on_completion(nic, &wc[i]);
        if (count > 0)
            done += count;
        if (count < POLL_BATCH)
            break;
    }
    return done;
}

/* Other links' completions gave buffers back: those who had none may have nothing of their own
 * under way that would wake them. */
static void send_buffers_share(struct verbs_nic *nic)
{
    if (!nic->send_short || nic->send.free_count == 0)
        return;
    nic->send_short = false;
    list_each (node, following, &nic->links) {
        link_wake(&list_entry(node, struct verbs_link, member)->link);
    }
}

int verbs_poll_once(struct verbs_nic *nic)
{
    int done;

    /* A completion's handler may end up here: what it would take belongs behind the batch that its
     * caller is still working on. */
    if (nic->polling)
        return 0;
    nic->polling = true;
    done = queue_poll(nic, &nic->data_cq) + queue_poll(nic, &nic->notify_cq);
    nic->polling = false;
    send_buffers_share(nic);
    if (done == 0) /* all that there was is counted in */
        verbs_stalls_find(nic);
    return done;
}
