#include "worker/fabric/local/copy.h"

#include <stdlib.h>

#include "shm/err.h"
#include "worker/endpoint.h"

void copy_queue_init(struct copy_queue *queue, uint32_t slice)
{
    list_init(&queue->copies);
    list_init(&queue->resting);
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
    copy_gpu_fini(copy);
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

static bool copy_is_of_gpu(const struct transfer *transfer, const struct memory *remote)
{
    return transfer->local->memory.gpu != NULL || remote->gpu != NULL;
}

void copy_post(struct copy_queue *queue, struct transfer *transfer, const struct memory *remote,
               uint64_t offset, struct region *owner)
{
    struct copy *copy;
    int rc;

    transfer->started = true;
    if (transfer->length <= queue->slice && list_empty(&queue->copies) &&
        !copy_is_of_gpu(transfer, remote)) {
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
    copy_gpu_init(queue, copy);
    transfer->progress = copy;
    list_append(&queue->copies, &copy->link);
}

/* The next slice, or what a GPU can begin. Returns how much was done. */
static int copy_step(struct copy_queue *queue, struct copy *copy, int *status)
{
    struct transfer *transfer = copy->transfer;
    uint64_t left = transfer->length - transfer->moved;

    *status = TS_OK;
    if (copy_is_of_gpu(transfer, copy->remote))
        return copy_gpu_work(copy, status);
    *status =
        copy_slice(transfer, copy->remote, copy->offset, left < queue->slice ? left : queue->slice);
    return 1;
}

int copy_do_work(struct copy_queue *queue)
{
    int done = 0, rc;

    list_each (node, following, &queue->copies) {
        struct copy *copy = list_entry(node, struct copy, link);

        done += copy_step(queue, copy, &rc);
        if (rc != TS_OK || copy->transfer->moved == copy->transfer->length) {
            copy_end(copy->transfer, rc);
            break; /* its completion may have changed the list: the rest has its turn next */
        }
    }
    return done;
}

static struct copy *copy_find(const struct list *copies, const struct memory *remote)
{
    list_each (node, following, copies) {
        struct copy *copy = list_entry(node, struct copy, link);

        if (copy->remote == remote)
            return copy;
    }
    return NULL;
}

void copy_revoke(struct copy_queue *queue, const struct memory *remote, int status)
{
    struct copy *copy;

    /* An end may change the lists under us. */
    while ((copy = copy_find(&queue->copies, remote)) != NULL ||
           (copy = copy_find(&queue->resting, remote)) != NULL)
        copy_end(copy->transfer, status);
}

static void copies_free(struct list *copies)
{
    while (!list_empty(copies)) {
        struct copy *copy = list_entry(copies->next, struct copy, link);

        copy->transfer->progress = NULL;
        copy_free(copy);
    }
}

void copy_queue_fini(struct copy_queue *queue)
{
    copies_free(&queue->copies);
    copies_free(&queue->resting);
}
