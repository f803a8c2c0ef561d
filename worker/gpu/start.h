/* CUDA takes some 100 ms to start in a process, and each further GPU takes as long.  A thread does
 * it, and the loop goes on; messages with memory of such a GPU wait here.
 *
 * Nothing waits behind them: what others have to do with the same memory is done at once, or, in a
 * worker that was started anew, kept by the session (session_hold).  Whoever ends drops what waits
 * for it. */
#ifndef TESUP_WORKER_GPU_START_H
#define TESUP_WORKER_GPU_START_H

#include <stdbool.h>

#include "shm/wire.h"

struct worker;

/* For whom a message waits. */
struct gpu_claim {
    void *owner;     /* names it in gpu_start_drop and gpu_start_waits */
    uint32_t handle; /* one of the owner's messages; never 0 */
    bool served;     /* as gpu_device_reach means it */
    /* CUDA is there, or has failed to start: the message is looked at again. */
    void (*resume)(void *owner, struct wire_message *message);
};

/* True: the message (WIRE_REGION_ADD_GPU) is taken, and comes back by `resume`.  False: its GPU is
 * there, or never will be, so go on at once. */
bool gpu_start_defer(struct worker *worker, struct wire_message *message,
                     const struct gpu_claim *claim);
/* Drops what waits for the owner under that handle; 0: all of it. False: nothing did. */
bool gpu_start_drop(struct worker *worker, const void *owner, uint32_t handle);
bool gpu_start_waits(const struct worker *worker, const void *owner);
/* Waits for the thread; messages that wait are dropped. */
void gpu_start_close(struct worker *worker);

#endif
