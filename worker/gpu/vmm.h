/* Memory of cuMemCreate, in the worker's context: one piece for each handle, side by side. */
#ifndef TESUP_WORKER_GPU_VMM_H
#define TESUP_WORKER_GPU_VMM_H

#include "worker/gpu/device.h"

struct gpu_vmm {
    cuda_pointer base; /* of the reservation; 0: none */
    size_t size;
    uint32_t mapped; /* pieces */
    uint64_t piece[PROTO_GPU_PIECES_MAX];
};

/* Maps what the descriptors are of, as long as `ask` says each is. TS_OK or an error with text.
 * The descriptors stay the caller's. */
int gpu_vmm_open(struct gpu_device *device, const struct proto_gpu *ask, const int *fds,
                 struct gpu_vmm *vmm, char *text, size_t text_size);
void gpu_vmm_close(struct gpu_device *device, struct gpu_vmm *vmm);

#endif
