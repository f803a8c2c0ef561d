#include "worker/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/wire.h"
#include "worker/channel.h"
#include "worker/control.h"
#include "worker/gpu/start.h"
#include "worker/inbound.h"
#include "worker/region.h"
#include "worker/remote.h"

int session_add(struct worker *worker, uint64_t handle, const struct proto_session *ask, int pidfd)
{
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL) {
        close(pidfd);
        return TS_ERR_NO_MEMORY;
    }
    session->worker = worker;
    session->handle = handle;
    session->uid = ask->uid;
    session->pid = ask->pid;
    session->start_time = ask->start_time;
    session->pidfd = pidfd;
    session->flags = ask->flags;
    session->trusted = ask->trusted;
    snprintf(session->segment, sizeof(session->segment), "%s", ask->segment);
    snprintf(session->name, sizeof(session->name), "%.250s/%s", worker->config.address,
             ask->segment);
    table_init(&session->regions, TABLE_SLOTS_MAX);
    table_init(&session->remotes, TABLE_SLOTS_MAX);
    list_init(&session->inbound);
    list_init(&session->parked);
    list_init(&session->events);
    list_append(&worker->sessions, &session->link);
    atomic_count(&worker->stats->sessions, 1);
    return TS_OK;
}

struct session *session_find(struct worker *worker, uint64_t handle)
{
    list_each (node, following, &worker->sessions) {
        struct session *session = list_entry(node, struct session, link);

        if (session->handle == handle)
            return session;
    }
    return NULL;
}

struct session *session_find_segment(struct worker *worker, const char *segment)
{
    list_each (node, following, &worker->sessions) {
        struct session *session = list_entry(node, struct session, link);

        if (strcmp(session->segment, segment) == 0)
            return session;
    }
    return NULL;
}

void session_delete(struct session *session)
{
    struct worker *worker = session->worker;
    uint32_t cursor = 0;
    void *object;

    gpu_start_drop(worker, session, 0);
    list_each (node, following, &session->inbound) {
        inbound_end(list_entry(node, struct inbound, member), TS_ERR_GONE);
    }
    for (unsigned i = 0; i < SESSION_CHANNELS_MAX; i++)
        if (session->channels[i] != NULL)
            channel_delete(session->channels[i]);
    while ((object = table_next(&session->remotes, &cursor)) != NULL)
        remote_free(object);
    for (cursor = 0; (object = table_next(&session->regions, &cursor)) != NULL;)
        region_revoke(object, 0);
    table_fini(&session->remotes);
    table_fini(&session->regions);
    list_remove(&session->link);
    close(session->pidfd);
    free(session);
    atomic_count(&worker->stats->sessions, (uint64_t)-1);
}

void session_hold(struct session *session)
{
    session->held = true;
}

void session_release(struct session *session)
{
    if (!session->held || gpu_start_waits(session->worker, session))
        return;
    session->held = false;
    list_each (node, following, &session->inbound) {
        inbound_welcome(list_entry(node, struct inbound, member));
    }
}

void session_kill(struct session *session, const char *why)
{
    struct wire_message message;

    if (session->killed)
        return;
    session->killed = true;
    atomic_count(&session->worker->stats->sessions_killed, 1);
    worker_error(session->worker, &session->worker->job_limit, "job %u (%s) broke the rules: %s",
                 session->pid, session->segment, why);
    wire_message_init(&message, WIRE_SESSION_KILL);
    message.header.session = session->handle;
    snprintf(message.body.reply.text, sizeof(message.body.reply.text), "%s", why);
    control_send(session->worker, &message);
}
