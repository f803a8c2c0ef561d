/* Private memory, registered in place: the kernel pins the pages of the process that calls, so the
 * job calls, on a descriptor of our device's context that it is lent for that (shm/uverbs.h).
 *
 * Whoever has that descriptor may do what this worker may: only jobs of the trust rule get it.  A
 * job that dies between its registration and its word of it leaves that registration to the end of
 * this process: nobody else knows its handle.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/uverbs.h"
#include "worker/fabric/verbs/link.h"
#include "worker/fabric/verbs/mr.h"

static_assert(PROTO_KEY_SHIFT == VERBS_PIECE_SHIFT, "a job's key is good for one piece");
static_assert(PROTO_KEYS_MAX == FRAME_KEYS_MAX, "what a job registers can be exported");

int verbs_region_grant(const struct region *region, struct proto_grant *grant, int *fd, char *text,
                       size_t text_size)
{
    const struct verbs_nic *nic = region->worker->verbs;

    if (nic == NULL || !memory_is_private(&region->memory) || nic->driver == UVERBS_DRIVER_NONE) {
        snprintf(text, text_size,
                 "this worker has no device that private memory could be "
                 "registered with");
        return TS_ERR_UNSUPPORTED;
    }
    if ((region->session->trusted & PROTO_TRUST_DEVICE) == 0) {
        snprintf(text, text_size,
                 "private memory over RDMA needs a job of the supervisor's own user, or of one in "
                 "rdma.trust_uids; use tesup_mem_alloc");
        return TS_ERR_DENIED;
    }
    *grant = (struct proto_grant){.handle = region->handle,
                                  .driver = nic->driver,
                                  .domain = nic->pd->handle,
                                  .access = verbs_mr_access(region)};
    *fd = nic->device->cmd_fd;
    return TS_OK;
}

static int keys_refused(const struct region *region, int error)
{
    struct worker *worker = region->worker;

    worker_error(worker, &worker->job_limit,
                 "process %u cannot register its private memory with %s: %s (its memlock limit; or "
                 "use tesup_mem_alloc): that region moves by TCP",
                 region->session->pid, worker->verbs->name, strerror(error));
    return TS_OK;
}

/* What the job registered for nothing goes again. */
static int keys_return(const struct verbs_nic *nic, const struct proto_keys *keys, int status)
{
    for (uint32_t i = 0; i < keys->count; i++)
        (void)uverbs_mr_deregister(nic->device->cmd_fd, nic->driver, keys->key[i].mr);
    return status;
}

int verbs_region_keys(struct region *region, const struct proto_keys *keys, char *text,
                      size_t text_size)
{
    struct verbs_nic *nic = region->worker->verbs;
    struct verbs_mr *mr;

    snprintf(text, text_size, "these keys do not fit the region");
    if (nic == NULL || !memory_is_private(&region->memory) ||
        (region->session->trusted & PROTO_TRUST_DEVICE) == 0)
        return TS_ERR_DENIED;
    if (keys->count > PROTO_KEYS_MAX)
        return TS_ERR_INVALID; /* which of them are there is not known: none is touched */
    if (keys->error != 0)
        return keys_refused(region, (int)keys->error);
    if (region->mr != NULL)
        return keys_return(nic, keys, TS_ERR_EXISTS);
    mr = verbs_mr_new(nic, region);
    if (mr == NULL)
        return keys_return(nic, keys, TS_ERR_NO_MEMORY);
    mr->handles = keys->count == mr->count ? calloc(mr->count, sizeof(uint32_t)) : NULL;
    region->mr = mr;
    list_append(&mr->regions, &region->mr_node);
    if (mr->handles == NULL) {
        mr->failed = true;
        verbs_region_remove(region);
        return keys_return(nic, keys, TS_ERR_INVALID);
    }
    for (uint32_t i = 0; i < mr->count; i++) {
        mr->handles[i] = keys->key[i].mr;
        mr->lkeys[i] = keys->key[i].lkey;
        mr->rkeys[i] = keys->key[i].rkey;
    }
    mr->base = region->memory.base;
    mr->ready = true;
    atomic_count(&region->worker->stats->pinned_bytes, mr->length);
    return TS_OK;
}
