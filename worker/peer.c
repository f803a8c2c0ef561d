/* The generic peer protocol: frames that every link carries, by type. */
#include <string.h>

#include "shm/err.h"
#include "shm/name.h"
#include "shm/wire.h"
#include "worker/gpu/device.h"
#include "worker/inbound.h"
#include "worker/remote.h"

#define CREDIT_MAX (UINT64_C(1) << 32)

typedef int frame_handler(struct endpoint *endpoint, const struct frame *frame,
                          const uint8_t *payload);

static int on_open(struct endpoint *endpoint, const struct frame *frame, const uint8_t *payload)
{
    struct frame_open ask;

    memory_copy_once(&ask, payload, sizeof(ask));
    if (memchr(ask.segment, 0, sizeof(ask.segment)) == NULL ||
        memchr(ask.sender, 0, sizeof(ask.sender)) == NULL || !name_label_valid(ask.segment))
        return TS_ERR_PROTOCOL;
    inbound_open(endpoint, frame, &ask);
    return TS_OK;
}

/* A handle of ours in a peer's frame: old generations are late, unknown ones are lies. */
static int find_remote(struct endpoint *endpoint, uint32_t handle, struct remote **remote)
{
    void *object = NULL;
    int rc = table_get(&endpoint->outbounds, handle, &object);

    *remote = object;
    if (rc == TS_ERR_GONE) {
        atomic_count(&endpoint->worker->stats->stale_completions, 1);
        return TS_OK;
    }
    return rc == TS_OK ? TS_OK : TS_ERR_PROTOCOL;
}

static int on_opened(struct endpoint *endpoint, const struct frame *frame, const uint8_t *payload)
{
    struct remote *remote;
    char text[PROTO_TEXT_MAX + 1] = "";
    int rc = find_remote(endpoint, frame->request, &remote);

    if (rc != TS_OK || remote == NULL)
        return rc;
    if (frame->value > CREDIT_MAX)
        return TS_ERR_PROTOCOL;
    memory_copy_once(text, payload, frame->length);
    remote_on_opened(remote, frame, text);
    return TS_OK;
}

static int find_inbound(struct endpoint *endpoint, uint32_t handle, struct inbound **inbound)
{
    void *object = NULL;
    int rc = table_get(&endpoint->inbounds, handle, &object);

    *inbound = object;
    return rc == TS_ERR_NOT_FOUND ? TS_ERR_PROTOCOL : TS_OK;
}

static int on_close(struct endpoint *endpoint, const struct frame *frame, const uint8_t *payload)
{
    struct inbound *inbound;
    int rc = find_inbound(endpoint, frame->open, &inbound);

    (void)payload;
    if (rc != TS_OK || inbound == NULL)
        return rc;
    inbound_free(inbound);
    endpoint_on_unused(endpoint);
    return TS_OK;
}

static int on_gone(struct endpoint *endpoint, const struct frame *frame, const uint8_t *payload)
{
    struct remote *remote;
    int rc = find_remote(endpoint, frame->request, &remote);

    (void)payload;
    if (rc == TS_OK && remote != NULL) {
        remote_on_gone(remote, TS_ERR_GONE);
        endpoint_on_unused(endpoint);
    }
    return rc;
}

static int on_notify(struct endpoint *endpoint, const struct frame *frame, const uint8_t *payload)
{
    struct inbound *inbound;
    int rc = find_inbound(endpoint, frame->open, &inbound);

    if (rc != TS_OK || inbound == NULL)
        return rc;
    if (endpoint->worker->gpu != NULL && !gpu_flush(endpoint->worker->gpu))
        return TS_ERR_GONE; /* this process ends, and the bytes may not be seen */
    return inbound_notify(inbound, frame, payload);
}

static int on_credit(struct endpoint *endpoint, const struct frame *frame, const uint8_t *payload)
{
    struct remote *remote;
    int rc = find_remote(endpoint, frame->request, &remote);

    (void)payload;
    if (rc != TS_OK || remote == NULL)
        return rc;
    if (frame->value > CREDIT_MAX || remote->credit > CREDIT_MAX)
        return TS_ERR_PROTOCOL;
    remote_on_credit(remote, frame->value);
    return TS_OK;
}

static int on_bye(struct endpoint *endpoint, const struct frame *frame, const uint8_t *payload)
{
    (void)frame;
    (void)payload;
    endpoint->bye_received = true;
    /* The peer prefers another connection, if there is one: then so do we. */
    if (endpoint->state == ENDPOINT_READY &&
        (!endpoint_is_wanted(endpoint) ||
         endpoint_find_peer(endpoint->worker, endpoint->peer_id, endpoint) != NULL))
        endpoint_handle(endpoint, ENDPOINT_EVENT_DUPLICATE, TS_OK, "the peer said bye");
    endpoint_check_drained(endpoint);
    return TS_OK;
}

static frame_handler *const frame_handlers[FRAME_TYPE_COUNT] = {
    [FRAME_OPEN] = on_open, [FRAME_OPENED] = on_opened, [FRAME_CLOSE] = on_close,
    [FRAME_GONE] = on_gone, [FRAME_NOTIFY] = on_notify, [FRAME_CREDIT] = on_credit,
    [FRAME_BYE] = on_bye,
};

int link_on_frame(struct link *link, const struct frame *frame, const uint8_t *payload)
{
    struct endpoint *endpoint = link->endpoint;

    if (frame_handlers[frame->type] == NULL)
        return endpoint->link != NULL && endpoint->link->ops->on_frame != NULL
                   ? endpoint->link->ops->on_frame(endpoint->link, frame, payload)
                   : TS_ERR_PROTOCOL;
    return frame_handlers[frame->type](endpoint, frame, payload);
}
