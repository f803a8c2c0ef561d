#include "worker/gate.h"

#include "worker/channel.h"
#include "worker/region.h"

void gate_init(struct gate *gate)
{
    *gate = (struct gate){.status = TS_ERR_SKIPPED};
}

static void gate_on_event(struct gpu_wait *wait)
{
    request_on_waited(list_entry(wait, struct request, wait));
}

int gate_wait(struct request *request, const struct sqe *sqe)
{
    struct channel *channel = request->channel;
    int rc;

    channel->gate.pending = request;
    rc = region_use_event(channel->session, sqe->local_region, &request->transfer.local);
    if (rc != TS_OK)
        return rc;
    request->wait.done = gate_on_event;
    return gpu_event_wait(request->transfer.local->event, &request->wait);
}

void gate_on_end(struct request *request, int status)
{
    struct gate *gate = &request->channel->gate;
    struct list kept;

    if (gate->pending == request)
        *gate = (struct gate){.status = (int16_t)status};
    list_init(&kept); /* the request may be another one as soon as we start any */
    while (!list_empty(&request->kept)) {
        struct list *node = request->kept.next;

        list_remove(node);
        list_append(&kept, node);
    }
    while (!list_empty(&kept)) {
        struct request *next = list_entry(kept.next, struct request, waiting);

        list_remove(&next->waiting);
        request_go(next, status == TS_OK ? TS_OK : TS_ERR_SKIPPED);
    }
}

int gate_pass(struct request *request)
{
    struct gate *gate = &request->channel->gate;

    if (gate->pending == NULL)
        return gate->status == TS_OK ? TS_OK : TS_ERR_SKIPPED;
    list_append(&gate->pending->kept, &request->waiting);
    return TS_AGAIN;
}
