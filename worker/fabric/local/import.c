/* The initiator's side: memory of the peer's jobs, mapped when first needed. */
#include "shm/err.h"
#include "worker/endpoint.h"
#include "worker/fabric/local/local.h"
#include "worker/gpu/mapping.h"
#include "worker/gpu/start.h"

struct local_import {
    struct import import;
    struct memory memory;
    struct local_link *starting; /* the owner's answer waits for its GPU; NULL: it does not */
};

static struct local_import *import_of(struct import *import)
{
    return list_entry(import, struct local_import, import);
}

static void import_on_use(struct link *link, struct import *import, struct transfer *transfer,
                          uint64_t offset)
{
    struct local_link *local = local_of(link);

    copy_post(&local->copies, transfer, &import_of(import)->memory, offset, NULL);
    if (!list_empty(&local->copies.copies))
        link_wake(link);
}

static void import_on_refused(struct link *link, struct transfer *transfer, int status)
{
    (void)link;
    transfer_on_done(transfer, status, 0);
}

static void import_on_release(struct import *import)
{
    const struct local_link *starting = import_of(import)->starting;

    if (import->ready)
        memory_release(&import_of(import)->memory);
    if (starting != NULL)
        gpu_start_drop(starting->link.endpoint->worker, import, 0);
}

const struct import_ops local_import_ops = {.size = sizeof(struct local_import),
                                            .use = import_on_use,
                                            .refused = import_on_refused,
                                            .release = import_on_release};

void local_post(struct link *link, struct transfer *transfer)
{
    imports_post(&local_of(link)->imports, transfer);
}

void local_cancel(struct link *link, struct transfer *transfer)
{
    if (transfer->progress != NULL)
        copy_end(transfer, TS_ERR_CANCELLED);
    else if (imports_unwait(&local_of(link)->imports, transfer))
        transfer_on_done(transfer, TS_ERR_CANCELLED, 0);
}

void local_forget(struct link *link, struct transfer *transfer)
{
    copy_forget(transfer);
    imports_unwait(&local_of(link)->imports, transfer);
}

static int import_map_gpu(struct local_import *import, struct worker *worker,
                          struct wire_message *message, char *text, size_t text_size)
{
    const struct proto_region_gpu *region = &message->body.region_gpu;
    int fds[PROTO_GPU_FDS_MAX], count = message->fd_count;
    struct gpu_mapping *mapping;
    int rc;

    for (int i = 0; i < count; i++)
        fds[i] = wire_message_take(message, i);
    rc = gpu_mapping_open(worker, region, fds, count, GPU_OWNER_PEER, &mapping, text, text_size);
    if (rc == TS_OK)
        memory_take_gpu(&import->memory, mapping, region->region.base);
    return rc;
}

static int import_map(struct local_import *import, struct worker *worker,
                      struct wire_message *message, char *text, size_t text_size)
{
    const struct proto_region *region = &message->body.region;

    if (message->header.type == WIRE_REGION_ADD_GPU)
        return import_map_gpu(import, worker, message, text, text_size);
    if (message->fd_count != 1)
        return TS_ERR_PROTOCOL;
    if (region->kind == REGION_KIND_SHARED)
        return memory_map(&import->memory, wire_message_take(message, 0), region->offset,
                          region->length, text, text_size);
    if (region->kind == REGION_KIND_PRIVATE)
        return memory_adopt(&import->memory, wire_message_take(message, 0), region->base,
                            region->length, text, text_size);
    return TS_ERR_PROTOCOL;
}

static void import_resume(void *owner, struct wire_message *message)
{
    struct local_import *import = owner;
    struct local_link *local = import->starting;

    import->starting = NULL;
    if (local_on_exported(local, message) != TS_OK)
        link_on_lost(&local->link, TS_ERR_PROTOCOL, "the peer broke the local protocol");
}

/* A GPU that nobody here has asked for yet takes its time. */
static bool import_defer(struct local_import *import, struct local_link *local,
                         struct wire_message *message)
{
    const struct gpu_claim claim = {
        .owner = import, .handle = import->import.handle, .resume = import_resume};

    if (message->header.type != WIRE_REGION_ADD_GPU ||
        !gpu_start_defer(local->link.endpoint->worker, message, &claim))
        return false;
    import->starting = local;
    return true;
}

int local_on_exported(struct local_link *local, struct wire_message *message)
{
    const struct proto_region *region = &message->body.region;
    struct worker *worker = local->link.endpoint->worker;
    struct import *import;
    char text[PROTO_TEXT_MAX] = "";
    int rc = imports_get(&local->imports, (uint32_t)message->header.session, &import);

    if (rc != TS_OK || import == NULL)
        return rc;
    if (import->ready || import_of(import)->starting != NULL)
        return TS_ERR_PROTOCOL;
    if (import_defer(import_of(import), local, message))
        return TS_OK;
    rc = import_map(import_of(import), worker, message, text, sizeof(text));
    if (rc == TS_ERR_PROTOCOL)
        return rc;
    if (rc == TS_ERR_INVALID)
        rc = TS_ERR_FAULT; /* it is smaller than it was at registration: nothing that our job did */
    import->ready = rc == TS_OK;
    import->access = region->access;
    import->region = region->handle;
    import->base = region->base;
    import->length = region->length;
    if (rc != TS_OK)
        worker_error(worker, &worker->peer_limit, "cannot map memory of a peer's job: %s", text);
    imports_settle(&local->imports, import, rc);
    return TS_OK;
}

int local_on_refused(struct local_link *local, const struct frame *frame)
{
    struct import *import;
    int rc = imports_get(&local->imports, frame->request, &import);

    if (rc != TS_OK || import == NULL)
        return rc;
    if (frame->status == TS_OK || import->ready)
        return TS_ERR_PROTOCOL;
    imports_settle(&local->imports, import, frame->status);
    return TS_OK;
}

int local_on_revoke(struct local_link *local, const struct frame *frame)
{
    struct frame answer = {.type = FRAME_REVOKED, .request = frame->request};
    struct import *import;
    int rc = imports_get(&local->imports, frame->request, &import);

    if (rc != TS_OK)
        return rc;
    if (import != NULL) {
        import->revoking = true; /* an end below may submit the next */
        copy_revoke(&local->copies, &import_of(import)->memory, TS_ERR_GONE);
        imports_settle(&local->imports, import, TS_ERR_GONE);
    }
    return local_send(&local->link, &answer, NULL, 0, NULL, 0);
}
