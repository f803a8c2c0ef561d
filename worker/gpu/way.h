/* How a GPU region reaches other hosts, and why so: for status. */
#ifndef TESUP_WORKER_GPU_WAY_H
#define TESUP_WORKER_GPU_WAY_H

#include "shm/counters.h"

struct region;

enum gpu_way { GPU_WAY_STAGING, GPU_WAY_PEERMEM, GPU_WAY_DMABUF };

/* Says it; what was said of the region before is forgotten. */
void gpu_way_set(struct region *region, enum gpu_way way, const char *why);
void gpu_way_clear(struct region *region);

#endif
