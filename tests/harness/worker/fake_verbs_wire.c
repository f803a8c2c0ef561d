/* Queues and bytes: what is posted is executed in order, as a reliable connection does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/harness/worker/fake_verbs_inside.h"

/* By the kernel: memory that was pinned when it was registered may have left its file since, and a
 * device does not fault. */
static void bytes_copy(uint64_t to, uint64_t from, uint64_t size)
{
    const struct iovec here = {.iov_base = (void *)(uintptr_t)from, .iov_len = size};
    const struct iovec there = {.iov_base = (void *)(uintptr_t)to, .iov_len = size};

    if (size > 0)
        (void)!process_vm_writev(getpid(), &here, 1, &there, 1, 0);
}

/* ---- completions ---- */

static struct fake_qp *qp_of_serial(struct fake_nic *nic, uint64_t serial)
{
    list_each (node, following, &nic->qps) {
        struct fake_qp *qp = list_entry(node, struct fake_qp, member);

        if (qp->serial == serial)
            return qp;
    }
    return NULL;
}

/* A send queue's entry and a receive queue's are free again when their completion was polled, a
 * shared queue's when it was used: so what waits in the queue counts for that, and for the dead. */
void fake_cq_check(const struct fake_cq *cq)
{
    struct fake_nic *nic = fake_nic_of(cq->cq.context);
    const struct fake_srq *srq = NULL;
    unsigned most = 0;

    list_each (node, following, &nic->qps) {
        const struct fake_qp *qp = list_entry(node, struct fake_qp, member);

        if (qp->qp.send_cq == &cq->cq)
            most += qp->cap.max_send_wr;
        if (qp->qp.recv_cq == &cq->cq)
            most += qp->cap.max_recv_wr;
        if (qp->qp.recv_cq == &cq->cq && qp->qp.srq != NULL)
            srq = fake_srq_of(qp->qp.srq);
    }
    if (srq != NULL)
        most += srq->count;
    for (unsigned i = 0; i < cq->count; i++) {
        const struct fake_qp *qp = qp_of_serial(nic, cq->ring[i].serial);

        if (qp == NULL)
            most += !nic->seen.silent; /* nobody could have taken them */
        else
            most += qp->qp.srq != NULL && cq->ring[i].retires == 0;
    }
    fake_require(most <= (unsigned)cq->cq.cqe, "a completion queue that could overrun");
}

static void cq_ring(struct fake_cq *cq)
{
    struct fake_channel *channel = list_entry(cq->cq.channel, struct fake_channel, channel);

    cq->armed = false;
    list_append(&channel->cqs, &cq->rung);
    fake_require(eventfd_write(channel->channel.fd, 1) == 0, "a completion that is announced");
}

static void cqe_push(struct ibv_cq *base, const struct ibv_wc *wc, uint64_t serial,
                     uint64_t retires)
{
    struct fake_cq *cq = fake_cq_of(base);
    struct fake_cqe *entry = &cq->ring[cq->count];

    fake_require(cq->count < (unsigned)base->cqe, "a completion queue that overruns");
    *entry = (struct fake_cqe){.wc = *wc, .serial = serial, .retires = retires};
    if (wc->status != IBV_WC_SUCCESS) { /* nothing else is valid then: ibv_poll_cq(3) */
        entry->wc.opcode = (enum ibv_wc_opcode)0x7f;
        entry->wc.byte_len = 0xdeadbeef;
        entry->wc.vendor_err = 0x51;
    }
    cq->count++;
    if (cq->armed)
        cq_ring(cq);
}

int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    fake_require(solicited_only == 0 && cq->channel != NULL, "a bell for every completion");
    if (list_empty(&fake_cq_of(cq)->rung))
        fake_cq_of(cq)->armed = true;
    return 0;
}

void fake_completion(uint32_t number, const struct ibv_wc *wc)
{
    cqe_push(fake_qp_find(number)->qp.recv_cq, wc, 0, 0);
}

/* ---- receiving ---- */

static void receive_add(struct list *queue, const struct ibv_recv_wr *wr, const struct ibv_pd *pd)
{
    struct fake_receive *receive = calloc(1, sizeof(*receive));

    fake_require(wr->num_sge == 1 && wr->next == NULL, "one buffer at a time");
    receive->wr = *wr;
    receive->sge = *wr->sg_list;
    fake_require(fake_mr_find(pd, receive->sge.lkey, receive->sge.addr, receive->sge.length,
                              IBV_ACCESS_LOCAL_WRITE) != NULL,
                 "a receive buffer that is registered");
    list_each (node, following, queue) {
        fake_require(list_entry(node, struct fake_receive, link)->sge.addr != receive->sge.addr,
                     "each buffer posted once");
    }
    list_append(queue, &receive->link);
}

int fake_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_srq *srq = fake_srq_of(base);
    struct fake_nic *nic = fake_nic_of(base->context);

    *bad = wr;
    if (fake_fails(nic, FAKE_POST_RECEIVE))
        return errno;
    fake_require(srq->count < srq->most, "room in the shared receive queue");
    receive_add(&srq->posted, wr, base->pd);
    srq->count++;
    nic->seen.srq_posted++;
    list_each (node, following, &nic->qps) {
        const struct fake_qp *qp = list_entry(node, struct fake_qp, member);

        if (qp->qp.srq != base)
            continue;
        fake_cq_check(fake_cq_of(qp->qp.recv_cq));
        break; /* all of them share it */
    }
    return 0;
}

int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *qp = fake_qp_of(base);

    *bad = wr;
    if (fake_fails(qp->nic, FAKE_POST_RECEIVE))
        return errno;
    fake_require(base->srq == NULL && base->state != IBV_QPS_RESET && base->state != IBV_QPS_ERR,
                 "a receive queue that takes buffers");
    fake_require(qp->receive_count < qp->cap.max_recv_wr, "room in the receive queue");
    receive_add(&qp->receives, wr, base->pd);
    qp->receive_count++;
    return 0;
}

static struct fake_receive *receive_take(struct fake_qp *qp)
{
    struct fake_srq *srq = qp->qp.srq != NULL ? fake_srq_of(qp->qp.srq) : NULL;
    struct list *queue = srq != NULL ? &srq->posted : &qp->receives;
    struct ibv_async_event alarm = {.event_type = IBV_EVENT_SRQ_LIMIT_REACHED};
    struct fake_receive *receive;

    if (list_empty(queue))
        return NULL;
    receive = list_entry(queue->next, struct fake_receive, link);
    list_remove(&receive->link);
    if (srq == NULL) {
        qp->receive_count--;
        return receive;
    }
    srq->count--;
    qp->nic->seen.srq_posted--;
    if (srq->limit > 0 && srq->count < srq->limit) {
        srq->limit = 0; /* rings once */
        alarm.element.srq = &srq->srq;
        fake_event_add(qp->nic, &alarm);
    }
    return receive;
}

static void received(struct fake_qp *qp, const struct fake_receive *receive,
                     enum ibv_wc_status status, uint32_t size)
{
    const struct ibv_wc wc = {.wr_id = receive->wr.wr_id,
                              .status = status,
                              .opcode = IBV_WC_RECV,
                              .byte_len = size,
                              .qp_num = qp->qp.qp_num};

    cqe_push(qp->qp.recv_cq, &wc, qp->serial, 0);
}

static void qp_error(struct fake_qp *qp)
{
    qp->qp.state = IBV_QPS_ERR;
    fake_qp_flush(qp);
}

/* What a responder that was misused does. */
static enum ibv_wc_status responder_breaks(struct fake_qp *qp, enum ibv_event_type type,
                                           enum ibv_wc_status status)
{
    const struct ibv_async_event event = {.element.qp = &qp->qp, .event_type = type};

    fake_event_add(qp->nic, &event);
    qp_error(qp);
    return status;
}

static enum ibv_wc_status deliver(struct fake_qp *qp, uint64_t bytes, uint32_t size)
{
    struct fake_receive *receive = receive_take(qp);
    enum ibv_wc_status status = IBV_WC_SUCCESS;

    if (receive == NULL)
        return IBV_WC_RNR_RETRY_EXC_ERR;
    if (size > receive->sge.length) {
        received(qp, receive, IBV_WC_LOC_LEN_ERR, 0);
        status = responder_breaks(qp, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
    } else {
        bytes_copy(receive->sge.addr, bytes, size);
        received(qp, receive, IBV_WC_SUCCESS, size);
        qp->nic->seen.packets++;
    }
    free(receive);
    return status;
}

static bool qp_hears(const struct fake_qp *qp)
{
    return qp->qp.state == IBV_QPS_RTR || qp->qp.state == IBV_QPS_RTS;
}

bool fake_send(uint32_t number, const void *bytes, uint32_t size)
{
    struct fake_qp *qp = fake_qp_find(number);

    return qp != NULL && qp_hears(qp) && deliver(qp, (uintptr_t)bytes, size) == IBV_WC_SUCCESS;
}

/* ---- sending ---- */

static bool way_leads_to(const struct fake_qp *from, const struct fake_qp *to)
{
    const struct ibv_ah_attr *way = &from->attr.ah_attr;
    const struct fake_device *there = &to->nic->seen;

    if (!way->is_global)
        return there->port[0].lid == way->dlid;
    for (uint32_t i = 0; i < there->gid_count; i++)
        if (there->gid[i].port_num != 0 &&
            memcmp(there->gid[i].gid.raw, way->grh.dgid.raw, 16) == 0)
            return there->gid[i].gid_type == from->nic->seen.gid[way->grh.sgid_index].gid_type;
    return false;
}

/* The queue pair that hears what `qp` sends; NULL: nobody answers. */
static struct fake_qp *route(const struct fake_qp *qp)
{
    struct fake_qp *to = fake_qp_find(qp->attr.dest_qp_num);

    if (to == NULL || !qp_hears(to) || to->attr.dest_qp_num != qp->qp.qp_num ||
        qp->nic->seen.lost || to->nic->seen.lost || !way_leads_to(qp, to))
        return NULL;
    fake_require(qp->attr.sq_psn == to->attr.rq_psn && qp->attr.path_mtu == to->attr.path_mtu,
                 "both sides of a connection with the same PSN and MTU");
    fake_require(qp->attr.max_rd_atomic <= to->attr.max_dest_rd_atomic,
                 "no more READs than the other side takes");
    return to;
}

static enum ibv_wc_status local_check(const struct fake_qp *qp, const struct fake_wr *wr,
                                      unsigned access)
{
    if ((wr->wr.send_flags & IBV_SEND_INLINE) != 0 || wr->sge.length == 0)
        return IBV_WC_SUCCESS;
    return fake_mr_find(qp->qp.pd, wr->sge.lkey, wr->sge.addr, wr->sge.length, access) != NULL
               ? IBV_WC_SUCCESS
               : IBV_WC_LOC_PROT_ERR;
}

static enum ibv_wc_status remote_check(struct fake_qp *to, const struct fake_wr *wr,
                                       unsigned access)
{
    if (fake_mr_find(to->qp.pd, wr->wr.wr.rdma.rkey, wr->wr.wr.rdma.remote_addr, wr->sge.length,
                     access) != NULL)
        return IBV_WC_SUCCESS;
    return responder_breaks(to, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
}

static void reads_land(struct fake_qp *qp)
{
    list_each (node, following, &qp->sends) {
        struct fake_wr *wr = list_entry(node, struct fake_wr, link);

        if (wr->state != FAKE_WR_READING)
            continue;
        bytes_copy(wr->sge.addr, (uintptr_t)wr->bytes, wr->sge.length);
        wr->state = FAKE_WR_DONE;
    }
}

/* The bytes of now, which land later. */
static void read_begin(struct fake_wr *wr)
{
    wr->bytes = malloc(wr->sge.length > 0 ? wr->sge.length : 1);
    bytes_copy((uintptr_t)wr->bytes, wr->wr.wr.rdma.remote_addr, wr->sge.length);
    wr->state = FAKE_WR_READING;
}

static enum ibv_wc_status wr_execute(struct fake_qp *qp, struct fake_wr *wr)
{
    const bool read = wr->wr.opcode == IBV_WR_RDMA_READ;
    enum ibv_wc_status status = qp->break_next;
    struct fake_qp *to;

    if (status == IBV_WC_SUCCESS)
        status = local_check(qp, wr, read ? IBV_ACCESS_LOCAL_WRITE : 0);
    if (status != IBV_WC_SUCCESS)
        return status;
    to = route(qp);
    if (to == NULL)
        return IBV_WC_RETRY_EXC_ERR;
    if (wr->wr.opcode == IBV_WR_SEND) {
        status =
            deliver(to, wr->bytes != NULL ? (uintptr_t)wr->bytes : wr->sge.addr, wr->sge.length);
        fake_require(status != IBV_WC_RNR_RETRY_EXC_ERR, "a SEND that finds no receive buffer");
        return status;
    }
    status = remote_check(to, wr, read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    if (status == IBV_WC_SUCCESS && read)
        read_begin(wr);
    else if (status == IBV_WC_SUCCESS)
        bytes_copy(wr->wr.wr.rdma.remote_addr, wr->sge.addr, wr->sge.length);
    return status;
}

static void wr_complete(struct fake_qp *qp, struct fake_wr *wr)
{
    static const enum ibv_wc_opcode opcodes[] = {[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
                                                 [IBV_WR_SEND] = IBV_WC_SEND,
                                                 [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ};
    const struct ibv_wc wc = {.wr_id = wr->wr.wr_id,
                              .status = wr->status,
                              .opcode = opcodes[wr->wr.opcode],
                              .qp_num = qp->qp.qp_num};

    list_remove(&wr->link);
    if (wr->status != IBV_WC_SUCCESS || (wr->wr.send_flags & IBV_SEND_SIGNALED) != 0)
        cqe_push(qp->qp.send_cq, &wc, qp->serial, wr->index + 1);
    free(wr->bytes);
    free(wr);
}

static void done_complete(struct fake_qp *qp)
{
    while (!list_empty(&qp->sends)) {
        struct fake_wr *wr = list_entry(qp->sends.next, struct fake_wr, link);

        if (wr->state != FAKE_WR_DONE)
            return;
        wr_complete(qp, wr);
    }
}

void fake_qp_flush(struct fake_qp *qp)
{
    done_complete(qp);
    while (!list_empty(&qp->sends)) {
        struct fake_wr *wr = list_entry(qp->sends.next, struct fake_wr, link);

        wr->status = IBV_WC_WR_FLUSH_ERR;
        wr_complete(qp, wr);
    }
    while (!list_empty(&qp->receives)) {
        struct fake_receive *receive = receive_take(qp);

        received(qp, receive, IBV_WC_WR_FLUSH_ERR, 0);
        free(receive);
    }
}

/* Executes up to `most` work requests; returns how many it did. */
static unsigned qp_run(struct fake_qp *qp, unsigned most)
{
    unsigned done = 0;

    list_each (node, following, &qp->sends) {
        struct fake_wr *wr = list_entry(node, struct fake_wr, link);

        if (done == most || qp->qp.state != IBV_QPS_RTS)
            break;
        done++;
        if ((wr->wr.send_flags & IBV_SEND_FENCE) != 0)
            reads_land(qp);
        wr->status = wr_execute(qp, wr);
        if (wr->state != FAKE_WR_READING)
            wr->state = FAKE_WR_DONE;
        if (wr->status == IBV_WC_SUCCESS)
            continue;
        reads_land(qp);
        qp_error(qp);
        return done;
    }
    reads_land(qp);
    done_complete(qp);
    return done;
}

static void cq_pace(struct ibv_cq *cq)
{
    struct fake_nic *nic = fake_nic_of(cq->context);

    list_each (node, following, &nic->qps) {
        struct fake_qp *qp = list_entry(node, struct fake_qp, member);

        if (qp->qp.send_cq == cq)
            qp_run(qp, nic->seen.pace);
    }
}

int fake_poll_cq(struct ibv_cq *base, int count, struct ibv_wc *wc)
{
    struct fake_nic *nic = fake_nic_of(base->context);
    struct fake_cq *cq = fake_cq_of(base);
    unsigned taken = 0;

    pthread_mutex_lock(&fake_lock);
    if (nic->seen.pace > 0 && !nic->seen.held)
        cq_pace(base);
    while (!nic->seen.silent && taken < (unsigned)count && taken < cq->count) {
        const struct fake_cqe *entry = &cq->ring[taken];
        struct fake_qp *qp = qp_of_serial(nic, entry->serial);

        wc[taken++] = entry->wc;
        if (qp != NULL && entry->retires > qp->retired)
            qp->retired = entry->retires;
    }
    cq->count -= taken;
    memmove(cq->ring, cq->ring + taken, cq->count * sizeof(*cq->ring));
    pthread_mutex_unlock(&fake_lock);
    return (int)taken;
}

void fake_step(struct fake_device *device, unsigned count)
{
    struct fake_nic *nic = list_entry(device, struct fake_nic, seen);

    list_each (node, following, &nic->qps) {
        count -= qp_run(list_entry(node, struct fake_qp, member), count);
    }
}

void fake_release(struct fake_device *device)
{
    device->held = false;
    fake_step(device, UINT32_MAX);
}

/* ---- posting ---- */

static void wr_check(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    const unsigned known = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_INLINE;

    fake_require(wr->num_sge == 1 && (wr->send_flags & ~known) == 0, "one range and known flags");
    fake_require(wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_RDMA_WRITE ||
                     wr->opcode == IBV_WR_RDMA_READ,
                 "an operation that is in use");
    fake_require(qp->posted - qp->retired < qp->cap.max_send_wr, "room in the send queue");
    if ((wr->send_flags & IBV_SEND_INLINE) != 0)
        fake_require(wr->opcode != IBV_WR_RDMA_READ &&
                         wr->sg_list->length <= qp->cap.max_inline_data,
                     "inline data that fits");
}

static void wr_add(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct fake_wr *added = calloc(1, sizeof(*added));
    struct fake_list *last = &qp->last;

    wr_check(qp, wr);
    added->wr = *wr;
    added->sge = *wr->sg_list;
    added->index = qp->posted++;
    if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
        added->bytes = malloc(added->sge.length > 0 ? added->sge.length : 1);
        memcpy(added->bytes, (const void *)(uintptr_t)added->sge.addr, added->sge.length);
    }
    list_append(&qp->sends, &added->link);
    last->flags[last->count] = wr->send_flags;
    last->opcode[last->count] = wr->opcode;
    last->length[last->count++] = added->sge.length;
}

int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *qp = fake_qp_of(base);
    struct fake_device *seen = &qp->nic->seen;

    *bad = wr;
    if (fake_fails(qp->nic, FAKE_POST_SEND))
        return errno;
    fake_require(base->state == IBV_QPS_RTS || base->state == IBV_QPS_ERR,
                 "a queue pair that sends");
    pthread_mutex_lock(&fake_lock);
    seen->posts++;
    qp->last.count = 0;
    for (; wr != NULL; wr = wr->next) {
        seen->work_requests++;
        seen->signalled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
        seen->inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
        seen->fenced += (wr->send_flags & IBV_SEND_FENCE) != 0;
        wr_add(qp, wr);
    }
    if (qp->last.count > seen->list_most)
        seen->list_most = qp->last.count;
    if (base->state == IBV_QPS_ERR)
        fake_qp_flush(qp);
    else if (!seen->held && seen->pace == 0)
        qp_run(qp, UINT32_MAX);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* ---- memory in use ---- */

static bool receives_use(const struct list *queue, uint32_t lkey)
{
    list_each (node, following, queue) {
        if (list_entry(node, struct fake_receive, link)->sge.lkey == lkey)
            return true;
    }
    return false;
}

static bool wr_uses(const struct fake_qp *qp, const struct fake_wr *wr, const struct ibv_mr *mr)
{
    const struct fake_qp *to;

    if (wr->state == FAKE_WR_DONE)
        return false;
    if (qp->qp.pd == mr->pd && wr->sge.lkey == mr->lkey &&
        (wr->wr.send_flags & IBV_SEND_INLINE) == 0)
        return true;
    if (wr->wr.opcode == IBV_WR_SEND || wr->wr.wr.rdma.rkey != mr->rkey)
        return false;
    to = route(qp);
    return to != NULL && to->qp.pd == mr->pd;
}

static bool qp_uses(const struct fake_qp *qp, const struct ibv_mr *mr)
{
    list_each (node, following, &qp->sends) {
        if (wr_uses(qp, list_entry(node, struct fake_wr, link), mr))
            return true;
    }
    return qp->qp.pd == mr->pd &&
           receives_use(qp->qp.srq != NULL ? &fake_srq_of(qp->qp.srq)->posted : &qp->receives,
                        mr->lkey);
}

bool fake_mr_used(const struct ibv_mr *mr)
{
    for (unsigned i = 0; i < FAKE_NICS; i++) {
        if (!fake_nics[i].open)
            continue;
        list_each (node, following, &fake_nics[i].qps) {
            if (qp_uses(list_entry(node, struct fake_qp, member), mr))
                return true;
        }
    }
    return false;
}
