#include "worker/fabric/verbs/nic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "worker/fabric/verbs/link.h"
#include "worker/fabric/verbs/mr.h"

/* A quarter of the receive buffers goes to the first peers in generous windows, the rest in windows
 * that just keep a long notification moving: 32 + 1024 endpoints of 8192 buffers. */
#define WINDOW_GENEROUS 64u
#define WINDOW_LEAST    6u
#define SRQ_ALARM       16 /* buffers left: a peer ignores its credit */

/* ---- receive buffers ---- */

int verbs_receive_post(struct verbs_nic *nic, const struct verbs_qp *qp,
                       struct verbs_buffer *buffer)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)buffer->bytes, .length = VERBS_BUFFER_SIZE, .lkey = buffer->lkey};
    struct ibv_recv_wr *bad,
        wr = {.wr_id = verbs_wr_id(VERBS_WR_RECEIVE, buffer->generation, buffer->index),
              .sg_list = &sge,
              .num_sge = 1};

    errno = qp == NULL ? ibv_post_srq_recv(nic->srq, &wr, &bad) : ibv_post_recv(qp->qp, &wr, &bad);
    if (errno != 0)
        return TS_ERR_SYSTEM;
    buffer->owner = qp == NULL ? VERBS_POOL_OWNERLESS : qp->slot;
    return TS_OK;
}

int verbs_receive_fill(struct verbs_nic *nic, const struct verbs_qp *qp, uint32_t count)
{
    while (count-- > 0) {
        struct verbs_buffer *buffer = verbs_pool_take(&nic->receive);

        if (buffer == NULL)
            return TS_ERR_NO_MEMORY;
        if (verbs_receive_post(nic, qp, buffer) != TS_OK) {
            verbs_pool_give(&nic->receive, buffer);
            return TS_ERR_SYSTEM;
        }
    }
    return TS_OK;
}

void verbs_receive_reclaim(struct verbs_nic *nic, uint32_t slot)
{
    for (uint32_t i = 0; i < nic->receive.total; i++) {
        struct verbs_buffer *buffer = verbs_pool_at(&nic->receive, i);

        if (buffer->owner != slot)
            continue;
        /* A completion of it that is still to come must not give it back once more. */
        buffer->generation = (buffer->generation + 1) & VERBS_GENERATION_MASK;
        verbs_pool_give(&nic->receive, buffer);
    }
}

/* One chunk more, its completions charged where the queue is shared. */
static int receive_grow(struct verbs_nic *nic, char *text, size_t text_size)
{
    int rc = TS_OK;

    if (nic->srq != NULL)
        rc = verbs_cq_charge(nic, &nic->notify_cq, VERBS_POOL_CHUNK, text, text_size);
    if (rc != TS_OK)
        return rc;
    rc = verbs_pool_grow(&nic->receive);
    if (rc == TS_OK) {
        atomic_set(&nic->worker->stats->rdma_pool_bytes,
                   (uint64_t)(nic->receive.total + nic->send.total) * VERBS_BUFFER_SIZE);
        return TS_OK;
    }
    snprintf(text, text_size, "%s: no more receive buffers: %s (memlock: LimitMEMLOCK=infinity)",
             nic->name, rc == TS_ERR_LIMIT ? "the pool is at its limit" : strerror(errno));
    if (nic->srq != NULL)
        verbs_cq_refund(nic, &nic->notify_cq, VERBS_POOL_CHUNK);
    return rc;
}

/* The shared queue gets all there are: one that it refused before, too. */
static int receive_provide(struct verbs_nic *nic, uint32_t count, char *text, size_t text_size)
{
    struct verbs_pool *pool = &nic->receive;

    while (pool->total < count)
        if (receive_grow(nic, text, text_size) != TS_OK)
            return TS_ERR_LIMIT;
    if (nic->srq == NULL || verbs_receive_fill(nic, NULL, pool->free_count) == TS_OK)
        return TS_OK;
    snprintf(text, text_size, "%s: cannot post a receive buffer: %s", nic->name, strerror(errno));
    return TS_ERR_SYSTEM;
}

uint32_t verbs_window_reserve(struct verbs_nic *nic, char *text, size_t text_size)
{
    uint32_t limit = nic->receive.limit, left = limit - nic->window_reserved;
    uint32_t window = left > limit / 4 * 3 ? WINDOW_GENEROUS : WINDOW_LEAST;

    if (window > left) {
        snprintf(text, text_size, "%s: all %u receive buffers are promised to other peers",
                 nic->name, limit);
        return 0;
    }
    if (receive_provide(nic, nic->window_reserved + window, text, text_size) != TS_OK)
        return 0;
    /* Who is promised buffers also needs one to answer from: better known now than at the first
     * packet. */
    if (nic->send.total == 0 && verbs_pool_grow(&nic->send) != TS_OK) {
        snprintf(text, text_size, "%s: no send buffers: %s (memlock: LimitMEMLOCK=infinity)",
                 nic->name, strerror(errno));
        return 0;
    }
    nic->window_reserved += window;
    return window;
}

void verbs_window_release(struct verbs_nic *nic, uint32_t window)
{
    nic->window_reserved -= window;
}

/* ---- life ---- */

/* The loop polls in its next turn; what rang is read before it sleeps again, off the way of what
 * came. */
static void on_completions(struct source *source, uint32_t events)
{
    (void)events;
    list_entry(source, struct verbs_nic, completions)->rung = true;
}

static void rung_read(struct verbs_nic *nic)
{
    struct ibv_cq *cq;
    void *ours;

    nic->rung = false;
    while (ibv_get_cq_event(nic->channel, &cq, &ours) == 0) {
        struct verbs_cq *rung = ours;

        rung->events++;
        rung->armed = false;
    }
}

static void nonblocking(int fd)
{
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Not all devices have shared receive queues; then each notification QP has one of its own. */
static void srq_open(struct verbs_nic *nic)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = VERBS_RECEIVE_MAX, .max_sge = 1}};
    struct ibv_srq_attr alarm = {.srq_limit = SRQ_ALARM};

    if (nic->attr.max_srq_wr < (int)init.attr.max_wr)
        init.attr.max_wr = (uint32_t)nic->attr.max_srq_wr / VERBS_POOL_CHUNK * VERBS_POOL_CHUNK;
    if (nic->attr.max_srq <= 0 || init.attr.max_wr == 0)
        return;
    nic->srq = ibv_create_srq(nic->pd, &init);
    if (nic->srq == NULL)
        return;
    nic->receive.limit = nic->receive.limit < init.attr.max_wr
                             ? nic->receive.limit
                             : init.attr.max_wr / VERBS_POOL_CHUNK * VERBS_POOL_CHUNK;
    (void)ibv_modify_srq(nic->srq, &alarm, IBV_SRQ_LIMIT); /* an alarm, no need */
}

static int nic_open_queues(struct verbs_nic *nic, char *text, size_t text_size)
{
    int rc;

    nic->channel = ibv_create_comp_channel(nic->device);
    if (nic->channel == NULL) {
        snprintf(text, text_size, "%s: no completion channel: %s", nic->name, strerror(errno));
        return TS_ERR_SYSTEM;
    }
    nonblocking(nic->channel->fd);
    nonblocking(nic->device->async_fd);
    rc = verbs_cq_create(nic, &nic->data_cq, "data", text, text_size);
    if (rc == TS_OK)
        rc = verbs_cq_create(nic, &nic->notify_cq, "notification", text, text_size);
    if (rc == TS_OK)
        rc = verbs_pool_init(&nic->receive, nic->pd, VERBS_RECEIVE_MAX);
    if (rc == TS_OK)
        rc = verbs_pool_init(&nic->send, nic->pd, VERBS_SEND_MAX);
    if (rc == TS_OK)
        srq_open(nic);
    return rc;
}

int verbs_open(struct worker *worker, char *text, size_t text_size)
{
    struct verbs_nic *nic = calloc(1, sizeof(*nic));
    int rc;

    if (nic == NULL)
        return TS_ERR_NO_MEMORY;
    nic->worker = worker;
    nic->completions.fd = nic->events.fd = -1;
    list_init(&nic->links);
    list_init(&nic->mrs);
    list_init(&nic->ways);
    rc = verbs_device_open(nic, worker->config.device, text, text_size);
    if (rc != TS_OK)
        goto err_free;
    rc = nic_open_queues(nic, text, text_size);
    if (rc != TS_OK)
        goto err_close;
    nic->completions = (struct source){.fd = nic->channel->fd, .ready = on_completions};
    nic->events = (struct source){.fd = nic->device->async_fd, .ready = verbs_on_async};
    rc = TS_ERR_SYSTEM;
    if (reactor_watch(&worker->reactor, &nic->completions, REACTOR_NEWS) < 0 ||
        reactor_watch(&worker->reactor, &nic->events, EPOLLIN) < 0)
        goto err_close;
    worker->verbs = nic;
    return TS_OK;

err_close:
    worker->verbs = nic;
    verbs_shut(worker);
    return rc;
err_free:
    free(nic);
    return rc;
}

void verbs_shut(struct worker *worker)
{
    struct verbs_nic *nic = worker->verbs;

    if (nic == NULL)
        return;
    verbs_ways_close(nic);
    verbs_registrar_close(nic);
    reactor_watch(&worker->reactor, &nic->completions, 0);
    reactor_watch(&worker->reactor, &nic->events, 0);
    if (nic->srq != NULL)
        ibv_destroy_srq(nic->srq);
    verbs_cq_destroy(&nic->notify_cq);
    verbs_cq_destroy(&nic->data_cq);
    verbs_pool_fini(&nic->send);
    verbs_pool_fini(&nic->receive);
    if (nic->channel != NULL)
        ibv_destroy_comp_channel(nic->channel);
    verbs_device_close(nic);
    free(nic->slots);
    free(nic);
    worker->verbs = NULL;
}

int verbs_poll(struct worker *worker)
{
    return verbs_poll_once(worker->verbs);
}

/* A system call on some devices, so not without need. A failure costs the wake-up: the heartbeat's
 * poll finds what came. */
static void cq_arm(struct verbs_cq *cq)
{
    if (!cq->armed)
        cq->armed = ibv_req_notify_cq(cq->cq, 0) == 0;
}

bool verbs_arm(struct worker *worker)
{
    struct verbs_nic *nic = worker->verbs;

    if (nic->rung)
        rung_read(nic);
    cq_arm(&nic->data_cq);
    cq_arm(&nic->notify_cq);
    return verbs_poll_once(nic) > 0; /* what came before both were armed rings nobody */
}
