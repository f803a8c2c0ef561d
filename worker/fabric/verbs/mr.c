#include "worker/fabric/verbs/mr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/uverbs.h"
#include "worker/control.h"
#include "worker/fabric/verbs/link.h"
#include "worker/fabric/verbs/registrar.h"
#include "worker/gpu/mapping.h"

#define MR_INLINE (4u * 1024u * 1024u) /* up to here the loop registers by itself: some ms */

unsigned verbs_mr_access(const struct region *region)
{
    unsigned access = IBV_ACCESS_RELAXED_ORDERING;

    if (region->memory.writable)
        access |= IBV_ACCESS_LOCAL_WRITE;
    if ((region->access & REGION_ACCESS_READ) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((region->access & REGION_ACCESS_WRITE) != 0)
        access |= IBV_ACCESS_REMOTE_WRITE;
    return access;
}

void verbs_mr_free(struct verbs_mr *mr)
{
    struct counters_worker_stats *stats = mr->nic->worker->stats;

    for (uint32_t i = 0; i < mr->count; i++) {
        if (mr->pieces != NULL && mr->pieces[i] != NULL)
            ibv_dereg_mr(mr->pieces[i]);
        if (mr->handles != NULL)
            (void)uverbs_mr_deregister(mr->nic->device->cmd_fd, mr->nic->driver, mr->handles[i]);
    }
    if (mr->ready)
        atomic_count(&stats->pinned_bytes, (uint64_t)-mr->length);
    if (mr->mapping != NULL)
        munmap(mr->mapping, mr->mapping_size);
    if (mr->gpu != NULL) {
        mr->gpu->device->by_nic--;
        gpu_mapping_release(mr->gpu);
    }
    list_remove(&mr->member);
    free(mr->pieces);
    free(mr->handles);
    free(mr->lkeys);
    free(mr->rkeys);
    free(mr);
}

static struct verbs_mr *mr_find(const struct verbs_nic *nic, const struct region *region,
                                const struct stat *file)
{
    list_each (node, following, &nic->mrs) {
        struct verbs_mr *mr = list_entry(node, struct verbs_mr, member);

        if (mr->inode == file->st_ino && mr->device == file->st_dev &&
            mr->offset == region->memory.fd_offset && mr->length == region->memory.length &&
            mr->access == verbs_mr_access(region) && !mr->failed)
            return mr;
    }
    return NULL;
}

/* A mapping of its own: two regions of one file come and go without each other. */
static int mr_map(struct verbs_mr *mr, const struct region *region)
{
    const struct memory *memory = &region->memory;
    uint64_t skip = (uint64_t)(memory->map - (uint8_t *)memory->mapping);

    mr->mapping =
        mmap(NULL, memory->mapping_size, memory->writable ? PROT_READ | PROT_WRITE : PROT_READ,
             MAP_SHARED, memory->fd, (off_t)(memory->fd_offset - skip));
    if (mr->mapping == MAP_FAILED) {
        mr->mapping = NULL;
        return TS_ERR_NO_MEMORY;
    }
    mr->mapping_size = memory->mapping_size;
    mr->base = (uintptr_t)mr->mapping + skip;
    return TS_OK;
}

struct verbs_mr *verbs_mr_new(struct verbs_nic *nic, const struct region *region)
{
    struct verbs_mr *mr = calloc(1, sizeof(*mr));
    uint64_t count = ((region->memory.length - 1) >> VERBS_PIECE_SHIFT) + 1;

    if (mr == NULL)
        return NULL;
    mr->nic = nic;
    mr->length = region->memory.length;
    mr->access = verbs_mr_access(region);
    list_init(&mr->member);
    list_init(&mr->work);
    list_init(&mr->regions);
    mr->lkeys = calloc(count, sizeof(uint32_t));
    mr->rkeys = calloc(count, sizeof(uint32_t));
    if (mr->lkeys == NULL || mr->rkeys == NULL || count > FRAME_KEYS_MAX) {
        verbs_mr_free(mr);
        return NULL;
    }
    mr->count = (uint32_t)count;
    list_append(&nic->mrs, &mr->member);
    return mr;
}

static struct verbs_mr *mr_new_file(struct verbs_nic *nic, const struct region *region,
                                    const struct stat *file)
{
    struct verbs_mr *mr = verbs_mr_new(nic, region);

    if (mr == NULL)
        return NULL;
    mr->device = file->st_dev;
    mr->inode = file->st_ino;
    mr->offset = region->memory.fd_offset;
    mr->pieces = calloc(mr->count, sizeof(struct ibv_mr *));
    if (mr->pieces != NULL && mr_map(mr, region) == TS_OK)
        return mr;
    verbs_mr_free(mr);
    return NULL;
}

void verbs_mr_register(struct verbs_mr *mr)
{
    if (mr->gpu != NULL) {
        verbs_mr_register_gpu(mr);
        return;
    }
    for (uint32_t i = 0; i < mr->count; i++) {
        uint64_t begin = (uint64_t)i << VERBS_PIECE_SHIFT;
        uint64_t size = mr->length - begin < VERBS_PIECE ? mr->length - begin : VERBS_PIECE;

        mr->pieces[i] =
            ibv_reg_mr(mr->nic->pd, (void *)(uintptr_t)(mr->base + begin), size, mr->access);
        if (mr->pieces[i] == NULL) {
            mr->error = errno;
            return;
        }
        mr->lkeys[i] = mr->pieces[i]->lkey;
        mr->rkeys[i] = mr->pieces[i]->rkey;
    }
}

static void mr_explain(const struct verbs_mr *mr, char *text, size_t text_size)
{
    struct rlimit limit = {0};
    char most[32] = "unlimited";

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(most, sizeof(most), "%llu bytes", (unsigned long long)limit.rlim_cur);
    snprintf(text, text_size,
             "%s cannot register %llu bytes: %s. Locked memory of the daemon is limited to %s: "
             "LimitMEMLOCK=infinity in its unit, or ulimit -l; the device allows %d regions, "
             "rdma.max of its cgroup maybe less",
             mr->nic->name, (unsigned long long)mr->length, strerror(mr->error), most,
             mr->nic->attr.max_mr);
}

/* Kernels before 6.2 register no file that is open for reading only: ib_umem_get() asks for pages
 * that it may write. Such a region goes over the socket beside the queue pairs, which is said; all
 * else is an error. */
static int mr_refusal(const struct verbs_mr *mr, char *text, size_t text_size)
{
    struct worker *worker = mr->nic->worker;

    if (mr->gpu != NULL)
        return TS_OK; /* it goes through the host */
    mr_explain(mr, text, text_size);
    if (mr->error != EFAULT || (mr->access & IBV_ACCESS_LOCAL_WRITE) != 0)
        return TS_ERR_NO_MEMORY;
    worker_error(worker, &worker->job_limit,
                 "%s cannot register a file that is open for reading only (kernels before 6.2): it "
                 "moves by TCP; open it for reading and writing",
                 mr->nic->name);
    return TS_OK;
}

/* Whoever waited for it goes on, or hears why not. */
void verbs_mr_on_registered(struct verbs_mr *mr)
{
    struct worker *worker = mr->nic->worker;
    char text[PROTO_TEXT_MAX] = "";
    int status = TS_OK;

    mr->ready = mr->error == 0;
    mr->failed = !mr->ready;
    if (mr->ready)
        atomic_count(&worker->stats->pinned_bytes, mr->length);
    else if (!list_empty(&mr->regions))
        status = mr_refusal(mr, text, sizeof(text));
    mr->settling = true;
    list_each (node, following, &mr->regions) {
        struct region *region = list_entry(node, struct region, mr_node);

        if (mr->gpu != NULL)
            verbs_mr_tell_gpu(mr, region);
        if (region->registering)
            region_on_registered(region, status, status != TS_OK ? text : "");
    }
    mr->settling = false;
    list_each (other, next, &mr->nic->links) {
        link_wake(&list_entry(other, struct verbs_link, member)->link);
    }
}

static int mr_add_gpu(struct verbs_nic *nic, struct region *region, char *text, size_t text_size)
{
    struct verbs_mr *mr = verbs_mr_new_gpu(nic, region);

    if (mr == NULL) {
        snprintf(text, text_size, "no memory for a region of %llu bytes",
                 (unsigned long long)region->memory.length);
        return TS_ERR_NO_MEMORY;
    }
    if (mr->length > MR_INLINE && verbs_registrar_queue(nic, mr) == TS_OK) {
        region->registering = true;
    } else {
        verbs_mr_register(mr);
        verbs_mr_on_registered(mr);
        verbs_mr_tell_gpu(mr, region);
    }
    region->mr = mr;
    list_append(&mr->regions, &region->mr_node);
    if (mr->failed)
        verbs_region_remove(region);
    return TS_OK;
}

int verbs_region_add(struct region *region, char *text, size_t text_size)
{
    struct verbs_nic *nic = region->worker->verbs;
    struct verbs_mr *mr;
    struct stat file;
    int rc;

    list_init(&region->mr_node);
    if (nic != NULL && region->memory.gpu != NULL)
        return mr_add_gpu(nic, region, text, text_size);
    if (nic == NULL || region->memory.map == NULL)
        return TS_OK; /* private memory: its job registers it, if it does (grant.c) */
    if (fstat(region->memory.fd, &file) < 0) {
        snprintf(text, text_size, "cannot look at the file of the region: %s", strerror(errno));
        return TS_ERR_SYSTEM;
    }
    mr = mr_find(nic, region, &file);
    if (mr == NULL) {
        mr = mr_new_file(nic, region, &file);
        if (mr == NULL) {
            snprintf(text, text_size, "no memory or address space for a region of %llu bytes",
                     (unsigned long long)region->memory.length);
            return TS_ERR_NO_MEMORY;
        }
        if (mr->length > MR_INLINE && verbs_registrar_queue(nic, mr) == TS_OK) {
            region->registering = true;
        } else {
            verbs_mr_register(mr);
            verbs_mr_on_registered(mr);
        }
    } else {
        region->registering = !mr->ready;
    }
    region->mr = mr;
    list_append(&mr->regions, &region->mr_node);
    if (!mr->failed)
        return TS_OK;
    rc = mr_refusal(mr, text, text_size);
    verbs_region_remove(region);
    return rc;
}

void verbs_region_remove(struct region *region)
{
    struct verbs_mr *mr = region->mr;

    if (mr == NULL)
        return;
    list_remove(&region->mr_node);
    region->mr = NULL;
    if (list_empty(&mr->regions) && !mr->settling && (mr->ready || mr->failed))
        verbs_mr_free(mr); /* one that is being registered goes when that has ended */
}

/* The thread is done with it. */
void verbs_mr_on_worked(struct verbs_mr *mr)
{
    verbs_mr_on_registered(mr);
    if (list_empty(&mr->regions))
        verbs_mr_free(mr);
}

int verbs_mr_local(const struct region *region, uint64_t offset, uint32_t *lkey, uint64_t *address,
                   uint64_t *left)
{
    const struct verbs_mr *mr = region->mr;
    uint64_t piece = offset >> VERBS_PIECE_SHIFT;

    if (mr == NULL)
        return TS_ERR_UNSUPPORTED;
    if (!mr->ready)
        return mr->failed ? TS_ERR_UNSUPPORTED : TS_AGAIN;
    *lkey = mr->lkeys[piece];
    *address = mr->base + offset;
    *left = ((piece + 1) << VERBS_PIECE_SHIFT) - offset;
    return TS_OK;
}
