/* CUDA takes some 100 ms to start in a process.  A thread does it when the first GPU region comes,
 * and the loop goes on; what asked for it waits here. */
#ifndef TESUP_WORKER_GPU_START_H
#define TESUP_WORKER_GPU_START_H

#include <stdbool.h>

#include "shm/wire.h"

struct worker;

typedef void gpu_resume(struct worker *worker, struct wire_message *message);

/* True: the message (WIRE_REGION_ADD_GPU) is taken, and `resume` is called with it once CUDA has
 * started, or has failed to.  False: go on at once. */
bool gpu_start_defer(struct worker *worker, struct wire_message *message, gpu_resume *resume);
/* Waits for the thread; messages that wait are dropped. */
void gpu_start_close(struct worker *worker);

#endif
