/* What NVML tells of the GPUs: an error that CUDA will only tell at the next call. */
#include "worker/gpu/watch.h"

#include <stdio.h>

#include "shm/err.h"
#include "shm/nvml.h"
#include "worker/gpu/device.h"
#include "worker/worker.h"

void gpu_watch_open(struct gpu_device *device)
{
    struct gpu *gpu = device->gpu;
    char text[PROTO_TEXT_MAX] = "";

    /* Without it a lost GPU is noticed when something is asked of it. */
    if (gpu->nvml == NULL)
        gpu->nvml = nvml_open(text, sizeof(text));
    if (gpu->nvml != NULL &&
        nvml_watch_open(gpu->nvml, device->bus_id, &device->watch, text, sizeof(text)) != TS_OK)
        device->watch = NULL;
}

void gpu_watch_close(struct gpu_device *device)
{
    if (device->watch != NULL)
        nvml_watch_close(device->watch);
    device->watch = NULL;
}

void gpu_look(struct worker *worker)
{
    struct nvml_event event;

    list_each (node, following, &worker->gpu->devices) {
        struct gpu_device *device = list_entry(node, struct gpu_device, link);

        if (device->watch == NULL || !nvml_watch_poll(device->watch, &event))
            continue;
        if (event.severe)
            gpu_lose(device, event.text);
        else
            worker_error(worker, &worker->job_limit, "GPU %s: %s: some program's own error",
                         device->bus_id, event.text);
    }
}
