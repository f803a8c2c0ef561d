/* Transfers within a host of which one side or both are memory of a GPU. */
#include "shm/err.h"
#include "worker/endpoint.h"
#include "worker/fabric/local/copy.h"
#include "worker/gpu/mapping.h"

#define PIECES_AHEAD 4u /* of one transfer */

/* A piece, seen from where its bytes come from and go to. */
struct route {
    const struct memory *from, *to;
    uint64_t from_offset, to_offset; /* of the transfer's first byte */
    enum gpu_lane_kind lane;
    struct gpu_device *device;
    uint64_t most;
};

static struct route copy_route(const struct copy *copy)
{
    const struct transfer *transfer = copy->transfer;
    const struct memory *local = &transfer->local->memory;
    struct route route;

    if (transfer->read)
        route = (struct route){.from = copy->remote,
                               .to = local,
                               .from_offset = copy->offset,
                               .to_offset = transfer->local_offset};
    else
        route = (struct route){.from = local,
                               .to = copy->remote,
                               .from_offset = transfer->local_offset,
                               .to_offset = copy->offset};
    route.lane = route.from->gpu == NULL ? GPU_LANE_IN
                 : route.to->gpu == NULL ? GPU_LANE_OUT
                                         : GPU_LANE_BETWEEN;
    /* The one that has the bytes sends them: writes are faster on PCIe than reads. */
    route.device = route.from->gpu != NULL ? route.from->gpu->device : route.to->gpu->device;
    route.most = route.lane == GPU_LANE_BETWEEN ? GPU_PIECE : GPU_CHUNK;
    return route;
}

static void copy_rouse(struct copy *copy)
{
    list_remove(&copy->link);
    list_append(&copy->queue->copies, &copy->link);
    link_wake(copy->transfer->endpoint->link);
}

static void copy_on_free(struct gpu_waiter *waiter)
{
    copy_rouse(list_entry(waiter, struct copy, waiter));
}

void copy_gpu_init(struct copy_queue *queue, struct copy *copy)
{
    copy->queue = queue;
    list_init(&copy->pieces);
    list_init(&copy->waiter.link);
    copy->waiter.wake = copy_on_free;
}

void copy_gpu_fini(struct copy *copy)
{
    list_remove(&copy->waiter.link);
    while (!list_empty(&copy->pieces))
        gpu_copy_abandon(list_entry(copy->pieces.next, struct gpu_copy, member));
    copy->flying = 0;
}

/* The oldest piece has ended; for the host, its bytes are in the chunk. */
static void piece_on_done(struct gpu_copy *piece)
{
    struct copy *copy = piece->owner;
    struct transfer *transfer = copy->transfer;
    const struct route route = copy_route(copy);
    int rc = TS_OK;

    list_remove(&piece->member);
    copy->flying--;
    if (route.lane == GPU_LANE_OUT)
        rc = memory_store(route.to, route.to_offset + piece->offset, piece->bytes, piece->size);
    if (rc == TS_OK) {
        transfer->moved += piece->size;
        endpoint_moved(transfer->endpoint, transfer->read ? 0 : piece->size,
                       transfer->read ? piece->size : 0);
    }
    gpu_copy_give(piece);
    if (rc != TS_OK || transfer->moved == transfer->length)
        copy_end(transfer, rc);
    else if (copy->begun < transfer->length)
        copy_rouse(copy);
}

static int piece_fly(struct gpu_copy *piece, const struct route *route, uint64_t at, size_t size)
{
    uint64_t from = route->from_offset + at, to = route->to_offset + at;
    int rc;

    if (route->lane == GPU_LANE_OUT)
        return gpu_copy_out(piece, route->from->gpu, from, size, NULL);
    if (route->lane == GPU_LANE_BETWEEN)
        return gpu_copy_between(piece, route->to->gpu, to, route->from->gpu, from, size, NULL);
    rc = memory_load(piece->bytes, route->from, from, size);
    return rc == TS_OK ? gpu_copy_in(piece, route->to->gpu, to, size, NULL) : rc;
}

/* TS_OK; TS_AGAIN: not now. */
static int piece_begin(struct copy *copy)
{
    const struct route route = copy_route(copy);
    uint64_t left = copy->transfer->length - copy->begun;
    struct gpu_copy *piece = gpu_copy_take(route.device, route.lane);
    int rc;

    if (piece == NULL) {
        gpu_wait(route.device, route.lane, &copy->waiter);
        return TS_AGAIN;
    }
    rc = piece_fly(piece, &route, copy->begun, left < route.most ? left : route.most);
    if (rc != TS_OK) {
        gpu_copy_give(piece);
        return rc;
    }
    piece->done = piece_on_done;
    piece->owner = copy;
    piece->offset = copy->begun;
    list_append(&copy->pieces, &piece->member);
    copy->flying++;
    copy->begun += piece->size;
    return TS_OK;
}

int copy_gpu_work(struct copy *copy, int *status)
{
    int done = 0, rc = TS_OK;

    while (rc == TS_OK && copy->begun < copy->transfer->length && copy->flying < PIECES_AHEAD) {
        rc = piece_begin(copy);
        done += rc == TS_OK;
    }
    if (rc < 0) {
        *status = rc;
        return done;
    }
    list_remove(&copy->link);
    list_append(&copy->queue->resting, &copy->link);
    return done;
}
