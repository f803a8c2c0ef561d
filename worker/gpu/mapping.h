/* A job's GPU memory in the worker's context: opened by CUDA IPC, or by the handle of cuMemCreate.
 */
#ifndef TESUP_WORKER_GPU_MAPPING_H
#define TESUP_WORKER_GPU_MAPPING_H

#include "worker/gpu/device.h"

/* An allocation; regions in it share it. */
struct gpu_allocation;

struct gpu_mapping {
    struct gpu_device *device;
    struct gpu_allocation *allocation;
    cuda_pointer at; /* of the region's first byte, here */
    uint64_t length;
    uint32_t holders;
    struct proto_gpu ask; /* for peer workers and NICs */
    int fd_count;
    int fds[];
};

/* Whose memory it is. */
enum gpu_owner {
    GPU_OWNER_JOB,     /* of this worker: on the pair's GPU */
    GPU_OWNER_TRUSTED, /* that job, and it may hand in IPC handles (see docs/gpu.md) */
    GPU_OWNER_PEER,    /* of a peer worker of this host */
};

/* Takes the descriptors in any case. TS_OK with one holder, or an error with text. */
int gpu_mapping_open(struct worker *worker, const struct proto_region_gpu *region, const int *fds,
                     int fd_count, enum gpu_owner owner, struct gpu_mapping **mapping, char *text,
                     size_t text_size);
static inline void gpu_mapping_hold(struct gpu_mapping *mapping)
{
    mapping->holders++;
}
void gpu_mapping_release(struct gpu_mapping *mapping);

/* Its dmabuf, or -1. */
int gpu_mapping_dmabuf(const struct gpu_mapping *mapping);

#endif
