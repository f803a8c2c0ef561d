/* The initiator's side: memory of the peer's jobs, mapped when first needed. */
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "worker/endpoint.h"
#include "worker/fabric/local/local.h"

enum import_state { IMPORT_ASKED, IMPORT_READY };

struct local_import {
    uint32_t handle; /* in local_link.imports */
    enum import_state state;
    uint32_t open;   /* the peer's handle of the segment */
    uint32_t region; /* the owner's handle; 0 while asked for by address */
    uint32_t access;
    struct memory memory;
    struct list waiting; /* struct import_wait */
};

/* A transfer that waits for an import. */
struct import_wait {
    struct list link;
    struct transfer *transfer;
};

static void import_free(struct local_link *local, struct local_import *import)
{
    table_remove(&local->imports, import->handle);
    memory_release(&import->memory);
    free(import);
}

static bool import_matches(const struct local_import *import, const struct transfer *transfer)
{
    if (import->open != transfer->open || import->state != IMPORT_READY)
        return false;
    if (!transfer->by_address)
        return import->region == transfer->remote_region;
    return import->memory.base != 0 && transfer->remote_offset >= import->memory.base &&
           memory_contains(&import->memory, transfer->remote_offset - import->memory.base,
                           transfer->length);
}

/* Access and range are the owner's to set; the owner's worker sent both with the memory. */
static void import_use(struct local_link *local, struct local_import *import,
                       struct transfer *transfer)
{
    uint64_t offset = transfer->remote_offset;
    uint32_t need = transfer->read ? REGION_ACCESS_READ : REGION_ACCESS_WRITE;

    if (transfer->by_address)
        offset -= import->memory.base;
    if ((import->access & need) == 0) {
        transfer_on_done(transfer, TS_ERR_DENIED, 0);
        return;
    }
    if (!memory_contains(&import->memory, offset, transfer->length)) {
        transfer_on_done(transfer, TS_ERR_INVALID, 0);
        return;
    }
    copy_post(&local->copies, transfer, &import->memory, offset, NULL);
    if (!list_empty(&local->copies.copies))
        link_wake(&local->link);
}

static int import_ask(struct local_link *local, struct transfer *transfer)
{
    struct local_import *import = calloc(1, sizeof(*import));
    struct import_wait *wait = calloc(1, sizeof(*wait));
    struct frame frame = {.type = FRAME_EXPORT,
                          .flags = transfer->by_address ? FRAME_FLAG_ADDR : 0,
                          .open = transfer->open,
                          .region = transfer->remote_region,
                          .offset = transfer->remote_offset,
                          .value = transfer->length};

    if (import == NULL || wait == NULL)
        goto err_free;
    import->handle = table_add(&local->imports, import);
    if (import->handle == 0)
        goto err_free;
    import->open = transfer->open;
    import->region = transfer->by_address ? 0 : transfer->remote_region;
    import->memory.fd = import->memory.mem_fd = -1;
    list_init(&import->waiting);
    wait->transfer = transfer;
    list_append(&import->waiting, &wait->link);
    frame.request = import->handle;
    return local_send(&local->link, &frame, NULL, 0, NULL, 0);

err_free:
    free(import);
    free(wait);
    return TS_ERR_NO_MEMORY;
}

/* Waits behind a question that is on its way already. */
static bool import_join(struct local_link *local, struct transfer *transfer)
{
    struct local_import *import;
    struct import_wait *wait;
    uint32_t cursor = 0;

    while ((import = table_next(&local->imports, &cursor)) != NULL) {
        if (import->state != IMPORT_ASKED || transfer->by_address ||
            import->open != transfer->open || import->region != transfer->remote_region)
            continue;
        wait = calloc(1, sizeof(*wait));
        if (wait == NULL)
            return false;
        wait->transfer = transfer;
        list_append(&import->waiting, &wait->link);
        return true;
    }
    return false;
}

void local_post(struct link *link, struct transfer *transfer)
{
    struct local_link *local = local_of(link);
    struct local_import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&local->imports, &cursor)) != NULL) {
        if (import_matches(import, transfer)) {
            import_use(local, import, transfer);
            return;
        }
    }
    if (!import_join(local, transfer) && import_ask(local, transfer) != TS_OK)
        transfer_on_done(transfer, TS_ERR_NO_MEMORY, 0);
}

/* Takes a transfer out of whatever import it waits for. */
static bool import_unwait(struct local_link *local, struct transfer *transfer)
{
    struct local_import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&local->imports, &cursor)) != NULL) {
        list_each (node, following, &import->waiting) {
            struct import_wait *wait = list_entry(node, struct import_wait, link);

            if (wait->transfer != transfer)
                continue;
            list_remove(&wait->link);
            free(wait);
            return true;
        }
    }
    return false;
}

void local_cancel(struct link *link, struct transfer *transfer)
{
    if (transfer->progress != NULL)
        copy_end(transfer, TS_ERR_CANCELLED);
    else if (import_unwait(local_of(link), transfer))
        transfer_on_done(transfer, TS_ERR_CANCELLED, 0);
}

void local_forget(struct link *link, struct transfer *transfer)
{
    copy_forget(transfer);
    import_unwait(local_of(link), transfer);
}

/* Everyone who waited goes on, or fails with `status`. */
static void import_settle(struct local_link *local, struct local_import *import, int status)
{
    struct list waiting;

    list_init(&waiting);
    while (!list_empty(&import->waiting)) {
        struct list *node = import->waiting.next;

        list_remove(node);
        list_append(&waiting, node);
    }
    if (status != TS_OK)
        import_free(local, import);
    while (!list_empty(&waiting)) {
        struct import_wait *wait = list_entry(waiting.next, struct import_wait, link);
        struct transfer *transfer = wait->transfer;

        list_remove(&wait->link);
        free(wait);
        if (status == TS_OK)
            import_use(local, import, transfer);
        else
            transfer_on_done(transfer, status, 0);
    }
}

static int import_find(struct local_link *local, uint32_t handle, struct local_import **import)
{
    void *object = NULL;
    int rc = table_get(&local->imports, handle, &object);

    *import = object;
    if (rc == TS_ERR_GONE)
        return TS_OK; /* late: nobody waits any more */
    return rc == TS_OK ? TS_OK : TS_ERR_PROTOCOL;
}

int local_on_exported(struct local_link *local, struct wire_message *message)
{
    const struct proto_region *region = &message->body.region;
    struct local_import *import;
    char text[PROTO_TEXT_MAX];
    int rc = import_find(local, (uint32_t)message->header.session, &import);

    if (rc != TS_OK || import == NULL)
        return rc;
    if (import->state != IMPORT_ASKED)
        return TS_ERR_PROTOCOL;
    if (message->fd_count != 1)
        return TS_ERR_PROTOCOL;
    if (region->kind == REGION_KIND_SHARED)
        rc = memory_map(&import->memory, wire_message_take(message, 0), region->offset,
                        region->length, text, sizeof(text));
    else if (region->kind == REGION_KIND_PRIVATE)
        rc = memory_adopt(&import->memory, wire_message_take(message, 0), region->base,
                          region->length, text, sizeof(text));
    else
        return TS_ERR_PROTOCOL;
    import->access = region->access;
    import->region = region->handle;
    import->memory.base = region->base;
    if (rc == TS_ERR_INVALID)
        rc = TS_ERR_FAULT; /* it is smaller than it was at registration: nothing that our job did */
    if (rc == TS_OK)
        import->state = IMPORT_READY;
    else
        worker_error(local->link.endpoint->worker, &local->link.endpoint->worker->peer_limit,
                     "cannot map memory of a peer's job: %s", text);
    import_settle(local, import, rc);
    return TS_OK;
}

int local_on_refused(struct local_link *local, const struct frame *frame)
{
    struct local_import *import;
    int rc = import_find(local, frame->request, &import);

    if (rc != TS_OK || import == NULL)
        return rc;
    if (frame->status == TS_OK || import->state != IMPORT_ASKED)
        return TS_ERR_PROTOCOL;
    import_settle(local, import, frame->status);
    return TS_OK;
}

int local_on_revoke(struct local_link *local, const struct frame *frame)
{
    struct frame answer = {.type = FRAME_REVOKED, .request = frame->request};
    struct local_import *import;
    int rc = import_find(local, frame->request, &import);

    if (rc != TS_OK)
        return rc;
    if (import != NULL) {
        copy_revoke(&local->copies, &import->memory, TS_ERR_GONE);
        import_settle(local, import, TS_ERR_GONE);
    }
    return local_send(&local->link, &answer, NULL, 0, NULL, 0);
}

void local_imports_fini(struct local_link *local)
{
    struct local_import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&local->imports, &cursor)) != NULL) {
        while (!list_empty(&import->waiting)) {
            struct import_wait *wait = list_entry(import->waiting.next, struct import_wait, link);

            list_remove(&wait->link);
            free(wait);
        }
        import_free(local, import);
    }
    table_fini(&local->imports);
}
