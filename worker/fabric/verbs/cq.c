#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "worker/fabric/verbs/nic.h"

#define CQ_FIRST 256

static void cq_show(struct verbs_nic *nic, const struct verbs_cq *cq)
{
    struct counters_worker_stats *stats = nic->worker->stats;

    if (cq != &nic->notify_cq)
        return;
    atomic_set(&stats->notify_cq_used, cq->charged);
    atomic_set(&stats->notify_cq_capacity, (uint64_t)cq->cq->cqe);
}

int verbs_cq_create(struct verbs_nic *nic, struct verbs_cq *cq, const char *name, char *text,
                    size_t text_size)
{
    int entries = nic->attr.max_cqe < CQ_FIRST ? nic->attr.max_cqe : CQ_FIRST;

    *cq = (struct verbs_cq){.name = name};
    cq->cq = ibv_create_cq(nic->device, entries, cq, nic->channel, 0);
    if (cq->cq == NULL) {
        snprintf(text, text_size, "%s: no %s completion queue of %d entries: %s", nic->name, name,
                 entries, strerror(errno));
        return TS_ERR_SYSTEM;
    }
    cq_show(nic, cq);
    return TS_OK;
}

void verbs_cq_destroy(struct verbs_cq *cq)
{
    if (cq->cq == NULL)
        return;
    ibv_ack_cq_events(cq->cq, cq->events);
    ibv_destroy_cq(cq->cq);
    cq->cq = NULL;
}

/* Twice as large, for fewer steps; exactly what is needed where that is refused. */
static int cq_grow(const struct verbs_nic *nic, struct verbs_cq *cq, uint32_t need)
{
    uint32_t most = (uint32_t)nic->attr.max_cqe, want = need;

    if (want < 2 * (uint32_t)cq->cq->cqe)
        want = 2 * (uint32_t)cq->cq->cqe;
    if (want > most)
        want = most;
    if (ibv_resize_cq(cq->cq, (int)want) == 0)
        return 0;
    return ibv_resize_cq(cq->cq, (int)need);
}

int verbs_cq_charge(struct verbs_nic *nic, struct verbs_cq *cq, uint32_t entries, char *text,
                    size_t text_size)
{
    uint32_t need = cq->charged + entries;
    int rc;

    if (need > (uint32_t)nic->attr.max_cqe) {
        snprintf(text, text_size,
                 "%s: the %s completion queue is full: %u entries in use, %u more needed, the "
                 "device allows %d",
                 nic->name, cq->name, cq->charged, entries, nic->attr.max_cqe);
        return TS_ERR_LIMIT;
    }
    if (need > (uint32_t)cq->cq->cqe) {
        rc = cq_grow(nic, cq, need);
        if (rc != 0) {
            snprintf(text, text_size,
                     "%s: the %s completion queue cannot grow from %d to %u entries: %s", nic->name,
                     cq->name, cq->cq->cqe, need, strerror(rc > 0 ? rc : errno));
            return TS_ERR_LIMIT;
        }
    }
    cq->charged = need;
    cq_show(nic, cq);
    return TS_OK;
}

void verbs_cq_refund(struct verbs_nic *nic, struct verbs_cq *cq, uint32_t entries)
{
    cq->charged -= entries;
    cq_show(nic, cq);
}
