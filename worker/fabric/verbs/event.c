/* Asynchronous events: each has a reaction, a counter and a line in `tesup status --errors`. */
#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "worker/fabric/verbs/link.h"

static void event_tell(struct verbs_nic *nic, const struct ibv_async_event *event, const char *what)
{
    struct worker *worker = nic->worker;

    worker_error(worker, &worker->peer_limit, "%s: %s%s%s", nic->name,
                 ibv_event_type_str(event->event_type), what[0] != '\0' ? ": " : "", what);
}

static bool link_has_gid(const struct verbs_link *link)
{
    const struct verbs_nic *nic = link->nic;

    for (uint32_t i = 0; i < nic->gid_count; i++)
        if (memcmp(nic->gid[i].gid.raw, link->mine.gid[0], sizeof(link->mine.gid[0])) == 0)
            return true;
    return false;
}

/* Packets of an address that is gone get no answer: the link need not wait for its retries. */
static void on_gid_change(struct verbs_nic *nic, const struct ibv_async_event *event)
{
    char text[PROTO_TEXT_MAX] = "";

    (void)verbs_gids_read(nic, text, sizeof(text));
    event_tell(nic, event, text);
    list_each (node, following, &nic->links) {
        struct verbs_link *link = list_entry(node, struct verbs_link, member);

        if (link->linked && !link_has_gid(link))
            verbs_link_fail(link, TS_ERR_UNREACHABLE, "%s lost the address of this connection",
                            nic->name);
    }
}

static void on_port(struct verbs_nic *nic, const struct ibv_async_event *event)
{
    char text[PROTO_TEXT_MAX] = "";

    if (event->element.port_num != nic->port)
        return;
    if (ibv_query_port(nic->device, nic->port, &nic->port_attr) == 0)
        nic->port_down = nic->port_attr.state != IBV_PORT_ACTIVE;
    (void)verbs_gids_read(nic, text, sizeof(text));
    event_tell(nic, event,
               nic->port_down ? "no new connections until it is active; those there try on" : "");
}

static void on_queue_pair(struct verbs_nic *nic, const struct ibv_async_event *event)
{
    for (uint32_t i = 0; i < nic->slot_count; i++) {
        struct verbs_qp *qp = nic->slots[i].qp;
        char text[PROTO_TEXT_MAX];

        if (qp == NULL || qp->qp != event->element.qp)
            continue;
        verbs_qp_explain(qp, ibv_event_type_str(event->event_type), text, sizeof(text));
        verbs_renew_break(qp, text);
    }
}

/* Nothing of this nic can be trusted any more: a fresh process opens it anew. */
static void on_fatal(struct verbs_nic *nic, const struct ibv_async_event *event)
{
    event_tell(nic, event, "this worker ends and is started again");
    nic->worker->stop = nic->worker->broken = true;
}

static void event_handle(struct verbs_nic *nic, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        on_port(nic, event);
        break;
    case IBV_EVENT_GID_CHANGE:
        on_gid_change(nic, event);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        on_queue_pair(nic, event);
        break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
        on_fatal(nic, event);
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        event_tell(nic, event, "receive buffers run out: a peer sends beyond its credit");
        break;
    default: /* COMM_EST, SQ_DRAINED, LAST_WQE_REACHED, PATH_MIG: counted, nothing to do */
        break;
    }
}

void verbs_on_async(struct source *source, uint32_t events)
{
    struct verbs_nic *nic = list_entry(source, struct verbs_nic, events);
    struct ibv_async_event event;

    (void)events;
    while (ibv_get_async_event(nic->device, &event) == 0) {
        atomic_count(&nic->worker->stats->rdma_events, 1);
        event_handle(nic, &event);
        ibv_ack_async_event(
            &event); /* after the look at its element: destroying that waits for us */
    }
}
