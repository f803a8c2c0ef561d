/* Asynchronous copies from and to a GPU: through a fixed number of pinned chunks, or between
 * devices.
 *
 *   gpu_copy_take -> fill what it needs -> gpu_copy_start_* -> ... gpu_poll calls `done` -> give
 * back
 *
 * Chunks are made once for each device (GPU_COPIES of GPU_CHUNK bytes for either direction), on the
 * worker's NUMA node.  Either direction has its own, so that a peer that does not read cannot keep
 * others from writing here.  Who finds none free waits in line.
 *
 * A busy loop asks each lane's oldest event; before the loop sleeps, a function of the host behind
 * what flies is asked to ring (gpu_arm).
 */
#ifndef TESUP_WORKER_GPU_STAGING_H
#define TESUP_WORKER_GPU_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/gpu/device.h"

#define GPU_CHUNK  (256u * 1024u)
#define GPU_COPIES 32u                  /* of each lane */
#define GPU_PIECE  (4u * 1024u * 1024u) /* between devices: what one copy moves at most */

struct gpu_mapping;
struct region;

struct gpu_copy {
    struct list link;   /* of its lane: free or flying */
    struct list member; /* its owner's */
    struct gpu_lane *lane;
    struct gpu_device *device;
    struct cuda_event *event;
    uint8_t *bytes; /* GPU_CHUNK of pinned memory; NULL between devices */
    size_t size;
    struct gpu_mapping *mapping[2]; /* held while it flies */
    struct region *region;          /* referenced while it flies; NULL none */
    /* The bytes are where they should be, and the copy is the owner's again. NULL: nobody wants to
     * know, and it is free again. */
    void (*done)(struct gpu_copy *copy);
    void *owner;
    uint64_t offset; /* for the owner */
};

/* Someone who found no free copy.  `wake` is called once, when there is one. */
struct gpu_waiter {
    struct list link;
    void (*wake)(struct gpu_waiter *waiter);
};

int gpu_lanes_open(struct gpu_device *device, char *text, size_t text_size);
/* What still flies is waited for, unless the device is lost. */
void gpu_lanes_close(struct gpu_device *device);

/* NULL: none is free. */
struct gpu_copy *gpu_copy_take(struct gpu_device *device, enum gpu_lane_kind kind);
void gpu_copy_give(struct gpu_copy *copy);
/* In line behind others, once. */
void gpu_wait(struct gpu_device *device, enum gpu_lane_kind kind, struct gpu_waiter *waiter);

/* `size` bytes at `offset` of the mapping to the chunk's beginning, or from there. `region` (may be
 * NULL) is kept from going meanwhile. TS_OK, or an error that was reported: then nothing flies and
 * the copy is the caller's. */
int gpu_copy_out(struct gpu_copy *copy, struct gpu_mapping *from, uint64_t offset, size_t size,
                 struct region *region);
int gpu_copy_in(struct gpu_copy *copy, struct gpu_mapping *to, uint64_t offset, size_t size,
                struct region *region);
/* From memory of one device to memory of another or the same. */
int gpu_copy_between(struct gpu_copy *copy, struct gpu_mapping *to, uint64_t to_offset,
                     struct gpu_mapping *from, uint64_t from_offset, size_t size,
                     struct region *region);
/* Its owner does not want it any more: waits until it has ended, a moment, and frees it. */
void gpu_copy_abandon(struct gpu_copy *copy);

/* Calls `done` of what has ended. Returns how much that was. */
int gpu_poll(struct worker *worker);
/* The worker is about to sleep. True: there was something after all. */
bool gpu_arm(struct worker *worker);

#endif
