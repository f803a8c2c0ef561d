/* Transfers between two mappings of this worker: one copy, in bounded turns. */
#ifndef TESUP_WORKER_FABRIC_LOCAL_COPY_H
#define TESUP_WORKER_FABRIC_LOCAL_COPY_H

#include "worker/fabric/fabric.h"
#include "worker/region.h"

struct copy_queue {
    struct list copies; /* in turn */
    uint32_t slice;     /* bytes of one turn */
};

void copy_queue_init(struct copy_queue *queue, uint32_t slice);

/* Starts; what fits one slice is done before this returns. `remote` is the remote memory at
 * `offset`; `owner` (may be NULL) is its region when it is of this worker, with a reference that
 * becomes the copy's. */
void copy_post(struct copy_queue *queue, struct transfer *transfer, const struct memory *remote,
               uint64_t offset, struct region *owner);
/* One slice of each. Returns how many were moved on. */
int copy_do_work(struct copy_queue *queue);
/* Ends with `status`; nothing is half-way, copies only run inside do_work. */
void copy_end(struct transfer *transfer, int status);
void copy_forget(struct transfer *transfer);
/* Ends all that touch this remote memory. */
void copy_revoke(struct copy_queue *queue, const struct memory *remote, int status);
void copy_queue_fini(struct copy_queue *queue);

#endif
