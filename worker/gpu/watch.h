/* Errors of the GPUs that this worker has open, as NVML tells them. */
#ifndef TESUP_WORKER_GPU_WATCH_H
#define TESUP_WORKER_GPU_WATCH_H

struct gpu_device;
struct worker;

void gpu_watch_open(struct gpu_device *device);
void gpu_watch_close(struct gpu_device *device);
/* Looks, without waiting. A severe error loses the GPU. */
void gpu_look(struct worker *worker);

#endif
