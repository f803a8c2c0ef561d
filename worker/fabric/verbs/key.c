/* Keys to each other's memory: asked for when a region is first named, good until it is revoked.
 *
 *   initiator  EXPORT (open, region or address, import handle)   ->  owner checks handle and range
 *              EXPORTED with keys, range and rights, or a status <-
 *   owner      REVOKE (import handle)                            ->  no more work requests with it
 *              REVOKED when those posted have retired            <-
 *
 * The owner keeps its registration until REVOKED, or until the link is dead: a key that is held
 * longer than the connect timeout costs the peer its endpoint.
 */
#include <stdlib.h>
#include <string.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/fabric/verbs/link.h"
#include "worker/fabric/verbs/mr.h"
#include "worker/inbound.h"
#include "worker/region.h"

/* A transfer that waits for an import. */
struct key_wait {
    struct list link;
    struct transfer *transfer;
};

/* A region of ours that the peer has the keys of. */
struct verbs_export {
    struct list link;
    struct region *region; /* referenced until the peer has let go, or its link is dead */
    uint32_t import;       /* the peer's handle */
    bool revoking;
};

/* ---- the initiator's side ---- */

static bool import_matches(const struct verbs_import *import, const struct transfer *transfer)
{
    uint64_t offset = transfer->remote_offset - import->base;

    if (!import->ready || import->revoking || import->open != transfer->open)
        return false;
    if (!transfer->by_address)
        return import->region == transfer->remote_region;
    return import->base != 0 && transfer->remote_offset >= import->base &&
           transfer->length <= import->length && offset <= import->length - transfer->length;
}

static struct verbs_import *import_find(struct verbs_link *link, const struct transfer *transfer)
{
    struct verbs_import *import = link->recent;
    uint32_t cursor = 0;

    if (import != NULL && import_matches(import, transfer))
        return import;
    while ((import = table_next(&link->imports, &cursor)) != NULL)
        if (import_matches(import, transfer))
            break;
    link->recent = import;
    return import;
}

static void import_free(struct verbs_link *link, struct verbs_import *import)
{
    if (link->recent == import)
        link->recent = NULL;
    table_remove(&link->imports, import->handle);
    free(import->rkeys);
    free(import);
}

/* Rights and range are the owner's to set; the device checks them again. */
static void import_use(struct verbs_link *link, struct verbs_import *import,
                       struct transfer *transfer)
{
    uint32_t need = transfer->read ? REGION_ACCESS_READ : REGION_ACCESS_WRITE;
    uint64_t offset = transfer->remote_offset - (transfer->by_address ? import->base : 0);

    if ((import->access & need) == 0)
        transfer_on_done(transfer, TS_ERR_DENIED, 0);
    else if (transfer->length > import->length || offset > import->length - transfer->length)
        transfer_on_done(transfer, TS_ERR_INVALID, 0);
    else
        verbs_move_start(link, transfer, import, offset);
}

static int import_wait(struct verbs_import *import, struct transfer *transfer)
{
    struct key_wait *wait = calloc(1, sizeof(*wait));

    if (wait == NULL)
        return TS_ERR_NO_MEMORY;
    wait->transfer = transfer;
    list_append(&import->waiting, &wait->link);
    return TS_OK;
}

static int import_ask(struct verbs_link *link, struct transfer *transfer)
{
    struct verbs_import *import = calloc(1, sizeof(*import));
    struct frame frame = {.type = FRAME_EXPORT,
                          .flags = transfer->by_address ? FRAME_FLAG_ADDR : 0,
                          .open = transfer->open,
                          .region = transfer->remote_region,
                          .offset = transfer->remote_offset,
                          .value = transfer->length};

    if (import == NULL)
        return TS_ERR_NO_MEMORY;
    import->open = transfer->open;
    import->region = transfer->by_address ? 0 : transfer->remote_region;
    list_init(&import->waiting);
    import->handle = table_add(&link->imports, import);
    if (import->handle == 0) {
        free(import);
        return TS_ERR_NO_MEMORY;
    }
    frame.request = import->handle;
    if (link->link.ops->send(&link->link, &frame, NULL, 0, NULL, 0) != TS_OK ||
        import_wait(import, transfer) != TS_OK) {
        import_free(link, import); /* an answer will name a handle that is gone */
        return TS_ERR_NO_MEMORY;
    }
    return TS_OK;
}

/* A question for this region that is on its way already. */
static struct verbs_import *import_asked(struct verbs_link *link, const struct transfer *transfer)
{
    struct verbs_import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&link->imports, &cursor)) != NULL)
        if (!import->ready && !transfer->by_address && import->open == transfer->open &&
            import->region == transfer->remote_region)
            return import;
    return NULL;
}

void verbs_key_post(struct verbs_link *link, struct transfer *transfer)
{
    struct verbs_import *import = import_find(link, transfer);
    int rc;

    if (import != NULL) {
        import_use(link, import, transfer);
        return;
    }
    import = import_asked(link, transfer);
    rc = import != NULL ? import_wait(import, transfer) : import_ask(link, transfer);
    if (rc != TS_OK)
        transfer_on_done(transfer, TS_ERR_NO_MEMORY, 0);
}

bool verbs_key_unwait(struct verbs_link *link, struct transfer *transfer)
{
    struct verbs_import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&link->imports, &cursor)) != NULL) {
        list_each (node, following, &import->waiting) {
            struct key_wait *wait = list_entry(node, struct key_wait, link);

            if (wait->transfer != transfer)
                continue;
            list_remove(&wait->link);
            free(wait);
            return true;
        }
    }
    return false;
}

/* Everyone who waited goes on, or fails with `status`. */
static void import_settle(struct verbs_link *link, struct verbs_import *import, int status)
{
    while (!list_empty(&import->waiting)) {
        struct key_wait *wait = list_entry(import->waiting.next, struct key_wait, link);
        struct transfer *transfer = wait->transfer;

        list_remove(&wait->link);
        free(wait);
        if (status == TS_OK)
            import_use(link, import, transfer);
        else if (status == TS_ERR_UNSUPPORTED)
            verbs_link_post_aside(link, transfer); /* the owner's device does not know it */
        else
            transfer_on_done(transfer, status, 0);
    }
}

static int import_get(struct verbs_link *link, uint32_t handle, struct verbs_import **import)
{
    void *object = NULL;
    int rc = table_get(&link->imports, handle, &object);

    *import = object;
    if (rc == TS_ERR_GONE)
        return TS_OK; /* late: nobody waits any more */
    return rc == TS_OK ? TS_OK : TS_ERR_PROTOCOL;
}

static int import_fill(struct verbs_import *import, const struct frame *frame,
                       const uint8_t *payload)
{
    struct frame_keys keys;
    uint64_t count;

    if (frame->length < sizeof(keys))
        return TS_ERR_PROTOCOL;
    memcpy(&keys, payload, sizeof(keys));
    if (keys.length == 0 || keys.iova > UINT64_MAX - keys.length ||
        keys.base > UINT64_MAX - keys.length)
        return TS_ERR_PROTOCOL;
    count = ((keys.length - 1) >> VERBS_PIECE_SHIFT) + 1;
    if (count > FRAME_KEYS_MAX || frame->length != sizeof(keys) + count * sizeof(uint32_t))
        return TS_ERR_PROTOCOL;
    import->rkeys = malloc(count * sizeof(uint32_t));
    if (import->rkeys == NULL)
        return TS_ERR_NO_MEMORY;
    memcpy(import->rkeys, payload + sizeof(keys), count * sizeof(uint32_t));
    import->count = (uint32_t)count;
    import->base = keys.base;
    import->iova = keys.iova;
    import->length = keys.length;
    import->access = keys.access;
    import->region = keys.region;
    import->ready = true;
    return TS_OK;
}

int verbs_key_on_exported(struct verbs_link *link, const struct frame *frame,
                          const uint8_t *payload)
{
    struct verbs_import *import;
    int status = frame->status;
    int rc = import_get(link, frame->request, &import);

    if (rc != TS_OK || import == NULL)
        return rc;
    if (import->ready)
        return TS_ERR_PROTOCOL;
    if (status == TS_OK)
        status = import_fill(import, frame, payload);
    if (status == TS_ERR_PROTOCOL && frame->status == TS_OK)
        return TS_ERR_PROTOCOL;
    import_settle(link, import, status);
    if (status != TS_OK)
        import_free(link, import);
    return TS_OK;
}

static void import_let_go(struct verbs_link *link, struct verbs_import *import)
{
    struct frame answer = {.type = FRAME_REVOKED, .request = import->handle};

    import_free(link, import);
    if (!link->closing)
        link->link.ops->send(&link->link, &answer, NULL, 0, NULL, 0);
}

void verbs_key_release(struct verbs_link *link, struct verbs_import *import)
{
    if (--import->users == 0 && import->revoking)
        import_let_go(link, import);
}

static void import_stop_moves(struct list *moves, const struct verbs_import *import)
{
    list_each (node, following, moves) {
        struct verbs_move *move = list_entry(node, struct verbs_move, link);

        if (move->import == import)
            verbs_move_stop(move, TS_ERR_GONE);
    }
}

int verbs_key_on_revoke(struct verbs_link *link, const struct frame *frame)
{
    struct frame answer = {.type = FRAME_REVOKED, .request = frame->request};
    struct verbs_import *import;
    int rc = import_get(link, frame->request, &import);

    if (rc != TS_OK)
        return rc;
    if (import == NULL) {
        link->link.ops->send(&link->link, &answer, NULL, 0, NULL, 0);
        return TS_OK;
    }
    if (!import->ready || import->revoking)
        return TS_ERR_PROTOCOL;
    import->users++; /* not let go while we walk; released below */
    import->revoking = true;
    import_stop_moves(&link->moves, import);
    import_stop_moves(&link->flying, import);
    verbs_key_release(link, import);
    return TS_OK;
}

/* ---- the owner's side ---- */

static int export_refuse(struct verbs_link *link, uint32_t import, int status)
{
    struct frame frame = {.type = FRAME_EXPORTED, .request = import, .status = (int16_t)status};

    return link->link.ops->send(&link->link, &frame, NULL, 0, NULL, 0);
}

static int export_answer(struct verbs_link *link, const struct region *region, uint32_t import)
{
    const struct verbs_mr *mr = region->mr;
    const struct frame_keys keys = {.base = region->memory.base,
                                    .iova = mr->base,
                                    .length = region->memory.length,
                                    .access = region->access,
                                    .region = region->handle};
    const size_t size = mr->count * sizeof(uint32_t);
    struct frame frame = {
        .type = FRAME_EXPORTED, .request = import, .length = (uint32_t)(sizeof(keys) + size)};

    return link->link.ops->send(&link->link, &frame, &keys, sizeof(keys), mr->rkeys, size);
}

int verbs_key_on_export(struct verbs_link *link, const struct frame *frame)
{
    struct verbs_export *export = NULL;
    struct region *region = NULL;
    int status;

    if (inbound_find_region(link->link.endpoint, frame, &region, &status) != TS_OK)
        return TS_ERR_PROTOCOL;
    if (status == TS_OK && (region->mr == NULL || !region->mr->ready))
        status = region->mr == NULL ? TS_ERR_UNSUPPORTED : TS_ERR_NOT_FOUND;
    if (status == TS_OK) {
        export = calloc(1, sizeof(*export));
        status = export == NULL ? TS_ERR_NO_MEMORY : export_answer(link, region, frame->request);
    }
    if (status != TS_OK) {
        free(export);
        if (region != NULL)
            region_release(region);
        return export_refuse(link, frame->request, status);
    }
    export->region = region; /* with the reference of the look-up */
    export->import = frame->request;
    list_append(&link->exports, &export->link);
    return TS_OK;
}

static void export_free(struct verbs_export *export)
{
    list_remove(&export->link);
    region_release(export->region);
    free(export);
}

int verbs_key_on_revoked(struct verbs_link *link, const struct frame *frame)
{
    bool waiting = false, found = false;

    list_each (node, following, &link->exports) {
        struct verbs_export *export = list_entry(node, struct verbs_export, link);

        if (!export->revoking)
            continue;
        if (export->import == frame->request && !found) {
            found = true;
            export_free(export);
        } else {
            waiting = true;
        }
    }
    if (!waiting)
        timer_clear(&link->nic->worker->timers, &link->patience);
    return found ? TS_OK : TS_ERR_PROTOCOL;
}

void verbs_key_revoke(struct verbs_link *link, struct region *region)
{
    struct worker *worker = link->nic->worker;

    list_each (node, following, &link->exports) {
        struct verbs_export *export = list_entry(node, struct verbs_export, link);
        struct frame frame = {.type = FRAME_REVOKE, .request = export->import};

        if (export->region != region || export->revoking)
            continue;
        export->revoking = true;
        link->link.ops->send(&link->link, &frame, NULL, 0, NULL, 0);
        timer_set(&worker->timers, &link->patience,
                  clock_now() + worker->config.connect_ms * CLOCK_NS_PER_MS);
    }
}

void verbs_keys_fini(struct verbs_link *link)
{
    struct verbs_import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&link->imports, &cursor)) != NULL) {
        while (!list_empty(&import->waiting)) {
            struct key_wait *wait = list_entry(import->waiting.next, struct key_wait, link);

            list_remove(&wait->link);
            free(wait);
        }
        import_free(link, import);
    }
    table_fini(&link->imports);
    while (!list_empty(&link->exports))
        export_free(list_entry(link->exports.next, struct verbs_export, link));
    timer_clear(&link->nic->worker->timers, &link->patience);
}
