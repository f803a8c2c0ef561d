/* Registration of regions with the device: once per file, range and rights, however many jobs
 * register it; in pieces, so that no device's limit is met; large ones by a thread, so that the
 * loop goes on (registering pins every page: half a second per GiB is common). */
#ifndef TESUP_WORKER_FABRIC_VERBS_MR_H
#define TESUP_WORKER_FABRIC_VERBS_MR_H

#include <stdatomic.h>

#include "worker/fabric/verbs/nic.h"
#include "worker/region.h"

#define VERBS_PIECE_SHIFT 30u /* 1 GiB: what one key is good for */
#define VERBS_PIECE       (UINT64_C(1) << VERBS_PIECE_SHIFT)

struct verbs_mr {
    struct verbs_nic *nic;
    struct list member;  /* nic->mrs */
    struct list work;    /* in the registrar's queues */
    struct list regions; /* struct region.mr_node */
    /* which memory */
    uint64_t device, inode, offset, length;
    unsigned access; /* IBV_ACCESS_* */
    void *mapping;   /* of its own, as the regions' may go before it does */
    size_t mapping_size;
    uint64_t base; /* address that the keys are for */
    /* what came of it */
    bool ready, failed;
    bool settling; /* its regions are being told: do not free it */
    int error;
    uint32_t count;
    uint32_t *lkeys, *rkeys;
    struct ibv_mr **pieces;
    uint32_t *handles; /* instead of pieces: registered by the job */
    /* memory of a GPU (mr_gpu.c) */
    struct gpu_mapping *gpu; /* held; NULL: host memory */
    uint64_t gpu_base;       /* address in the job */
    bool dmabuf;             /* it took that way */
    int dmabuf_error;
};

/* Without memory behind it yet. NULL: no memory, or more than FRAME_KEYS_MAX pieces. */
struct verbs_mr *verbs_mr_new(struct verbs_nic *nic, const struct region *region);
void verbs_mr_free(struct verbs_mr *mr);
unsigned verbs_mr_access(const struct region *region);

/* mr_gpu.c */
struct verbs_mr *verbs_mr_new_gpu(struct verbs_nic *nic, const struct region *region);
void verbs_mr_register_gpu(struct verbs_mr *mr);
/* Says in status which way the region goes. */
void verbs_mr_tell_gpu(const struct verbs_mr *mr, struct region *region);

/* Is it registered with the device, or about to be? */
static inline bool verbs_mr_is_known(const struct region *region)
{
    return region->mr != NULL && !region->mr->failed;
}

/* How to reach `offset` of the region: key, address, and bytes up to the end of that piece.
 * TS_OK, TS_AGAIN while it is being registered, TS_ERR_UNSUPPORTED when it is not. */
int verbs_mr_local(const struct region *region, uint64_t offset, uint32_t *lkey, uint64_t *address,
                   uint64_t *left);

#endif
