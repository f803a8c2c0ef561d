#include "worker/fabric/verbs/stall.h"

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/fabric/verbs/link.h"

#define LOOK_NS   CLOCK_NS_PER_S
#define PER_BYTES (UINT64_C(64) << 10) /* 64 packets of 1024 bytes: two in three meet one loss */

/* What the next completion stands for: up to the first work request that is signalled. */
static uint64_t bytes_awaited(const struct verbs_qp *qp)
{
    uint32_t end = qp->head - qp->staged;
    uint64_t bytes = 0;

    for (uint32_t i = qp->tail; i != end; i++) {
        bytes += qp->sge[i % VERBS_QP_DEPTH].length;
        if (qp->wr[i % VERBS_QP_DEPTH].send_flags & IBV_SEND_SIGNALED)
            break;
    }
    return bytes;
}

uint64_t verbs_stall_limit_ns(const struct verbs_qp *qp)
{
    const struct proto_rdma *config = &qp->nic->worker->config.rdma;
    uint64_t packet_ns = UINT64_C(4096) << config->timeout; /* until it is sent again */
    uint64_t packets = (config->retries + 1) * 2;

    if (!qp->nic->port_down) /* else nothing is slow: nothing passes */
        packets += bytes_awaited(qp) / PER_BYTES;
    return packet_ns * packets + CLOCK_NS_PER_S;
}

static bool qp_is_stalled(struct verbs_qp *qp, uint64_t now)
{
    struct verbs_stall *stall = &qp->stall;

    if (verbs_qp_is_quiet(qp) || qp->tail != stall->tail || stall->since_ns == 0) {
        stall->tail = qp->tail;
        stall->since_ns = now;
    }
    return now - stall->since_ns > verbs_stall_limit_ns(qp);
}

void verbs_stalls_find(struct verbs_nic *nic)
{
    uint64_t now = nic->worker->now;

    if (now - nic->looked_ns < LOOK_NS)
        return;
    nic->looked_ns = now;
    for (uint32_t i = 0; i < nic->slot_count; i++) {
        struct verbs_qp *qp = nic->slots[i].qp;
        char text[PROTO_TEXT_MAX];

        if (qp == NULL || qp->broken || !qp_is_stalled(qp, now))
            continue;
        verbs_qp_explain(qp, "the device neither completes nor fails its work requests", text,
                         sizeof(text));
        verbs_link_fail(qp->link, TS_ERR_UNREACHABLE, "%s", text);
    }
}
