#include "worker/fabric/verbs/renew.h"

#include <stdio.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/fabric/verbs/link.h"

#define DRAIN_MS 200  /* for flushed work requests to be seen; their QP is destroyed in any case */
#define PAUSE_MS 1000 /* one that fails sooner again does not get better by being replaced */

enum renew_event {
    EVENT_BROKE,     /* here */
    EVENT_TOLD,      /* at the peer */
    EVENT_DRAINED,   /* no work request of it is left */
    EVENT_OFFERED,   /* the peer's new one is known */
    EVENT_CONFIRMED, /* and can receive */
    EVENT_COUNT
};

/* TS_OK, TS_ERR_PROTOCOL for what no honest peer says; other errors have ended the link. */
typedef int renew_action(struct verbs_qp *qp, const char *text);

static void renew_wait(struct verbs_link *link, struct timer *timer, uint64_t ms)
{
    timer_set(&link->nic->worker->timers, timer, clock_now() + ms * CLOCK_NS_PER_MS);
}

static void renew_tell(const struct verbs_qp *qp, enum frame_type type)
{
    struct verbs_link *link = qp->link;
    struct frame frame = {
        .type = (uint8_t)type, .open = qp->renewal.index, .offset = qp->renewal.epoch};

    if (type == FRAME_RENEW) {
        frame.request = qp->qp->qp_num;
        frame.region = qp->renewal.psn;
        frame.value = qp->notify ? link->stream.sequence_in : 0;
    }
    if (link->carrier->ops->send(link->carrier, &frame, NULL, 0, NULL, 0) != TS_OK)
        verbs_link_fail(link, TS_ERR_NO_MEMORY, "no memory to replace a queue pair");
}

static bool renew_is_over(const struct verbs_link *link)
{
    for (uint32_t i = 0; i < link->data_count; i++)
        if (link->data[i]->renewal.state != RENEW_LIVE)
            return false;
    return link->notify == NULL || link->notify->renewal.state == RENEW_LIVE;
}

/* ---- the table ---- */

/* Bytes of a transfer, with its notification behind them: that cannot be told apart here. */
static bool renew_has_slices(const struct verbs_qp *qp)
{
    for (uint32_t i = qp->tail; i != qp->head; i++)
        if (qp->entry[i % VERBS_QP_DEPTH].kind == VERBS_POSTED_SLICE)
            return true;
    return false;
}

static int act_give_up(struct verbs_qp *qp, const char *text)
{
    verbs_link_fail(qp->link, TS_ERR_UNREACHABLE, "%s", text);
    return TS_OK;
}

static int act_stop(struct verbs_qp *qp, const char *text)
{
    struct verbs_link *link = qp->link;
    struct worker *worker = link->nic->worker;
    bool again = clock_now() < qp->renewal.pause_until;

    if (!link->linked || !link->peer_renews || again || (qp->notify && renew_has_slices(qp)))
        return act_give_up(qp, text);
    worker_error(worker, &worker->peer_limit, "%s; it is replaced", text);
    verbs_qp_stop(qp);
    qp->renewal.offered = false;
    qp->renewal.state = RENEW_DRAINING;
    renew_wait(link, &link->draining, DRAIN_MS);
    if (!timer_is_set(&link->renewing))
        renew_wait(link, &link->renewing, worker->config.connect_ms);
    link_wake(&link->link);
    return TS_OK;
}

static int act_stop_and_tell(struct verbs_qp *qp, const char *text)
{
    int rc = act_stop(qp, text);

    if (qp->renewal.state == RENEW_DRAINING)
        renew_tell(qp, FRAME_BROKEN);
    return rc;
}

/* Nothing of the old ones can land any more. */
static void renew_settle(struct verbs_link *link)
{
    if (!verbs_renew_is_pending(link))
        verbs_moves_settle(link);
}

static int act_connect(struct verbs_qp *qp, const char *text)
{
    struct verbs_link *link = qp->link;
    struct verbs_path path = link->path;
    char why[PROTO_TEXT_MAX];

    (void)text;
    if (qp->notify && !verbs_stream_may_resume(link, qp->renewal.peer_received))
        return TS_ERR_PROTOCOL; /* it forgot what it had acknowledged */
    path.qp = qp->renewal.peer_qp;
    path.psn = qp->renewal.peer_psn;
    path.own_psn = qp->renewal.psn;
    if (verbs_qp_connect(qp, &path, why, sizeof(why)) != TS_OK)
        return act_give_up(qp, why);
    qp->renewal.state = RENEW_READY;
    renew_tell(qp, FRAME_RENEWED);
    renew_settle(link);
    return TS_OK;
}

static int act_replace(struct verbs_qp *qp, const char *text)
{
    struct verbs_link *link = qp->link;
    uint64_t until = clock_now() + DRAIN_MS * CLOCK_NS_PER_MS;
    char why[PROTO_TEXT_MAX];

    (void)text;
    /* All that came must be counted before the peer is told how much that was. */
    while (verbs_poll_once(link->nic) > 0 && clock_now() < until)
        continue;
    if (verbs_link_is_dead(link))
        return TS_OK;
    if (verbs_qp_renew(qp, why, sizeof(why)) != TS_OK)
        return act_give_up(qp, why);
    handshake_random(&qp->renewal.psn, sizeof(qp->renewal.psn));
    qp->renewal.psn &= HANDSHAKE_QPN_MAX;
    qp->renewal.epoch++;
    qp->renewal.state = RENEW_FRESH;
    renew_tell(qp, FRAME_RENEW);
    return qp->renewal.offered ? act_connect(qp, NULL) : TS_OK;
}

static int act_resume(struct verbs_qp *qp, const char *text)
{
    struct verbs_link *link = qp->link;

    (void)text;
    qp->renewal.state = RENEW_LIVE;
    qp->renewal.pause_until = clock_now() + PAUSE_MS * CLOCK_NS_PER_MS;
    if (renew_is_over(link))
        timer_clear(&link->nic->worker->timers, &link->renewing);
    atomic_count(&link->nic->worker->stats->rdma_renewed, 1);
    if (qp->notify)
        verbs_stream_resume(link, qp->renewal.peer_received);
    endpoint_show_queues(link->link.endpoint);
    link_wake(&link->link);
    return TS_OK;
}

static int act_nothing(struct verbs_qp *qp, const char *text)
{
    (void)qp;
    (void)text;
    return TS_OK;
}

static int act_refuse(struct verbs_qp *qp, const char *text)
{
    (void)qp;
    (void)text;
    return TS_ERR_PROTOCOL;
}

static renew_action *const renew_table[RENEW_STATE_COUNT][EVENT_COUNT] = {
    [RENEW_LIVE] = {[EVENT_BROKE] = act_stop_and_tell,
                    [EVENT_TOLD] = act_stop,
                    [EVENT_DRAINED] = act_nothing,
                    [EVENT_OFFERED] = act_refuse,
                    [EVENT_CONFIRMED] = act_refuse},
    [RENEW_DRAINING] = {[EVENT_BROKE] = act_nothing,
                        [EVENT_TOLD] = act_nothing, /* both noticed it */
                        [EVENT_DRAINED] = act_replace,
                        [EVENT_OFFERED] = act_nothing, /* it waits for ours */
                        [EVENT_CONFIRMED] = act_refuse},
    [RENEW_FRESH] = {[EVENT_BROKE] = act_give_up,
                     [EVENT_TOLD] = act_refuse,
                     [EVENT_DRAINED] = act_nothing,
                     [EVENT_OFFERED] = act_connect,
                     [EVENT_CONFIRMED] = act_refuse},
    [RENEW_READY] = {[EVENT_BROKE] = act_give_up,
                     [EVENT_TOLD] = act_give_up,
                     [EVENT_DRAINED] = act_nothing,
                     [EVENT_OFFERED] = act_refuse,
                     [EVENT_CONFIRMED] = act_resume},
};

static int renew_handle(struct verbs_qp *qp, enum renew_event event, const char *text)
{
    return renew_table[qp->renewal.state][event](qp, text);
}

/* ---- what happens ---- */

void verbs_renew_break(struct verbs_qp *qp, const char *text)
{
    if (!verbs_link_is_dead(qp->link))
        (void)renew_handle(qp, EVENT_BROKE, text);
}

bool verbs_renew_helps(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:     /* no answer: the path is dead for all of them */
    case IBV_WC_RNR_RETRY_EXC_ERR: /* a peer that gives credit it has no buffers for */
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_LOC_LEN_ERR: /* of a receive: a packet that no honest peer sends */
    case IBV_WC_FATAL_ERR:
        return false;
    default:
        return true;
    }
}

static bool renew_is_exchanged(const struct verbs_qp *qp)
{
    return qp->renewal.state == RENEW_LIVE || qp->renewal.state == RENEW_READY;
}

bool verbs_renew_is_pending(const struct verbs_link *link)
{
    for (uint32_t i = 0; i < link->data_count; i++)
        if (!renew_is_exchanged(link->data[i]))
            return true;
    return link->notify != NULL && !renew_is_exchanged(link->notify);
}

static void renew_look(struct verbs_qp *qp, bool in_any_case)
{
    if (qp->renewal.state != RENEW_DRAINING || (!verbs_qp_is_quiet(qp) && !in_any_case))
        return;
    if (renew_handle(qp, EVENT_DRAINED, NULL) != TS_OK)
        verbs_link_fail(qp->link, TS_ERR_PROTOCOL,
                        "the peer did not receive packets that it had acknowledged");
}

static void renew_look_at_all(struct verbs_link *link, bool in_any_case)
{
    for (uint32_t i = 0; i < link->data_count && !verbs_link_is_dead(link); i++)
        renew_look(link->data[i], in_any_case);
    if (link->notify != NULL && !verbs_link_is_dead(link))
        renew_look(link->notify, in_any_case);
}

void verbs_renew_step(struct verbs_link *link)
{
    if (!timer_is_set(&link->renewing))
        return;
    if (link->nic->polling) /* what came must be taken first, and its taker is our caller */
        link_wake(&link->link);
    else
        renew_look_at_all(link, false);
}

static void renew_on_drain_time(struct timer *timer)
{
    renew_look_at_all(list_entry(timer, struct verbs_link, draining), true);
}

static void renew_on_time(struct timer *timer)
{
    verbs_link_fail(list_entry(timer, struct verbs_link, renewing), TS_ERR_TIMEOUT,
                    "the peer did not replace a queue pair in time");
}

void verbs_renew_init(struct verbs_link *link)
{
    link->draining.fire = renew_on_drain_time;
    link->renewing.fire = renew_on_time;
}

void verbs_renew_fini(struct verbs_link *link)
{
    timer_clear(&link->nic->worker->timers, &link->draining);
    timer_clear(&link->nic->worker->timers, &link->renewing);
}

/* ---- the peer's words ---- */

static struct verbs_qp *renew_find(const struct verbs_link *link, uint32_t index)
{
    if (index == VERBS_RENEW_NOTIFY)
        return link->notify;
    return index < link->data_count ? link->data[index] : NULL;
}

static int renew_on_broken(struct verbs_qp *qp, uint64_t epoch)
{
    const struct verbs_renewal *renewal = &qp->renewal;
    char text[PROTO_TEXT_MAX];

    /* Both noticed it, and we were done with the old one before we heard. */
    if (renewal->state == RENEW_FRESH && epoch == (uint16_t)(renewal->epoch - 1))
        return TS_OK;
    if (epoch != renewal->epoch)
        return TS_ERR_PROTOCOL;
    verbs_qp_explain(qp, "the peer's end of it failed", text, sizeof(text));
    return renew_handle(qp, EVENT_TOLD, text);
}

static int renew_on_offer(struct verbs_qp *qp, const struct frame *frame)
{
    struct verbs_renewal *renewal = &qp->renewal;
    uint16_t next = (uint16_t)(renewal->epoch + (renewal->state == RENEW_DRAINING ? 1 : 0));

    if (frame->offset != next || renewal->offered || frame->request == 0 ||
        frame->request > HANDSHAKE_QPN_MAX || frame->region > HANDSHAKE_QPN_MAX ||
        frame->value > UINT32_MAX)
        return TS_ERR_PROTOCOL;
    renewal->offered = true;
    renewal->peer_qp = frame->request;
    renewal->peer_psn = frame->region;
    renewal->peer_received = (uint32_t)frame->value;
    return renew_handle(qp, EVENT_OFFERED, NULL);
}

int verbs_renew_on_frame(struct verbs_link *link, const struct frame *frame)
{
    struct verbs_qp *qp = renew_find(link, frame->open);

    if (qp == NULL || !link->peer_renews)
        return TS_ERR_PROTOCOL;
    if (verbs_link_is_dead(link))
        return TS_OK;
    switch (frame->type) {
    case FRAME_BROKEN:
        return renew_on_broken(qp, frame->offset);
    case FRAME_RENEW:
        return renew_on_offer(qp, frame);
    default: /* RENEWED */
        return frame->offset == qp->renewal.epoch ? renew_handle(qp, EVENT_CONFIRMED, NULL)
                                                  : TS_ERR_PROTOCOL;
    }
}
