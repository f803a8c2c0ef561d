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

/* A region of ours that the peer has the keys of. */
struct verbs_export {
    struct list link;
    struct region *region; /* referenced until the peer has let go, or its link is dead */
    uint32_t import;       /* the peer's handle */
    bool revoking;
};

/* ---- the initiator's side ---- */

static struct verbs_import *import_of(struct import *import)
{
    return list_entry(import, struct verbs_import, import);
}

static void import_on_use(struct link *link, struct import *import, struct transfer *transfer,
                          uint64_t offset)
{
    verbs_move_start(verbs_of(link), transfer, import_of(import), offset);
}

static void import_on_refused(struct link *link, struct transfer *transfer, int status)
{
    if (status == TS_ERR_UNSUPPORTED)
        verbs_link_post_aside(verbs_of(link), transfer); /* the owner's device does not know it */
    else
        transfer_on_done(transfer, status, 0);
}

static void import_on_release(struct import *import)
{
    free(import_of(import)->rkeys);
}

const struct import_ops verbs_import_ops = {.size = sizeof(struct verbs_import),
                                            .use = import_on_use,
                                            .refused = import_on_refused,
                                            .release = import_on_release};

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
    import->iova = keys.iova;
    import->import.base = keys.base;
    import->import.length = keys.length;
    import->import.access = keys.access;
    import->import.region = keys.region;
    import->import.ready = true;
    return TS_OK;
}

int verbs_key_on_exported(struct verbs_link *link, const struct frame *frame,
                          const uint8_t *payload)
{
    struct import *import;
    int status = frame->status;
    int rc = imports_get(&link->imports, frame->request, &import);

    if (rc != TS_OK || import == NULL)
        return rc;
    if (import->ready)
        return TS_ERR_PROTOCOL;
    if (status == TS_OK)
        status = import_fill(import_of(import), frame, payload);
    if (status == TS_ERR_PROTOCOL && frame->status == TS_OK)
        return TS_ERR_PROTOCOL;
    imports_settle(&link->imports, import, status);
    return TS_OK;
}

static void import_let_go(struct verbs_link *link, struct verbs_import *import)
{
    struct frame answer = {.type = FRAME_REVOKED, .request = import->import.handle};

    imports_free(&link->imports, &import->import);
    if (!link->closing)
        link->link.ops->send(&link->link, &answer, NULL, 0, NULL, 0);
}

void verbs_key_release(struct verbs_link *link, struct verbs_import *import)
{
    if (--import->users == 0 && import->import.revoking)
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
    struct import *import;
    int rc = imports_get(&link->imports, frame->request, &import);

    if (rc != TS_OK)
        return rc;
    if (import == NULL) {
        link->link.ops->send(&link->link, &answer, NULL, 0, NULL, 0);
        return TS_OK;
    }
    if (!import->ready || import->revoking)
        return TS_ERR_PROTOCOL;
    import_of(import)->users++; /* not let go while we walk; released below */
    import->revoking = true;
    import_stop_moves(&link->moves, import_of(import));
    import_stop_moves(&link->flying, import_of(import));
    verbs_key_release(link, import_of(import));
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
    imports_fini(&link->imports);
    while (!list_empty(&link->exports))
        export_free(list_entry(link->exports.next, struct verbs_export, link));
    timer_clear(&link->nic->worker->timers, &link->patience);
}
