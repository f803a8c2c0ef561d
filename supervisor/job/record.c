#include "supervisor/job/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/channel.h"
#include "shm/err.h"
#include "shm/segment.h"
#include "supervisor/publish.h"
#include "supervisor/shortage.h"
#include "supervisor/supervisor.h"

static int channel_error(int error, const struct channel_shape *shape, char *text, size_t text_size)
{
    unsigned long long need =
        sizeof(struct channel_header) + 2 * channel_notify_ring_size(shape->notify_max) +
        shape->slots * (sizeof(struct sqe) + sizeof(struct cqe) + sizeof(struct journal_entry));

    return shortage_explain(error, "a channel", need, text, text_size);
}

/* Where the worker reads it.  A hint: no channel is refused because it is on another node. */
static void channel_bind(int fd, int node)
{
    struct channel_map map;

    if (node < 0 || channel_map(fd, &map) != TS_OK)
        return;
    (void)segment_bind(map.header, map.size, node);
    channel_unmap(&map);
}

static void channel_close(struct job_channel *channel)
{
    for (int i = 0; i < 3; i++)
        if (channel->fds[i] >= 0)
            close(channel->fds[i]);
    channel->used = false;
}

int job_channel_add(struct job *job, uint32_t slots, uint32_t *handle, char *text, size_t text_size)
{
    const struct serve_options *options = &job->supervisor->options;
    uint32_t limit = options->channels_per_session < JOB_CHANNELS_MAX
                         ? options->channels_per_session
                         : JOB_CHANNELS_MAX;
    struct channel_shape shape = {.slots = slots,
                                  .notify_max = job->supervisor->notify_max,
                                  .start = options->shm_counter_start};
    struct job_channel *channel = NULL;
    int error;

    for (uint32_t i = 0; i < limit && channel == NULL; i++)
        if (!job->channels[i].used)
            channel = &job->channels[i];
    if (channel == NULL) {
        snprintf(text, text_size, "%u channels are open, which is limits.channels_per_session",
                 limit);
        return TS_ERR_LIMIT;
    }
    *handle = (uint32_t)(channel - job->channels);
    shape.mailbox = *handle == 0;
    *channel = (struct job_channel){.used = true, .slots = slots, .fds = {-1, -1, -1}};
    channel->fds[0] = channel_create(&shape);
    for (int i = 1; i < 3 && channel->fds[i - 1] >= 0; i++)
        channel->fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (channel->fds[2] < 0) {
        error = errno;
        channel_close(channel);
        return channel_error(error, &shape, text, text_size);
    }
    channel_bind(channel->fds[0], job->worker->pair->node);
    job->channel_count++;
    publish_job(job);
    return TS_OK;
}

int job_channel_get(struct job *job, uint32_t handle, struct job_channel **channel)
{
    if (handle >= JOB_CHANNELS_MAX || !job->channels[handle].used || !job->channels[handle].live)
        return TS_ERR_NOT_FOUND;
    *channel = &job->channels[handle];
    return (*channel)->leaving ? TS_ERR_GONE : TS_OK;
}

void job_channel_drop(struct job *job, uint32_t handle)
{
    channel_close(&job->channels[handle]);
    job->channel_count--;
    publish_job(job);
}

/* A full table and no memory look the same to table_add. */
static int table_full(const struct table *table)
{
    return table->used >= table->limit ? TS_ERR_LIMIT : TS_ERR_NO_MEMORY;
}

static void region_free(struct job_region *region)
{
    for (int i = 0; i < region->fd_count; i++)
        close(region->fds[i]);
    free(region->gpu);
    free(region);
}

static struct job_region *region_new(struct wire_message *message)
{
    size_t fds = (size_t)message->fd_count * sizeof(int);
    struct job_region *region = calloc(1, sizeof(*region) + fds);

    if (region == NULL)
        return NULL;
    region->ask = message->body.region;
    if (message->header.type == WIRE_REGION_ADD_GPU) {
        region->gpu = malloc(sizeof(*region->gpu));
        if (region->gpu == NULL) {
            region_free(region);
            return NULL;
        }
        *region->gpu = message->body.region_gpu.gpu;
    }
    while (region->fd_count < message->fd_count) {
        region->fds[region->fd_count] = wire_message_take(message, region->fd_count);
        region->fd_count++;
    }
    return region;
}

int job_region_add(struct job *job, struct wire_message *message, uint32_t *handle)
{
    struct job_region *region = region_new(message);

    if (region == NULL)
        return TS_ERR_NO_MEMORY;
    *handle = table_add(&job->regions, region);
    if (*handle == 0) {
        region_free(region);
        return table_full(&job->regions);
    }
    region->ask.handle = *handle;
    publish_job(job);
    return TS_OK;
}

int job_region_get(struct job *job, uint32_t handle, struct job_region **region)
{
    void *object;
    int rc = table_get(&job->regions, handle, &object);

    if (rc != TS_OK)
        return rc;
    *region = object;
    if (!(*region)->live)
        return TS_ERR_NOT_FOUND;
    return (*region)->leaving ? TS_ERR_GONE : TS_OK;
}

void job_region_drop(struct job *job, uint32_t handle)
{
    void *object;

    if (table_get(&job->regions, handle, &object) != TS_OK)
        return;
    table_remove(&job->regions, handle);
    region_free(object);
    publish_job(job);
}

int job_remote_add(struct job *job, const struct proto_remote *ask, uint32_t *handle)
{
    struct job_remote *remote = calloc(1, sizeof(*remote));

    if (remote == NULL)
        return TS_ERR_NO_MEMORY;
    remote->ask = *ask;
    *handle = table_add(&job->remotes, remote);
    if (*handle == 0) {
        free(remote);
        return table_full(&job->remotes);
    }
    remote->ask.handle = *handle;
    publish_job(job);
    return TS_OK;
}

int job_remote_get(struct job *job, uint32_t handle, struct job_remote **remote)
{
    void *object;
    int rc = table_get(&job->remotes, handle, &object);

    if (rc != TS_OK)
        return rc;
    *remote = object;
    if (!(*remote)->live)
        return TS_ERR_NOT_FOUND;
    return (*remote)->leaving ? TS_ERR_GONE : TS_OK;
}

void job_remote_drop(struct job *job, uint32_t handle)
{
    void *object;

    if (table_get(&job->remotes, handle, &object) != TS_OK)
        return;
    table_remove(&job->remotes, handle);
    free(object);
    publish_job(job);
}

void job_records_drop(struct job *job)
{
    uint32_t limit_regions = job->regions.limit, limit_remotes = job->remotes.limit;
    uint32_t cursor = 0;
    void *object;

    for (uint32_t i = 0; i < JOB_CHANNELS_MAX; i++)
        if (job->channels[i].used)
            channel_close(&job->channels[i]);
    job->channel_count = 0;
    while ((object = table_next(&job->regions, &cursor)) != NULL)
        region_free(object);
    cursor = 0;
    while ((object = table_next(&job->remotes, &cursor)) != NULL)
        free(object);
    table_fini(&job->regions);
    table_fini(&job->remotes);
    table_init(&job->regions, limit_regions);
    table_init(&job->remotes, limit_remotes);
}
