/* CUDA events of jobs: what a job recorded one behind has ended.
 *
 * A stream for each event waits in the job's stead and rings; so a wait is for what was recorded
 * when it was asked for, whatever the job records afterwards.
 */
#ifndef TESUP_WORKER_GPU_EVENT_H
#define TESUP_WORKER_GPU_EVENT_H

#include "worker/gpu/device.h"

struct gpu_event;

struct gpu_wait {
    struct list link; /* gpu.waits */
    struct gpu_event *event;
    uint64_t turn; /* of the event's rings */
    void (*done)(struct gpu_wait *wait);
};

/* `trusted`: the job may hand in handles of CUDA IPC. TS_OK or an error with text. */
int gpu_event_open(struct worker *worker, const struct proto_region_gpu *ask, bool trusted,
                   struct gpu_event **event, char *text, size_t text_size);
/* Nobody waits for it any more. */
void gpu_event_close(struct gpu_event *event);

/* wait->done is called once, from gpu_events_poll. TS_OK, or an error that status has, too. */
int gpu_event_wait(struct gpu_event *event, struct gpu_wait *wait);
/* Also for one that does not wait. */
void gpu_wait_cancel(struct gpu_wait *wait);

/* Returns how many waits have ended. */
int gpu_events_poll(struct gpu *gpu);
/* A device that died does not ring: asks those that are waited for. */
void gpu_events_look(struct gpu *gpu);
/* May the contexts be given back?  Not while a stream of theirs waits for what may never come. */
bool gpu_events_fini(struct gpu *gpu);

#endif
