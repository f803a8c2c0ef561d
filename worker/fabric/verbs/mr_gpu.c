/* Memory of a GPU with the device: by its dmabuf, else by its address, which the kernel's peer
 * memory client (nvidia-peermem) knows how to pin.  Where neither works the region has no keys, and
 * goes through the host beside the queue pairs; what the reasons are is kept for status. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "worker/fabric/verbs/mr.h"
#include "worker/gpu/mapping.h"
#include "worker/gpu/way.h"

static struct ibv_mr *piece_register(const struct verbs_mr *mr, bool dmabuf, uint64_t begin,
                                     uint64_t size)
{
    const struct gpu_mapping *gpu = mr->gpu;

    if (dmabuf)
        return ibv_reg_dmabuf_mr(mr->nic->pd, gpu->ask.dmabuf_offset + begin, size,
                                 mr->base + begin, gpu_mapping_dmabuf(gpu), (int)mr->access);
    return ibv_reg_mr(mr->nic->pd, (void *)(uintptr_t)(mr->base + begin), size, mr->access);
}

/* 0 or errno; then nothing is registered. */
static int pieces_register(struct verbs_mr *mr, bool dmabuf)
{
    int error;

    for (uint32_t i = 0; i < mr->count; i++) {
        uint64_t begin = (uint64_t)i << VERBS_PIECE_SHIFT;
        uint64_t size = mr->length - begin < VERBS_PIECE ? mr->length - begin : VERBS_PIECE;

        mr->pieces[i] = piece_register(mr, dmabuf, begin, size);
        if (mr->pieces[i] == NULL) {
            error = errno != 0 ? errno : EINVAL;
            while (i-- > 0) {
                ibv_dereg_mr(mr->pieces[i]);
                mr->pieces[i] = NULL;
            }
            return error;
        }
        mr->lkeys[i] = mr->pieces[i]->lkey;
        mr->rkeys[i] = mr->pieces[i]->rkey;
    }
    return 0;
}

/* In any thread.  The keys are for the job's own addresses with a dmabuf, whose pages they must
 * share an offset with, and for ours with peer memory, which is known to the kernel by them. */
void verbs_mr_register_gpu(struct verbs_mr *mr)
{
    const struct gpu_mapping *gpu = mr->gpu;

    if (gpu_mapping_dmabuf(gpu) >= 0) {
        mr->base = mr->gpu_base;
        mr->dmabuf_error = pieces_register(mr, true);
        mr->dmabuf = mr->dmabuf_error == 0;
        if (mr->dmabuf)
            return;
    }
    mr->base = gpu->at;
    mr->error = pieces_register(mr, false);
}

/* Why not by the dmabuf; "" if it is. */
static void dmabuf_explain(const struct verbs_mr *mr, char *text, size_t size)
{
    const struct gpu_mapping *gpu = mr->gpu;

    text[0] = '\0';
    if (gpu_mapping_dmabuf(gpu) < 0)
        snprintf(text, size, "no dmabuf (%s: open kernel modules, driver 530 or newer)",
                 cuda_name(&gpu->device->gpu->driver, (enum cuda_result)gpu->ask.dmabuf_result));
    else if (!mr->dmabuf)
        snprintf(text, size, "%s takes no dmabuf (%s)", mr->nic->name, strerror(mr->dmabuf_error));
}

void verbs_mr_tell_gpu(const struct verbs_mr *mr, struct region *region)
{
    char dmabuf[100], why[COUNTERS_TEXT];

    dmabuf_explain(mr, dmabuf, sizeof(dmabuf));
    if (mr->dmabuf)
        gpu_way_set(region, GPU_WAY_DMABUF, "");
    else if (mr->error == 0)
        gpu_way_set(region, GPU_WAY_PEERMEM, dmabuf);
    else {
        snprintf(why, sizeof(why), "%s, and no peer memory (%s: modprobe nvidia-peermem)", dmabuf,
                 strerror(mr->error));
        gpu_way_set(region, GPU_WAY_STAGING, why);
    }
}

struct verbs_mr *verbs_mr_new_gpu(struct verbs_nic *nic, const struct region *region)
{
    struct verbs_mr *mr = verbs_mr_new(nic, region);

    if (mr == NULL)
        return NULL;
    mr->gpu = region->memory.gpu;
    gpu_mapping_hold(mr->gpu); /* released with the registration */
    mr->gpu->device->by_nic++;
    mr->gpu_base = region->memory.base;
    mr->pieces = calloc(mr->count, sizeof(struct ibv_mr *));
    if (mr->pieces != NULL)
        return mr;
    verbs_mr_free(mr);
    return NULL;
}
