/* The link of a worker to itself: both segments are sessions of this worker. */
#include <stdlib.h>
#include <string.h>

#include "worker/endpoint.h"
#include "worker/fabric/local/copy.h"
#include "worker/inbound.h"

struct self_frame {
    struct list link;
    struct frame frame;
    uint8_t payload[];
};

struct self_link {
    struct link link;
    struct list frames;
    struct copy_queue copies;
};

static struct self_link *self_of(struct link *link)
{
    return list_entry(link, struct self_link, link);
}

static int self_send(struct link *link, const struct frame *frame, const void *part1, size_t size1,
                     const void *part2, size_t size2)
{
    struct self_link *self = self_of(link);
    struct self_frame *copy = malloc(sizeof(*copy) + size1 + size2);

    if (copy == NULL)
        return TS_ERR_NO_MEMORY;
    copy->frame = *frame;
    if (size1 > 0)
        memcpy(copy->payload, part1, size1);
    if (size2 > 0)
        memcpy(copy->payload + size1, part2, size2);
    list_append(&self->frames, &copy->link);
    link_wake(link);
    return TS_OK;
}

static void self_post(struct link *link, struct transfer *transfer)
{
    struct self_link *self = self_of(link);
    uint64_t offset = transfer->remote_offset;
    struct region *region = NULL;
    struct inbound *inbound;
    void *object;
    int rc = table_get(&link->endpoint->inbounds, transfer->open, &object);

    inbound = object;
    if (rc == TS_OK)
        rc =
            inbound->session == NULL
                ? TS_ERR_GONE
                : region_use_remote(inbound->session, transfer->remote_region, transfer->by_address,
                                    &offset, transfer->length, !transfer->read, &region);
    if (rc != TS_OK) {
        transfer_on_done(transfer, rc, 0);
        return;
    }
    copy_post(&self->copies, transfer, &region->memory, offset, region);
    if (!list_empty(&self->copies.copies))
        link_wake(link);
}

static void self_cancel(struct link *link, struct transfer *transfer)
{
    (void)link;
    copy_end(transfer, TS_ERR_CANCELLED);
}

static void self_forget(struct link *link, struct transfer *transfer)
{
    (void)link;
    copy_forget(transfer);
}

/* What had no memory to be delivered is tried again, before what came later. */
static void self_requeue(struct self_link *self, struct list *rest)
{
    struct list *first = self->frames.next;

    while (!list_empty(rest)) {
        struct list *node = rest->next;

        list_remove(node);
        list_append(first, node); /* before it: the list is a ring */
    }
}

static int self_do_work(struct link *link)
{
    struct self_link *self = self_of(link);
    struct list now;
    int done = 0, rc;

    /* Frames that these cause have their turn in the next call. */
    list_init(&now);
    while (!list_empty(&self->frames)) {
        struct list *node = self->frames.next;

        list_remove(node);
        list_append(&now, node);
    }
    while (!list_empty(&now)) {
        struct self_frame *copy = list_entry(now.next, struct self_frame, link);

        rc = link_on_frame(link, &copy->frame, copy->payload);
        if (rc == TS_ERR_NO_MEMORY)
            break;
        if (rc != TS_OK)
            worker_error(link->endpoint->worker, &link->endpoint->worker->job_limit,
                         "a frame of type %u to ourselves makes no sense", copy->frame.type);
        list_remove(&copy->link);
        free(copy);
        done++;
    }
    self_requeue(self, &now);
    done += copy_do_work(&self->copies);
    if (!list_empty(&self->frames) || !list_empty(&self->copies.copies))
        link_wake(link);
    return done;
}

static void self_revoke(struct link *link, struct region *region)
{
    copy_revoke(&self_of(link)->copies, &region->memory, TS_ERR_GONE);
}

static void self_close(struct link *link)
{
    struct self_link *self = self_of(link);

    while (!list_empty(&self->frames)) {
        struct self_frame *copy = list_entry(self->frames.next, struct self_frame, link);

        list_remove(&copy->link);
        free(copy);
    }
    copy_queue_fini(&self->copies);
    list_remove(&link->busy);
    free(self);
}

static const struct link_ops self_ops = {
    .name = "self",
    .notify = "local",
    .send = self_send,
    .post = self_post,
    .cancel = self_cancel,
    .forget = self_forget,
    .do_work = self_do_work,
    .flush = link_flush_once,
    .revoke = self_revoke,
    .close = self_close,
};

struct link *self_link_open(struct endpoint *endpoint)
{
    struct self_link *self = calloc(1, sizeof(*self));

    if (self == NULL)
        return NULL;
    link_init(&self->link, &self_ops, endpoint);
    list_init(&self->frames);
    copy_queue_init(&self->copies, endpoint->worker->config.slice_bytes);
    return &self->link;
}
