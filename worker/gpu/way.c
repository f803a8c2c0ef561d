#include "worker/gpu/way.h"

#include <stdio.h>
#include <string.h>

#include "worker/gpu/mapping.h"
#include "worker/region.h"

static const char *const way_names[] = {[GPU_WAY_STAGING] = "staging",
                                        [GPU_WAY_PEERMEM] = "rdma (peer memory)",
                                        [GPU_WAY_DMABUF] = "rdma (dmabuf)"};

/* Regions of one GPU that go the same way for the same reason share a line.  With more different
 * ones than there are lines, the rest has none. */
static struct counters_gpu *line_find(struct counters_worker *block, const char *gpu,
                                      const char *way, const char *why)
{
    struct counters_gpu *free_line = NULL;

    for (unsigned i = 0; i < COUNTERS_GPUS; i++) {
        struct counters_gpu *line = &block->gpu[i];

        if (atomic_peek(&line->regions) == 0)
            free_line = line;
        else if (strcmp(line->gpu, gpu) == 0 && strcmp(line->way, way) == 0 &&
                 strcmp(line->why, why) == 0)
            return line;
    }
    if (free_line == NULL)
        return NULL;
    counters_write_begin(&free_line->seq);
    atomic_set(&free_line->bytes, 0);
    snprintf(free_line->gpu, sizeof(free_line->gpu), "%s", gpu);
    snprintf(free_line->way, sizeof(free_line->way), "%s", way);
    snprintf(free_line->why, sizeof(free_line->why), "%s", why);
    counters_write_end(&free_line->seq);
    return free_line;
}

void gpu_way_clear(struct region *region)
{
    struct counters_gpu *line = region->way;

    if (line == NULL)
        return;
    atomic_count(&line->regions, (uint64_t)-1);
    atomic_count(&line->bytes, (uint64_t)-region->memory.length);
    region->way = NULL;
}

void gpu_way_set(struct region *region, enum gpu_way way, const char *why)
{
    struct counters_gpu *line;

    gpu_way_clear(region);
    line =
        line_find(region->worker->block, region->memory.gpu->device->bus_id, way_names[way], why);
    if (line == NULL)
        return;
    atomic_count(&line->regions, 1);
    atomic_count(&line->bytes, region->memory.length);
    region->way = line;
}
