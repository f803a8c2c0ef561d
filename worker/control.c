#include "worker/control.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/accept.h"
#include "worker/channel.h"
#include "worker/drain.h"
#include "worker/fabric/fabric.h"
#include "worker/gpu/start.h"
#include "worker/region.h"
#include "worker/remote.h"

#define CONFIG_WAIT_MS 10000

/* An answer that the supervisor's socket had no room for. */
struct queued {
    struct list link;
    struct wire_message message;
};

static void control_watch(struct worker *worker)
{
    reactor_watch(&worker->reactor, &worker->control,
                  list_empty(&worker->control_queue) ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

static void control_flush(struct worker *worker)
{
    while (!list_empty(&worker->control_queue)) {
        struct queued *queued = list_entry(worker->control_queue.next, struct queued, link);

        if (wire_send(worker->control.fd, &queued->message) == TS_AGAIN)
            break;
        list_remove(&queued->link);
        free(queued);
    }
    control_watch(worker);
}

void control_send(struct worker *worker, const struct wire_message *message)
{
    struct queued *queued;

    if (list_empty(&worker->control_queue) && wire_send(worker->control.fd, message) != TS_AGAIN)
        return; /* sent, or the supervisor is gone: its end of file ends this worker */
    queued = malloc(sizeof(*queued));
    if (queued == NULL)
        abort(); /* a lost answer would hang a job for ever; a restart tells it the truth */
    queued->message = *message;
    list_append(&worker->control_queue, &queued->link);
    control_watch(worker);
}

void control_reply(struct worker *worker, uint64_t session, uint32_t id, int status,
                   uint32_t handle, const char *text)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_REPLY);
    message.header.id = id;
    message.header.session = session;
    message.body.reply.status = status;
    message.body.reply.handle = handle;
    snprintf(message.body.reply.text, sizeof(message.body.reply.text), "%s", text);
    control_send(worker, &message);
}

void control_ready(struct worker *worker)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_WORKER_READY);
    control_send(worker, &message);
}

static void control_dispatch(struct worker *worker, struct wire_message *message);

/* ---- requests of the supervisor; each answers exactly once, now or later ---- */

typedef void control_handler(struct worker *worker, struct session *session,
                             struct wire_message *message);

static void answer(struct worker *worker, const struct wire_message *message, int status,
                   uint32_t handle, const char *text)
{
    control_reply(worker, message->header.session, message->header.id, status, handle, text);
}

static void on_session_add(struct worker *worker, struct session *session,
                           struct wire_message *message)
{
    int rc = TS_ERR_EXISTS;

    wire_text_close(message->body.session.segment);
    if (session == NULL)
        rc = session_add(worker, message->header.session, &message->body.session,
                         wire_message_take(message, 0));
    answer(worker, message, rc, 0, rc == TS_OK ? "" : "the worker cannot take the session");
}

static void on_session_del(struct worker *worker, struct session *session,
                           struct wire_message *message)
{
    session_delete(session);
    answer(worker, message, TS_OK, 0, "");
}

static void on_channel_add(struct worker *worker, struct session *session,
                           struct wire_message *message)
{
    const struct proto_channel *ask = &message->body.channel;
    int rc = channel_add(session, ask, wire_message_take(message, 0), wire_message_take(message, 1),
                         wire_message_take(message, 2));

    answer(worker, message, rc, ask->handle, channel_refusal(rc));
}

static void on_channel_close(struct worker *worker, struct session *session,
                             struct wire_message *message)
{
    uint32_t handle = message->body.handle.handle;

    if (handle >= SESSION_CHANNELS_MAX || session->channels[handle] == NULL) {
        answer(worker, message, TS_ERR_NOT_FOUND, handle, "no such channel");
        return;
    }
    channel_delete(session->channels[handle]);
    answer(worker, message, TS_OK, handle, "");
}

static void on_region_add(struct worker *worker, struct session *session,
                          struct wire_message *message)
{
    char text[PROTO_TEXT_MAX] = "";
    int rc = region_add(session, &message->body.region, wire_message_take(message, 0), text,
                        sizeof(text));

    if (rc == TS_OK &&
        region_answer_later(session, message->body.region.handle, message->header.id))
        return;
    answer(worker, message, rc, message->body.region.handle, text);
}

/* Its GPU is there, as far as it can be. */
static void region_add_gpu_resume(void *owner, struct wire_message *message)
{
    struct session *session = owner;

    control_dispatch(session->worker, message);
    session_release(session);
}

static void on_region_add_gpu(struct worker *worker, struct session *session,
                              struct wire_message *message)
{
    const struct gpu_claim claim = {.owner = session,
                                    .handle = message->body.region.handle,
                                    .served = true,
                                    .resume = region_add_gpu_resume};
    bool replayed = message->header.id <= PROTO_REPLAY_ID_MAX;
    char text[PROTO_TEXT_MAX] = "";
    bool event = message->body.region.kind == REGION_KIND_EVENT;
    int fds[WIRE_FDS_MAX];
    int count = event ? 0 : message->fd_count, rc;

    if (gpu_start_defer(worker, message, &claim)) {
        if (replayed)
            session_hold(session);
        return;
    }
    for (int i = 0; i < count; i++)
        fds[i] = wire_message_take(message, i);
    rc = event ? region_add_event(session, &message->body.region_gpu, text, sizeof(text))
               : region_add_gpu(session, &message->body.region_gpu, fds, count, text, sizeof(text));
    if (rc == TS_OK &&
        region_answer_later(session, message->body.region.handle, message->header.id))
        return;
    answer(worker, message, rc, message->body.region.handle, text);
}

static void on_region_del(struct worker *worker, struct session *session,
                          struct wire_message *message)
{
    uint32_t handle = message->body.handle.handle;
    int rc;

    if (gpu_start_drop(worker, session, handle)) {
        region_skip(session, handle);
        session_release(session);
        answer(worker, message, TS_OK, handle, "");
        return;
    }
    rc = region_delete(session, handle, message->header.id);
    if (rc != TS_OK) /* else the answer comes when the region is drained */
        answer(worker, message, rc, handle, "no such region");
}

static void on_region_grant(struct worker *worker, struct session *session,
                            struct wire_message *message)
{
    struct wire_message grant;
    char text[PROTO_TEXT_MAX] = "no such region";
    void *region;
    int rc = table_get(&session->regions, message->body.handle.handle, &region);

    wire_message_init(&grant, WIRE_GRANT);
    grant.header.id = message->header.id;
    grant.header.session = message->header.session;
    if (rc == TS_OK)
        rc = verbs_region_grant(region, &grant.body.grant, &grant.fds[0], text, sizeof(text));
    if (rc != TS_OK) {
        answer(worker, message, rc, message->body.handle.handle, text);
        return;
    }
    grant.fd_count = 1;
    control_send(worker, &grant);
}

static void on_region_keys(struct worker *worker, struct session *session,
                           struct wire_message *message)
{
    const struct proto_keys *keys = &message->body.keys;
    char text[PROTO_TEXT_MAX] = "no such region";
    void *region;
    int rc = table_get(&session->regions, keys->handle, &region);

    if (rc == TS_OK)
        rc = verbs_region_keys(region, keys, text, sizeof(text));
    answer(worker, message, rc, keys->handle, rc == TS_OK ? "" : text);
}

static void on_remote_open(struct worker *worker, struct session *session,
                           struct wire_message *message)
{
    char text[PROTO_TEXT_MAX] = "";
    int rc;

    wire_text_close(message->body.remote.name);
    rc = remote_add(session, &message->body.remote, message->header.id, text, sizeof(text));
    if (rc != TS_OK) /* else the answer comes when the peer has answered */
        answer(worker, message, rc, message->body.remote.handle, text);
}

static void on_remote_close(struct worker *worker, struct session *session,
                            struct wire_message *message)
{
    uint32_t handle = message->body.handle.handle;
    int rc = remote_close(session, handle);

    answer(worker, message, rc, handle, rc == TS_AGAIN ? "requests to it are in flight" : "");
}

static void on_remote_watch(struct worker *worker, struct session *session,
                            struct wire_message *message)
{
    uint32_t handle = message->body.handle.handle;

    answer(worker, message, remote_watch(session, handle), handle, "");
}

static void on_peer_socket(struct worker *worker, struct session *session,
                           struct wire_message *message)
{
    (void)session;
    accept_peer(worker, &message->body.peer, wire_message_take(message, 0));
}

static void on_local_link(struct worker *worker, struct session *session,
                          struct wire_message *message)
{
    (void)session;
    if (message->fd_count == 1)
        accept_local(worker, &message->body.link, wire_message_take(message, 0));
}

static void on_drain(struct worker *worker, struct session *session, struct wire_message *message)
{
    (void)session;
    drain_start(worker, message->body.drain.deadline_ms);
}

static const struct {
    control_handler *handle;
    bool needs_session;
} control_handlers[WIRE_TYPE_COUNT] = {
    [WIRE_SESSION_ADD] = {on_session_add, false},
    [WIRE_SESSION_DEL] = {on_session_del, true},
    [WIRE_CHANNEL_ADD] = {on_channel_add, true},
    [WIRE_CHANNEL_CLOSE] = {on_channel_close, true},
    [WIRE_REGION_ADD] = {on_region_add, true},
    [WIRE_REGION_DEL] = {on_region_del, true},
    [WIRE_REGION_GRANT] = {on_region_grant, true},
    [WIRE_REGION_KEYS] = {on_region_keys, true},
    [WIRE_REMOTE_OPEN] = {on_remote_open, true},
    [WIRE_REMOTE_CLOSE] = {on_remote_close, true},
    [WIRE_REMOTE_WATCH] = {on_remote_watch, true},
    [WIRE_PEER_SOCKET] = {on_peer_socket, false},
    [WIRE_LOCAL_LINK] = {on_local_link, false},
    [WIRE_DRAIN] = {on_drain, false},
    [WIRE_REGION_ADD_GPU] = {on_region_add_gpu, true},
};

static void control_dispatch(struct worker *worker, struct wire_message *message)
{
    struct session *session = session_find(worker, message->header.session);
    control_handler *handle = control_handlers[message->header.type].handle;

    if (handle == NULL)
        return;
    if (control_handlers[message->header.type].needs_session && session == NULL)
        answer(worker, message, TS_ERR_NOT_FOUND, 0, "no such session");
    else
        handle(worker, session, message);
}

/* Its descriptors could not be taken: a refusal, not the end of all the other jobs. */
static void control_refuse(struct worker *worker, const struct wire_message *message)
{
    struct rlimit limit = {0};
    char text[PROTO_TEXT_MAX];

    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, sizeof(text),
             "worker %s may open no more files (RLIMIT_NOFILE is %llu): raise it for the "
             "supervisor, LimitNOFILE= in its unit",
             worker->config.name, (unsigned long long)limit.rlim_cur);
    worker_error(worker, &worker->job_limit, "a request was refused: %s", text);
    answer(worker, message, TS_ERR_LIMIT, 0, text);
}

static void control_on_ready(struct source *source, uint32_t events)
{
    struct worker *worker = list_entry(source, struct worker, control);
    struct wire_message message;
    int rc;

    if ((events & EPOLLOUT) != 0)
        control_flush(worker);
    while ((rc = wire_receive(source->fd, &message)) == TS_OK || rc == TS_ERR_LIMIT) {
        if (rc == TS_OK)
            control_dispatch(worker, &message);
        else
            control_refuse(worker, &message);
        wire_message_close(&message);
    }
    if (rc != TS_AGAIN)
        worker->stop = true; /* the supervisor is gone: this worker has no business any more */
}

int control_init(struct worker *worker, int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    struct wire_message message;
    int counters;

    if (poll(&ready, 1, CONFIG_WAIT_MS) != 1 || wire_receive(fd, &message) != TS_OK)
        return -1;
    if (message.header.type != WIRE_WORKER_CONFIG) {
        wire_message_close(&message);
        return -1;
    }
    worker->config = message.body.config;
    wire_text_close(worker->config.name);
    wire_text_close(worker->config.device);
    wire_text_close(worker->config.gpu);
    wire_text_close(worker->config.address);
    wire_text_close(worker->config.local_socket);
    counters = wire_message_take(&message, 0);
    if (worker->config.worker_index >= COUNTERS_WORKERS ||
        counters_map(counters, true, &worker->counters) != TS_OK) {
        close(counters);
        return -1;
    }
    close(counters);
    worker->block = &worker->counters->worker[worker->config.worker_index];
    worker->stats = &worker->block->stats;
    worker->control = (struct source){.fd = fd, .ready = control_on_ready};
    return reactor_watch(&worker->reactor, &worker->control, EPOLLIN);
}
