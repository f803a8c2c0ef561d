/* Queue pairs: their making, their states, their end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/worker/fake_verbs_inside.h"

#define NUMBER_MAX 0xffffffu

static uint64_t next_serial = 1;

struct fake_qp *fake_qp_find(uint32_t number)
{
    for (unsigned i = 0; i < FAKE_NICS; i++) {
        if (!fake_nics[i].open)
            continue;
        list_each (node, following, &fake_nics[i].qps) {
            struct fake_qp *qp = list_entry(node, struct fake_qp, member);

            if (qp->qp.qp_num == number)
                return qp;
        }
    }
    return NULL;
}

static void init_check(const struct fake_nic *nic, const struct ibv_qp_init_attr *init)
{
    const struct ibv_device_attr *attr = &nic->seen.attr;

    fake_require(init->qp_type == IBV_QPT_RC && init->send_cq != NULL && init->recv_cq != NULL &&
                     init->sq_sig_all == 0,
                 "a reliable connection that signals what it asks for");
    fake_require((int)init->cap.max_send_wr <= attr->max_qp_wr && init->cap.max_send_wr > 0 &&
                     (int)init->cap.max_recv_wr <= attr->max_qp_wr && init->cap.max_send_sge == 1,
                 "queues that the device has");
    fake_require(init->srq == NULL || init->cap.max_recv_wr == 0, "one receive queue");
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct fake_nic *nic = fake_nic_of(pd->context);
    struct fake_qp *qp;

    init_check(nic, init);
    if (fake_fails(nic, FAKE_CREATE_QP))
        return NULL;
    if ((int)nic->seen.qps == nic->seen.attr.max_qp) {
        errno = ENOMEM;
        return NULL;
    }
    if (init->cap.max_inline_data > nic->seen.inline_max && nic->seen.refuses_inline) {
        errno = EINVAL;
        return NULL;
    }
    init->cap.max_inline_data = nic->seen.inline_max;
    while (fake_qp_find(nic->seen.next_number) != NULL)
        nic->seen.next_number++;
    qp = calloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = init->send_cq,
                             .recv_cq = init->recv_cq,
                             .srq = init->srq,
                             .qp_num = nic->seen.next_number++,
                             .state = IBV_QPS_RESET,
                             .qp_type = IBV_QPT_RC};
    qp->nic = nic;
    qp->cap = init->cap;
    qp->serial = next_serial++;
    list_init(&qp->sends);
    list_init(&qp->receives);
    list_append(&nic->qps, &qp->member);
    nic->seen.qps++;
    if (init->srq != NULL)
        fake_srq_of(init->srq)->users++;
    fake_cq_check(fake_cq_of(init->send_cq));
    fake_cq_check(fake_cq_of(init->recv_cq));
    return &qp->qp;
}

/* ---- states ---- */

static void init_enter(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    fake_require(qp->qp.state == IBV_QPS_RESET, "INIT after RESET");
    fake_require(mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                 "what INIT wants, and nothing else");
    fake_require(attr->port_num >= 1 && attr->port_num <= FAKE_PORTS && attr->pkey_index == 0 &&
                     attr->qp_access_flags == (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE),
                 "a port, and peers that may read and write");
    qp->attr = *attr;
}

static bool gid_exists(const struct fake_nic *nic, uint32_t index)
{
    return index < nic->seen.gid_count && nic->seen.gid[index].port_num != 0;
}

static void ready_to_receive_enter(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct fake_device *seen = &qp->nic->seen;
    const struct ibv_ah_attr *way = &attr->ah_attr;
    const struct ibv_port_attr *port = &seen->port[qp->attr.port_num - 1];

    fake_require(qp->qp.state == IBV_QPS_INIT, "RTR after INIT");
    fake_require(mask == (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                 "what RTR wants, and nothing else");
    fake_require(attr->path_mtu >= IBV_MTU_256 && attr->path_mtu <= port->active_mtu,
                 "an MTU that the port has");
    fake_require(attr->dest_qp_num > 0 && attr->dest_qp_num <= NUMBER_MAX &&
                     attr->rq_psn <= NUMBER_MAX && attr->min_rnr_timer <= 31,
                 "numbers of 24 bits");
    fake_require(attr->max_dest_rd_atomic <= seen->attr.max_qp_rd_atom, "READs that it takes");
    fake_require(way->port_num == qp->attr.port_num, "one port");
    if (way->is_global)
        fake_require(gid_exists(qp->nic, way->grh.sgid_index) && way->grh.hop_limit > 1,
                     "a GID of its own, and a way over routers");
    else
        fake_require(port->link_layer == IBV_LINK_LAYER_INFINIBAND && way->dlid != 0,
                     "a GID on Ethernet, a LID on InfiniBand");
    qp->attr.ah_attr = *way;
    qp->attr.path_mtu = attr->path_mtu;
    qp->attr.dest_qp_num = attr->dest_qp_num;
    qp->attr.rq_psn = attr->rq_psn;
    qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
    qp->attr.min_rnr_timer = attr->min_rnr_timer;
}

static void ready_to_send_enter(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    fake_require(qp->qp.state == IBV_QPS_RTR, "RTS after RTR");
    fake_require(mask == (IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
                 "what RTS wants, and nothing else");
    fake_require(attr->sq_psn <= NUMBER_MAX && attr->timeout <= 31 && attr->retry_cnt <= 7 &&
                     attr->rnr_retry <= 7 &&
                     attr->max_rd_atomic <= qp->nic->seen.attr.max_qp_init_rd_atom,
                 "numbers in range");
    qp->attr.sq_psn = attr->sq_psn;
    qp->attr.timeout = attr->timeout;
    qp->attr.retry_cnt = attr->retry_cnt;
    qp->attr.rnr_retry = attr->rnr_retry;
    qp->attr.max_rd_atomic = attr->max_rd_atomic;
}

static void receives_drop(struct fake_qp *qp)
{
    while (!list_empty(&qp->receives)) {
        struct fake_receive *receive = list_entry(qp->receives.next, struct fake_receive, link);

        list_remove(&receive->link);
        free(receive);
    }
}

/* Only what was never used is reset here: completions of before would be anybody's. */
static void reset_enter(struct fake_qp *qp, int mask)
{
    fake_require(mask == IBV_QP_STATE, "RESET and nothing else");
    fake_require(list_empty(&qp->sends) && qp->unacknowledged == 0,
                 "RESET of a queue pair at rest");
    receives_drop(qp);
}

static int qp_modify(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    if (attr->qp_state == IBV_QPS_ERR) {
        fake_require(mask == IBV_QP_STATE, "ERR and nothing else");
        qp->qp.state = IBV_QPS_ERR;
        fake_qp_flush(qp);
        return 0;
    }
    if (fake_fails(qp->nic, FAKE_MODIFY_QP))
        return errno;
    if (attr->qp_state == IBV_QPS_RESET)
        reset_enter(qp, mask);
    else if (attr->qp_state == IBV_QPS_INIT)
        init_enter(qp, attr, mask);
    else if (attr->qp_state == IBV_QPS_RTR)
        ready_to_receive_enter(qp, attr, mask);
    else if (attr->qp_state == IBV_QPS_RTS)
        ready_to_send_enter(qp, attr, mask);
    else
        fake_require(false, "a state that is in use");
    qp->qp.state = attr->qp_state;
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int rc;

    FAKE_LOCKED(rc = qp_modify(fake_qp_of(qp), attr, mask));
    return rc;
}

/* ---- the end ---- */

static void completions_clean(struct fake_cq *cq, uint64_t serial)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < cq->count; i++)
        if (cq->ring[i].serial != serial)
            cq->ring[kept++] = cq->ring[i];
    cq->count = kept;
}

/* Events that nobody took go with it. */
static void events_clean(struct fake_nic *nic, const struct ibv_qp *qp)
{
    list_each (node, following, &nic->events) {
        struct fake_event *event = list_entry(node, struct fake_event, link);
        uint64_t one;

        if (event->event.element.qp != qp)
            continue;
        list_remove(&event->link);
        free(event);
        (void)!read(nic->context.async_fd, &one, sizeof(one));
    }
}

int ibv_destroy_qp(struct ibv_qp *base)
{
    struct fake_qp *qp = fake_qp_of(base);
    struct fake_nic *nic = qp->nic;

    pthread_mutex_lock(&fake_lock);
    fake_require(qp->unacknowledged == 0, "a queue pair whose destruction never ends");
    while (!list_empty(&qp->sends)) {
        struct fake_wr *wr = list_entry(qp->sends.next, struct fake_wr, link);

        list_remove(&wr->link);
        free(wr->bytes);
        free(wr);
    }
    receives_drop(qp);
    if (nic->seen.cleans) {
        completions_clean(fake_cq_of(base->send_cq), qp->serial);
        completions_clean(fake_cq_of(base->recv_cq), qp->serial);
    }
    events_clean(nic, base);
    if (base->srq != NULL)
        fake_srq_of(base->srq)->users--;
    list_remove(&qp->member);
    nic->seen.qps--;
    pthread_mutex_unlock(&fake_lock);
    free(qp);
    return 0;
}

/* ---- what a test may look at ---- */

static struct fake_qp *qp_get(uint32_t number)
{
    struct fake_qp *qp = fake_qp_find(number);

    fake_require(qp != NULL, "a queue pair of that number");
    return qp;
}

enum ibv_qp_state fake_state(uint32_t number)
{
    return qp_get(number)->qp.state;
}

const struct ibv_qp_attr *fake_attr(uint32_t number)
{
    return &qp_get(number)->attr;
}

const struct fake_list *fake_last_list(uint32_t number)
{
    return &qp_get(number)->last;
}

unsigned fake_pending(uint32_t number)
{
    unsigned count = 0;

    list_each (node, following, &qp_get(number)->sends) {
        count += list_entry(node, struct fake_wr, link)->state == FAKE_WR_WAITS;
    }
    return count;
}

void fake_break(uint32_t number, enum ibv_wc_status status)
{
    qp_get(number)->break_next = status;
}
