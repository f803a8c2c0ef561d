/* The worker's side of CUDA: the driver, and the GPUs whose memory it reaches.
 *
 * The driver is loaded, and a device's primary context made current, when the first GPU region
 * comes (gpu/start.h): a worker without one has no CUDA.  All other calls are made by the loop's
 * thread, and none waits for the GPU: copies are asked for and looked at again (gpu_poll), as
 * completions of a NIC are.
 *
 * A worker serves jobs with memory on its pair's GPU.  Others it opens only to reach memory that a
 * peer worker of this host exports.
 */
#ifndef TESUP_WORKER_GPU_DEVICE_H
#define TESUP_WORKER_GPU_DEVICE_H

#include "shm/cuda.h"
#include "shm/list.h"
#include "shm/proto.h"
#include "worker/reactor.h"

struct nvml;
struct nvml_watch;
struct worker;

/* Copies of one direction: a stream of their own, in which they end in the order of their start. */
enum gpu_lane_kind {
    GPU_LANE_OUT = 0, /* to the host */
    GPU_LANE_IN,      /* to the device */
    GPU_LANE_BETWEEN, /* devices only */
    GPU_LANES
};

struct gpu_lane {
    struct gpu *gpu;
    struct cuda_stream *stream;
    struct list flying;     /* struct gpu_copy.link, oldest first */
    struct list free;       /* struct gpu_copy.link */
    struct list waiters;    /* struct gpu_waiter.link, first come first */
    bool armed;             /* the stream rings when it gets to where it is */
    _Atomic uint64_t rings; /* by CUDA's thread */
    uint64_t heard;
    struct gpu_copy *copies; /* all of them */
    uint8_t *pinned;         /* GPU_CHUNK for each; NULL between devices */
};

struct gpu_device {
    struct list link; /* gpu.devices */
    struct gpu *gpu;
    cuda_device device;
    uint8_t uuid[16];
    char bus_id[16];
    struct cuda_context *context;
    struct list allocations; /* mapping.c */
    struct list events;      /* event.c */
    struct gpu_lane lane[GPU_LANES];
    bool flushes;             /* a NIC's writes are seen only after a flush */
    uint32_t by_nic;          /* regions that a NIC writes to */
    struct nvml_watch *watch; /* NULL: NVML tells nothing */
};

struct gpu {
    struct worker *worker;
    struct cuda_driver driver;
    struct list devices;
    struct list waits, rings;   /* event.c */
    struct gpu_device *current; /* whose context is current */
    struct source bell;
    struct nvml *nvml; /* NULL: not there */
    bool lost;         /* nothing is asked of CUDA any more: this process ends */
};

/* The worker's CUDA, made when first asked for. NULL with text. */
struct gpu *gpu_open(struct worker *worker, char *text, size_t text_size);
/* After all links: what flies ends, and nothing is copied any more. */
void gpu_settle(struct worker *worker);
/* After all regions and their registrations. */
void gpu_close(struct worker *worker);

/* Before CUDA is loaded: which devices it shall show this process. */
void gpu_choose_devices(const struct worker *worker);
/* The number of the device with that UUID; false: this process does not see it. */
bool gpu_device_number(const struct cuda_driver *driver, const uint8_t uuid[16],
                       cuda_device *number);
/* Is it the pair's GPU, or has the pair none? */
bool gpu_device_is_served(const struct cuda_driver *driver, const struct worker *worker,
                          cuda_device device, const uint8_t uuid[16]);
/* Would gpu_device_reach take long?  It would make the device's context, or start CUDA itself. */
bool gpu_device_is_new(const struct worker *worker, const uint8_t uuid[16], bool served);
/* The device of that UUID; `served`: only if gpu_device_is_served. TS_OK, or an
 * error with text. */
int gpu_device_reach(struct gpu *gpu, const uint8_t uuid[16], bool served,
                     struct gpu_device **device, char *text, size_t text_size);
/* Makes its context current. */
enum cuda_result gpu_device_enter(struct gpu_device *device);

/* What a failed call means: TS_ERR_NO_MEMORY, TS_ERR_UNSUPPORTED, TS_ERR_INVALID, TS_ERR_FAULT,
 * with CUDA's name in text.  A device that is lost ends the worker. */
int gpu_explain(struct gpu_device *device, const char *call, enum cuda_result result, char *text,
                size_t text_size);
/* What NICs have written to GPU memory of this worker's jobs is seen by all that is launched from
 * here on. False: the GPU is lost. */
bool gpu_flush(struct gpu *gpu);
/* Nothing is to be had from it any more: says so, and ends the worker. */
void gpu_lose(struct gpu_device *device, const char *why);
void gpu_lose_by(struct gpu_device *device, const char *call, enum cuda_result result);

#endif
