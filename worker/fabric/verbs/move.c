/* Transfers as RDMA WRITEs and READs: cut into slices that lie within one local and one remote key,
 * staged as long as the send queues have room, counted back in as they retire. */
#include <stdlib.h>

#include "shm/err.h"
#include "worker/fabric/verbs/link.h"
#include "worker/fabric/verbs/mr.h"
#include "worker/gpu/device.h"
#include "worker/region.h"

static void move_free(struct verbs_move *move)
{
    list_remove(&move->link);
    if (move->transfer != NULL)
        move->transfer->progress = NULL;
    region_release(move->region); /* taken by verbs_move_start */
    verbs_key_release(move->owner, move->import);
    free(move);
}

/* Nothing is posted any more and nothing will be. */
static void move_end(struct verbs_move *move, int status)
{
    struct transfer *transfer = move->transfer;
    uint64_t bytes = move->retired;

    move_free(move);
    if (transfer != NULL)
        transfer_on_done(transfer, status, status == TS_OK ? bytes : 0);
}

void verbs_move_start(struct verbs_link *link, struct transfer *transfer,
                      struct verbs_import *import, uint64_t remote_offset)
{
    struct verbs_move *move = calloc(1, sizeof(*move));

    if (move == NULL) {
        transfer_on_done(transfer, TS_ERR_NO_MEMORY, 0);
        return;
    }
    move->owner = link;
    move->transfer = transfer;
    move->region = transfer->local;
    move->region->references++; /* released by move_free */
    move->import = import;
    import->users++;
    move->read = transfer->read;
    move->local_offset = transfer->local_offset;
    move->remote_offset = remote_offset;
    move->length = transfer->length;
    move->fused = transfer->announced && link->notify != NULL &&
                  transfer->length <= link->nic->worker->config.rdma.fused_max;
    transfer->progress = move;
    list_append(&link->moves, &move->link);
    link_wake(&link->link);
}

/* Stages nothing more. */
static void move_halt(struct verbs_move *move, int status)
{
    if (move->stopped != TS_OK)
        return;
    move->stopped = (int16_t)status;
    if (move->staged < move->length) {
        list_remove(&move->link);
        list_append(&move->owner->flying, &move->link);
    }
}

void verbs_move_stop(struct verbs_move *move, int status)
{
    if (move->stopped != TS_OK)
        return;
    move_halt(move, status);
    if (move->flying == 0)
        move_end(move, status);
}

void verbs_move_forget(struct verbs_move *move)
{
    move->transfer->progress = NULL;
    move->transfer = NULL;
    verbs_move_stop(move, TS_ERR_CANCELLED);
}

/* ---- out ---- */

/* A place on a send queue: striped over the data QPs, or the notification QP, where the SEND behind
 * it needs a place, too. */
static struct verbs_qp *move_queue(struct verbs_link *link, const struct verbs_move *move)
{
    if (move->fused)
        return verbs_qp_is_live(link->notify) && verbs_qp_room(link->notify) >= 2 ? link->notify
                                                                                  : NULL;
    for (uint32_t i = 0; i < link->data_count; i++) {
        struct verbs_qp *qp = link->data[(link->data_next + i) % link->data_count];

        if (!verbs_qp_is_live(qp) || verbs_qp_room(qp) == 0 || qp->flying >= VERBS_FLIGHT)
            continue;
        link->data_next = (link->data_next + i + 1) % link->data_count;
        return qp;
    }
    return NULL;
}

/* One slice. TS_OK, TS_AGAIN for a region that is still being registered, or an error. */
static int slice_stage(struct verbs_move *move, struct verbs_qp *qp)
{
    uint64_t remote = move->remote_offset + move->staged, address = 0, left = 0;
    uint64_t piece = remote >> VERBS_PIECE_SHIFT;
    uint64_t size = move->length - move->staged;
    struct verbs_posted entry = {.kind = VERBS_POSTED_SLICE, .read = move->read, .move = move};
    struct ibv_send_wr *wr;
    uint32_t lkey = 0;
    int rc =
        verbs_mr_local(move->region, move->local_offset + move->staged, &lkey, &address, &left);

    if (rc != TS_OK)
        return rc;
    if (size > VERBS_SLICE)
        size = VERBS_SLICE;
    if (size > left)
        size = left;
    if (size > ((piece + 1) << VERBS_PIECE_SHIFT) - remote)
        size = ((piece + 1) << VERBS_PIECE_SHIFT) - remote;
    entry.length = size;
    wr = verbs_qp_stage(qp, &entry);
    wr->opcode = move->read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    /* A list of slices is not over for a long time: the next ones go out as these are done, and a
     * small transfer among them is not told late. */
    if (size == VERBS_SLICE)
        wr->send_flags = IBV_SEND_SIGNALED;
    *wr->sg_list = (struct ibv_sge){.addr = address, .length = (uint32_t)size, .lkey = lkey};
    wr->wr.rdma.remote_addr = move->import->iova + remote;
    wr->wr.rdma.rkey = move->import->rkeys[piece];
    move->staged += size;
    move->flying++;
    if (move->transfer != NULL)
        move->transfer->started = true;
    return TS_OK;
}

static void move_on_staged(struct verbs_link *link, struct verbs_move *move)
{
    list_remove(&move->link);
    list_append(&link->flying, &move->link);
    endpoint_moved(link->link.endpoint, move->read ? 0 : move->length,
                   move->read ? move->length : 0);
    /* What is staged on the same QP from here on is behind the bytes: RC keeps the order of a SEND
     * behind a WRITE, and behind a READ by its fence. */
    if (move->fused && move->transfer != NULL)
        transfer_on_posted(move->transfer);
}

void verbs_moves_stage(struct verbs_link *link)
{
    struct list later;

    list_init(&later);
    while (!list_empty(&link->moves)) {
        struct verbs_move *move = list_entry(link->moves.next, struct verbs_move, link);
        struct verbs_qp *qp = move_queue(link, move);
        int rc = qp != NULL ? slice_stage(move, qp) : TS_AGAIN;

        if (rc == TS_OK && move->staged == move->length) {
            move_on_staged(link, move);
        } else if (rc == TS_OK || rc == TS_AGAIN) {
            /* Slices take turns; who has no place waits for a completion, who has no key for the
             * registration: both wake the link. */
            list_remove(&move->link);
            list_append(rc == TS_OK ? &link->moves : &later, &move->link);
        } else {
            verbs_move_stop(move, rc);
        }
    }
    while (!list_empty(&later)) {
        struct list *node = later.next;

        list_remove(node);
        list_append(&link->moves, node);
    }
}

/* ---- back ---- */

/* It failed and all of it has come back.  What was on the wire may still land until the queue pairs
 * are replaced, which ends it; or the link dies, which ends all that is left (verbs_moves_fini). */
static void move_settle(struct verbs_move *move)
{
    if (!verbs_link_is_dead(move->owner) && !verbs_renew_is_pending(move->owner))
        move_end(move, move->fault);
}

/* What was read into a GPU: by all that is launched from here on? */
static bool move_is_seen(const struct verbs_move *move)
{
    return !move->read || move->region->memory.gpu == NULL ||
           gpu_flush(move->owner->nic->worker->gpu);
}

void verbs_move_on_done(struct verbs_move *move, uint64_t length, int status)
{
    move->flying--;
    if (status == TS_OK) {
        move->retired += length;
        if (move->transfer != NULL)
            move->transfer->moved = move->retired;
    } else if (move->fault == TS_OK) {
        move->fault = (int16_t)status;
        move_halt(move, status);
    }
    if (move->flying > 0)
        return;
    if (move->fault != TS_OK)
        move_settle(move);
    else if (move->retired == move->length)
        move_end(move, move_is_seen(move) ? TS_OK : TS_ERR_UNCERTAIN);
    else if (move->stopped != TS_OK)
        move_end(move, move->stopped);
}

void verbs_moves_settle(struct verbs_link *link)
{
    bool again = true;

    while (again) {
        again = false;
        list_each (node, following, &link->flying) {
            struct verbs_move *move = list_entry(node, struct verbs_move, link);

            if (move->fault == TS_OK || move->flying > 0)
                continue;
            move_end(move, move->fault);
            again = true; /* the list may have changed under us */
            break;
        }
    }
}

static void moves_end(struct list *moves)
{
    while (!list_empty(moves)) {
        struct verbs_move *move = list_entry(moves->next, struct verbs_move, link);

        if (move->fault != TS_OK && move->fault != TS_ERR_UNCERTAIN)
            move_end(move, move->fault);
        else
            move_free(move); /* the endpoint ends its transfer: uncertain if anything was posted */
    }
}

void verbs_moves_fini(struct verbs_link *link)
{
    moves_end(&link->moves);
    moves_end(&link->flying);
}
