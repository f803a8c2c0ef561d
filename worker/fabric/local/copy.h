/* Transfers between two mappings of this worker: one copy, in bounded turns.
 *
 * Where one of them is of a GPU, the GPU copies (gpu.c): between two of them directly, from and to
 * the host through pinned chunks, some pieces at a time, and the loop goes on meanwhile. */
#ifndef TESUP_WORKER_FABRIC_LOCAL_COPY_H
#define TESUP_WORKER_FABRIC_LOCAL_COPY_H

#include "worker/fabric/fabric.h"
#include "worker/gpu/staging.h"
#include "worker/region.h"

struct copy_queue {
    struct list copies;  /* in turn */
    struct list resting; /* of a GPU, whose pieces must get on first */
    uint32_t slice;      /* bytes of one turn */
};

struct copy {
    struct list link;
    struct transfer *transfer;
    const struct memory *remote;
    uint64_t offset;
    struct region *owner;
    /* of a GPU */
    struct copy_queue *queue;
    struct list pieces; /* gpu_copy.member, oldest first */
    uint32_t flying;
    uint64_t begun; /* bytes that pieces were begun for */
    struct gpu_waiter waiter;
};

void copy_queue_init(struct copy_queue *queue, uint32_t slice);

/* Starts; what fits one slice is done before this returns. `remote` is the remote memory at
 * `offset`; `owner` (may be NULL) is its region when it is of this worker, with a reference that
 * becomes the copy's. */
void copy_post(struct copy_queue *queue, struct transfer *transfer, const struct memory *remote,
               uint64_t offset, struct region *owner);
/* One slice of each. Returns how many were moved on. */
int copy_do_work(struct copy_queue *queue);
/* Ends with `status`; nothing is half-way: what a GPU has begun is waited for, a moment. */
void copy_end(struct transfer *transfer, int status);
void copy_forget(struct transfer *transfer);
/* Ends all that touch this remote memory. */
void copy_revoke(struct copy_queue *queue, const struct memory *remote, int status);
void copy_queue_fini(struct copy_queue *queue);

/* gpu.c */
/* Begins pieces. Returns how many; `*status` is an error that ends the copy. */
int copy_gpu_work(struct copy *copy, int *status);
void copy_gpu_init(struct copy_queue *queue, struct copy *copy);
/* Nothing of it is under way any more. */
void copy_gpu_fini(struct copy *copy);

#endif
