#include "supervisor/job/ask.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "supervisor/job/record.h"
#include "supervisor/job/request.h"
#include "supervisor/supervisor.h"

static void ask_late(struct timer *timer)
{
    job_request_late(list_entry(timer, struct job_ask, timer));
}

struct job_ask *job_ask_new(struct job *job, enum wire_type type, uint32_t job_id, uint32_t handle,
                            uint64_t timeout_ms)
{
    struct job_ask *ask = calloc(1, sizeof(*ask));

    if (ask == NULL)
        return NULL;
    ask->id = table_add(&job->worker->asks, ask);
    if (ask->id == 0) {
        free(ask);
        return NULL;
    }
    ask->job = job;
    ask->type = type;
    ask->job_id = job_id;
    ask->handle = handle;
    ask->timer.fire = ask_late;
    list_append(&job->asks, &ask->node);
    job->ask_count++;
    loop_timer_set(&job->supervisor->loop, &ask->timer, timeout_ms);
    return ask;
}

void job_ask_free(struct job_ask *ask)
{
    struct job *job = ask->job;

    timer_clear(&job->supervisor->loop.timers, &ask->timer);
    table_remove(&job->worker->asks, ask->id);
    list_remove(&ask->node);
    job->ask_count--;
    free(ask);
}

struct job_ask *job_ask_find(const struct worker_process *worker, uint32_t id)
{
    void *object;

    return table_get(&worker->asks, id, &object) == TS_OK ? object : NULL;
}

static bool uid_is_listed(const struct option_uids *uids, uid_t uid)
{
    for (uint32_t i = 0; i < uids->count; i++)
        if (uids->uid[i] == uid)
            return true;
    return uids->all;
}

static void message_about_job(const struct job *job, struct wire_message *message)
{
    struct proto_session *session = &message->body.session;
    uid_t own = geteuid();

    session->uid = job->cred.uid;
    session->pid = (uint32_t)job->cred.pid;
    session->start_time = job->start_time;
    session->flags = job->flags;
    session->trusted = own == 0 || own == job->cred.uid ? PROTO_TRUST_MEMORY : 0;
    /* A context's descriptor is all that its worker may do: root's is not for everybody. */
    if (own == job->cred.uid || uid_is_listed(&job->supervisor->options.rdma_uids, job->cred.uid))
        session->trusted |= PROTO_TRUST_DEVICE;
    memcpy(session->segment, job->segment.name, sizeof(session->segment));
    message->fds[0] = job->pidfd;
    message->fd_count = 1;
}

static void message_about_region(const struct job_region *region, struct wire_message *message)
{
    if (region->gpu != NULL) {
        uint64_t session = message->header.session;

        wire_message_init(message, WIRE_REGION_ADD_GPU);
        message->header.session = session;
        message->body.region_gpu.gpu = *region->gpu;
    }
    message->body.region = region->ask;
    for (; message->fd_count < region->fd_count; message->fd_count++)
        message->fds[message->fd_count] = region->fds[message->fd_count];
}

static void message_about_channel(const struct job_channel *channel, uint32_t handle, bool adopt,
                                  struct wire_message *message)
{
    message->body.channel.handle = handle;
    message->body.channel.slots = channel->slots;
    message->body.channel.adopt = adopt;
    memcpy(message->fds, channel->fds, sizeof(channel->fds));
    message->fd_count = 3;
}

void job_message_build(struct job *job, enum wire_type type, uint32_t handle, bool adopt,
                       struct wire_message *message)
{
    const struct job_remote *remote;
    void *object = NULL;

    wire_message_init(message, type);
    message->header.session = job->handle;
    if (type == WIRE_SESSION_ADD) {
        message_about_job(job, message);
    } else if (type == WIRE_CHANNEL_ADD) {
        message_about_channel(&job->channels[handle], handle, adopt, message);
    } else if (type == WIRE_REGION_ADD && table_get(&job->regions, handle, &object) == TS_OK) {
        message_about_region(object, message);
    } else if (type == WIRE_REMOTE_OPEN && table_get(&job->remotes, handle, &object) == TS_OK) {
        remote = object;
        message->body.remote = remote->ask;
    } else if (type != WIRE_SESSION_DEL) {
        message->body.handle.handle = handle;
    }
}

void job_ask_send(const struct job_ask *ask)
{
    struct wire_message message;

    if (!ask->job->served)
        return;
    job_message_build(ask->job, ask->type, ask->handle, false, &message);
    message.header.id = ask->id;
    worker_link_send(&ask->job->worker->link, &message);
}
