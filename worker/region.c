#include "worker/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/channel.h"
#include "worker/control.h"
#include "worker/endpoint.h"
#include "worker/gpu/event.h"
#include "worker/gpu/mapping.h"
#include "worker/gpu/way.h"

static int region_memory_init(struct region *region, const struct proto_region *ask, int fd,
                              char *text, size_t text_size)
{
    const struct session *session = region->session;
    int rc;

    if (ask->kind == REGION_KIND_PRIVATE) {
        if (fd >= 0)
            close(fd);
        if ((session->trusted & PROTO_TRUST_MEMORY) == 0) {
            snprintf(text, text_size,
                     "private memory needs a job of the daemon's own uid; use tesup_mem_alloc");
            return TS_ERR_UNSUPPORTED;
        }
        if (process_start_time((pid_t)session->pid) != session->start_time) {
            snprintf(text, text_size, "process %u is gone", session->pid);
            return TS_ERR_GONE;
        }
        return memory_attach(&region->memory, (pid_t)session->pid, ask->base, ask->length, text,
                             text_size);
    }
    if (fd < 0) {
        snprintf(text, text_size, "a shared region comes with one descriptor");
        return TS_ERR_INVALID;
    }
    rc = memory_map(&region->memory, fd, ask->offset, ask->length, text, text_size);
    if (rc != TS_OK)
        return rc;
    region->memory.base = ask->base;
    if ((ask->access & REGION_ACCESS_WRITE) != 0 && !region->memory.writable) {
        snprintf(text, text_size, "remote write needs a descriptor that is open for writing");
        memory_release(&region->memory);
        return TS_ERR_DENIED;
    }
    return TS_OK;
}

static struct region *region_new(struct session *session, const struct proto_region *ask)
{
    struct region *region = calloc(1, sizeof(*region));

    if (region == NULL)
        return NULL;
    region->session = session;
    region->worker = session->worker;
    region->handle = ask->handle;
    region->access = ask->access & REGION_ACCESS_MASK;
    return region;
}

static void region_count(const struct region *region, uint64_t times)
{
    struct counters_worker_stats *stats = region->worker->stats;

    atomic_count(&stats->regions, times);
    if (region->memory.gpu == NULL)
        return;
    atomic_count(&stats->gpu_regions, times);
    atomic_count(&stats->gpu_bytes, times * region->memory.length);
}

/* Its memory is there: the device and the table must know it.  Takes the region in any case. */
static int region_enter(struct region *region, char *text, size_t text_size)
{
    int rc = verbs_region_add(region, text, text_size);

    if (rc != TS_OK)
        goto err_memory;
    rc = table_put(&region->session->regions, region->handle, region);
    if (rc != TS_OK)
        goto err_registration;
    region_count(region, 1);
    return TS_OK;

err_registration:
    verbs_region_remove(region);
err_memory:
    gpu_way_clear(region);
    memory_release(&region->memory);
    free(region);
    return rc;
}

int region_add(struct session *session, const struct proto_region *ask, int fd, char *text,
               size_t text_size)
{
    struct region *region = region_new(session, ask);
    int rc;

    if (region == NULL) {
        if (fd >= 0)
            close(fd);
        return TS_ERR_NO_MEMORY;
    }
    rc = region_memory_init(region, ask, fd, text, text_size);
    if (rc == TS_OK)
        return region_enter(region, text, text_size);
    free(region);
    return rc;
}

int region_add_gpu(struct session *session, const struct proto_region_gpu *ask, const int *fds,
                   int fd_count, char *text, size_t text_size)
{
    enum gpu_owner owner =
        (session->trusted & PROTO_TRUST_DEVICE) != 0 ? GPU_OWNER_TRUSTED : GPU_OWNER_JOB;
    struct region *region = region_new(session, &ask->region);
    struct gpu_mapping *mapping;
    int rc;

    if (region == NULL) {
        for (int i = 0; i < fd_count; i++)
            close(fds[i]);
        return TS_ERR_NO_MEMORY;
    }
    rc = gpu_mapping_open(session->worker, ask, fds, fd_count, owner, &mapping, text, text_size);
    if (rc != TS_OK) {
        free(region);
        return rc;
    }
    memory_take_gpu(&region->memory, mapping, ask->region.base);
    gpu_way_set(region, GPU_WAY_STAGING, "no RDMA device is in use by this worker");
    return region_enter(region, text, text_size);
}

int region_add_event(struct session *session, const struct proto_region_gpu *ask, char *text,
                     size_t text_size)
{
    struct region *region = region_new(session, &ask->region);
    int rc;

    if (region == NULL)
        return TS_ERR_NO_MEMORY;
    region->access = 0;
    region->memory = (struct memory){.fd = -1, .space = SPACE_NONE};
    rc = gpu_event_open(session->worker, ask, (session->trusted & PROTO_TRUST_DEVICE) != 0,
                        &region->event, text, text_size);
    if (rc != TS_OK) {
        free(region);
        return rc;
    }
    rc = table_put(&session->regions, region->handle, region);
    if (rc == TS_OK) {
        region_count(region, 1);
        return TS_OK;
    }
    gpu_event_close(region->event);
    free(region);
    return rc;
}

static void region_free_if_drained(struct region *region)
{
    if (!region->revoked || region->references > 0)
        return;
    /* Before the answer: no byte can land any more, and a GPU's memory is open nowhere. */
    if (region->event != NULL)
        gpu_event_close(region->event);
    else
        verbs_region_remove(region);
    region_count(region, (uint64_t)-1);
    gpu_way_clear(region);
    memory_release(&region->memory);
    if (region->delete_id != 0)
        control_reply(region->worker, 0, region->delete_id, TS_OK, region->handle, "");
    free(region);
}

/* Own requests that read from or write to it. */
static void region_stop_requests(struct region *region)
{
    for (unsigned i = 0; i < SESSION_CHANNELS_MAX; i++) {
        struct channel *channel = region->session->channels[i];

        for (uint32_t slot = 0; channel != NULL && slot < channel->map.slots; slot++) {
            struct request *request = &channel->requests[slot];

            if (request->state != REQUEST_FREE && request->transfer.local == region)
                request_stop(request, TS_ERR_GONE);
        }
    }
}

void region_revoke(struct region *region, uint32_t delete_id)
{
    region->references++; /* not freed while we walk; pairs with the release below */
    region->revoked = true;
    region->delete_id = delete_id;
    region_stop_requests(region);
    list_each (node, following, &region->worker->endpoints) {
        struct endpoint *endpoint = list_entry(node, struct endpoint, link_node);

        if (endpoint->link != NULL)
            endpoint->link->ops->revoke(endpoint->link, region);
    }
    table_remove(&region->session->regions, region->handle);
    region->session = NULL;
    region_release(region);
}

bool region_answer_later(struct session *session, uint32_t handle, uint32_t add_id)
{
    void *found;
    struct region *region;

    if (table_get(&session->regions, handle, &found) != TS_OK)
        return false;
    region = found;
    if (region->registering)
        region->add_id = add_id;
    return region->registering;
}

void region_on_registered(struct region *region, int status, const char *text)
{
    region->registering = false;
    if (region->session == NULL)
        return; /* its job is gone */
    if (region->add_id != 0)
        control_reply(region->worker, region->session->handle, region->add_id, status,
                      region->handle, text);
    region->add_id = 0;
    if (status != TS_OK)
        region_revoke(region, 0);
}

int region_delete(struct session *session, uint32_t handle, uint32_t delete_id)
{
    void *region;
    int rc = table_get(&session->regions, handle, &region);

    if (rc != TS_OK)
        return rc;
    region_revoke(region, delete_id);
    return TS_OK;
}

void region_skip(struct session *session, uint32_t handle)
{
    if (table_put(&session->regions, handle, session) == TS_OK)
        table_remove(&session->regions, handle);
}

int region_use_local(struct session *session, uint32_t handle, uint64_t offset, uint64_t length,
                     bool store, struct region **region)
{
    void *found;
    int rc = table_get(&session->regions, handle, &found);
    struct region *candidate = found;

    if (rc != TS_OK)
        return rc;
    if (candidate->event != NULL || !memory_contains(&candidate->memory, offset, length))
        return TS_ERR_INVALID;
    if (store && !candidate->memory.writable)
        return TS_ERR_DENIED;
    candidate->references++;
    *region = candidate;
    return TS_OK;
}

int region_use_event(struct session *session, uint32_t handle, struct region **region)
{
    void *found;
    int rc = table_get(&session->regions, handle, &found);
    struct region *candidate = found;

    if (rc == TS_OK && candidate->event == NULL)
        rc = TS_ERR_INVALID;
    if (rc != TS_OK)
        return rc;
    candidate->references++;
    *region = candidate;
    return TS_OK;
}

/* By address the region is searched: a peer only knows where the memory is. */
static int region_find_address(struct session *session, uint64_t address, uint64_t length,
                               struct region **region)
{
    uint32_t cursor = 0;
    struct region *candidate;

    while ((candidate = table_next(&session->regions, &cursor)) != NULL) {
        if (candidate->memory.base != 0 && address >= candidate->memory.base &&
            memory_contains(&candidate->memory, address - candidate->memory.base, length)) {
            *region = candidate;
            return TS_OK;
        }
    }
    return TS_ERR_NOT_FOUND;
}

int region_use_remote(struct session *session, uint32_t handle, bool by_address, uint64_t *offset,
                      uint64_t length, bool store, struct region **region)
{
    struct region *candidate = NULL;
    void *found = NULL;
    int rc;

    if (by_address) {
        rc = region_find_address(session, *offset, length, &candidate);
    } else {
        rc = table_get(&session->regions, handle, &found);
        candidate = found;
    }
    if (rc != TS_OK)
        return rc;
    if (by_address)
        *offset -= candidate->memory.base;
    if (!memory_contains(&candidate->memory, *offset, length))
        return TS_ERR_INVALID;
    if ((candidate->access & (store ? REGION_ACCESS_WRITE : REGION_ACCESS_READ)) == 0)
        return TS_ERR_DENIED;
    candidate->references++;
    *region = candidate;
    return TS_OK;
}

void region_release(struct region *region)
{
    region->references--;
    region_free_if_drained(region);
}
