#include "worker/fabric/local/copy.h"

#include <stdlib.h>

#include "worker/endpoint.h"

struct copy {
    struct list link;
    struct transfer *transfer;
    const struct memory *remote;
    uint64_t offset;
    struct region *owner;
};

void copy_queue_init(struct copy_queue *queue, uint32_t slice)
{
    list_init(&queue->copies);
    queue->slice = slice;
}

static int copy_slice(struct transfer *transfer, const struct memory *remote, uint64_t offset,
                      size_t length)
{
    const struct memory *local = &transfer->local->memory;
    uint64_t here = transfer->local_offset + transfer->moved;
    uint64_t there = offset + transfer->moved;
    int rc = transfer->read ? memory_copy(local, here, remote, there, length)
                            : memory_copy(remote, there, local, here, length);

    if (rc != TS_OK)
        return rc;
    transfer->moved += length;
    endpoint_moved(transfer->endpoint, transfer->read ? 0 : length, transfer->read ? length : 0);
    return TS_OK;
}

static void copy_free(struct copy *copy)
{
    list_remove(&copy->link);
    if (copy->owner != NULL)
        region_release(copy->owner);
    free(copy);
}

void copy_end(struct transfer *transfer, int status)
{
    copy_free(transfer->progress);
    transfer->progress = NULL;
    transfer_on_done(transfer, status, transfer->moved);
}

void copy_forget(struct transfer *transfer)
{
    if (transfer->progress != NULL)
        copy_free(transfer->progress);
    transfer->progress = NULL;
}

void copy_post(struct copy_queue *queue, struct transfer *transfer, const struct memory *remote,
               uint64_t offset, struct region *owner)
{
    struct copy *copy;
    int rc;

    transfer->started = true;
    if (transfer->length <= queue->slice && list_empty(&queue->copies)) {
        rc = copy_slice(transfer, remote, offset, transfer->length);
        if (owner != NULL)
            region_release(owner);
        transfer_on_done(transfer, rc, transfer->moved);
        return;
    }
    copy = malloc(sizeof(*copy));
    if (copy == NULL) {
        if (owner != NULL)
            region_release(owner);
        transfer_on_done(transfer, TS_ERR_NO_MEMORY, 0);
        return;
    }
    *copy = (struct copy){.transfer = transfer, .remote = remote, .offset = offset, .owner = owner};
    transfer->progress = copy;
    list_append(&queue->copies, &copy->link);
}

int copy_do_work(struct copy_queue *queue)
{
    int done = 0;

    list_each (node, following, &queue->copies) {
        struct copy *copy = list_entry(node, struct copy, link);
        struct transfer *transfer = copy->transfer;
        uint64_t left = transfer->length - transfer->moved;
        int rc = copy_slice(transfer, copy->remote, copy->offset,
                            left < queue->slice ? left : queue->slice);

        done++;
        if (rc != TS_OK || transfer->moved == transfer->length) {
            copy_end(transfer, rc);
            break; /* its completion may have changed the list: the rest has its turn next */
        }
    }
    return done;
}

void copy_revoke(struct copy_queue *queue, const struct memory *remote, int status)
{
    bool again = true;

    while (again) {
        again = false;
        list_each (node, following, &queue->copies) {
            struct copy *copy = list_entry(node, struct copy, link);

            if (copy->remote != remote)
                continue;
            copy_end(copy->transfer, status);
            again = true; /* the list may have changed under us */
            break;
        }
    }
}

void copy_queue_fini(struct copy_queue *queue)
{
    while (!list_empty(&queue->copies)) {
        struct copy *copy = list_entry(queue->copies.next, struct copy, link);

        copy->transfer->progress = NULL;
        copy_free(copy);
    }
}
