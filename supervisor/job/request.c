#include "supervisor/job/request.h"

#include <errno.h>
#include <stdio.h>

#include "shm/err.h"
#include "supervisor/job/attach.h"
#include "supervisor/job/record.h"
#include "supervisor/job/replay.h"
#include "supervisor/shortage.h"
#include "supervisor/supervisor.h"

static void job_answer(struct job *job, uint32_t id, int status, uint32_t handle, const char *text)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_REPLY);
    message.header.id = id;
    message.body.reply.status = status;
    message.body.reply.handle = handle;
    snprintf(message.body.reply.text, sizeof(message.body.reply.text), "%s", text);
    job_send(job, &message);
}

/* To be answered by the worker; NULL when the job has too many of them. */
static struct job_ask *ask_make(struct job *job, enum wire_type type, uint32_t job_id,
                                uint32_t handle, uint64_t timeout_ms)
{
    return job->ask_count < JOB_ASKS_MAX ? job_ask_new(job, type, job_id, handle, timeout_ms)
                                         : NULL;
}

static void answer_busy(struct job *job, uint32_t id)
{
    job_answer(job, id, TS_ERR_LIMIT, 0, "too many requests of this process wait for an answer");
}

static void channel_open(struct job *job, const struct wire_message *message)
{
    uint32_t slots = message->body.channel.slots, handle, id = message->header.id;
    char text[PROTO_TEXT_MAX] = "slots is not a power of two from 16 to 4096";
    int status = TS_ERR_INVALID;
    struct job_ask *ask;

    if (slots == 0)
        slots = job->supervisor->options.slots;
    if (job_slots_valid(slots))
        status = job_channel_add(job, slots, &handle, text, sizeof(text));
    if (status != TS_OK) {
        job_answer(job, id, status, 0, text);
        return;
    }
    ask = ask_make(job, WIRE_CHANNEL_ADD, id, handle, JOB_ASK_MS);
    if (ask == NULL) {
        job_channel_drop(job, handle);
        answer_busy(job, id);
        return;
    }
    job_ask_send(ask);
}

static void channel_leave(struct job *job, const struct wire_message *message)
{
    uint32_t handle = message->body.handle.handle;
    struct job_channel *channel;
    struct job_ask *ask;
    int rc = job_channel_get(job, handle, &channel);

    if (rc != TS_OK || handle == 0) {
        job_answer(job, message->header.id, handle == 0 ? TS_ERR_INVALID : rc, handle,
                   handle == 0 ? "the main channel closes with the session" : "no such channel");
        return;
    }
    ask = ask_make(job, WIRE_CHANNEL_CLOSE, message->header.id, handle, JOB_ASK_MS);
    if (ask == NULL) {
        answer_busy(job, message->header.id);
        return;
    }
    channel->leaving = true;
    job_ask_send(ask);
}

/* A GPU's region has a message of its own, and as many descriptors as it offers ways with one. */
static bool region_fits(const struct wire_message *message)
{
    uint32_t kind = message->body.region.kind;

    bool gpu = kind == REGION_KIND_GPU || kind == REGION_KIND_EVENT;

    if (gpu != (message->header.type == WIRE_REGION_ADD_GPU))
        return false;
    if (gpu)
        return proto_gpu_fits(&message->body.region_gpu.gpu, message->fd_count);
    return (kind == REGION_KIND_SHARED) == (message->fd_count == 1);
}

static void region_add(struct job *job, struct wire_message *message)
{
    uint32_t id = message->header.id, handle;
    struct job_ask *ask;
    int rc;

    if (!region_fits(message)) {
        job_answer(job, id, TS_ERR_INVALID, 0,
                   "shared memory comes with its file descriptor, private memory without, a GPU's "
                   "with one for each way that has one");
        return;
    }
    rc = job_region_add(job, message, &handle);
    if (rc != TS_OK) {
        char text[PROTO_TEXT_MAX];

        snprintf(text, sizeof(text),
                 "%u regions are registered, which is limits.regions_per_session",
                 job->regions.used);
        if (rc != TS_ERR_LIMIT)
            rc =
                shortage_explain(ENOMEM, "a region", sizeof(struct job_region), text, sizeof(text));
        job_answer(job, id, rc, 0, text);
        return;
    }
    ask = ask_make(job, WIRE_REGION_ADD, id, handle, JOB_ASK_MS);
    if (ask == NULL) {
        job_region_drop(job, handle);
        answer_busy(job, id);
        return;
    }
    job_ask_send(ask);
}

/* The job gave up waiting for an answer and asks again: it waits for the same one. */
static bool region_leave_again(struct job *job, uint32_t id, uint32_t handle)
{
    list_each (node, next, &job->asks) {
        struct job_ask *ask = list_entry(node, struct job_ask, node);

        if (ask->type != WIRE_REGION_DEL || ask->handle != handle)
            continue;
        ask->job_id = id;
        ask->abandoned = false;
        loop_timer_set(&job->supervisor->loop, &ask->timer, JOB_ASK_MS);
        return true;
    }
    return false;
}

static void region_leave(struct job *job, const struct wire_message *message)
{
    uint32_t handle = message->body.handle.handle;
    struct job_region *region;
    struct job_ask *ask;
    int rc;

    if (region_leave_again(job, message->header.id, handle))
        return;
    rc = job_region_get(job, handle, &region);
    if (rc != TS_OK) {
        job_answer(job, message->header.id, rc, handle,
                   rc == TS_ERR_GONE ? "the region was unregistered" : "no such region");
        return;
    }
    ask = ask_make(job, WIRE_REGION_DEL, message->header.id, handle, JOB_ASK_MS);
    if (ask == NULL) {
        answer_busy(job, message->header.id);
        return;
    }
    region->leaving = true;
    job_ask_send(ask);
}

static void region_grant(struct job *job, const struct wire_message *message)
{
    uint32_t id = message->header.id, handle = message->body.handle.handle;
    struct job_region *region;
    struct job_ask *ask = NULL;
    int rc = job_region_get(job, handle, &region);

    if (rc != TS_OK) {
        job_answer(job, id, rc, handle, "no such region");
        return;
    }
    ask = ask_make(job, WIRE_REGION_GRANT, id, handle, JOB_ASK_MS);
    if (ask == NULL)
        answer_busy(job, id);
    else
        job_ask_send(ask);
}

/* Registered with the device of this very worker process: for no other, so never sent again. */
static void region_keys(struct job *job, const struct wire_message *message)
{
    uint32_t id = message->header.id, handle = message->body.keys.handle;
    struct wire_message copy = *message;
    struct job_region *region;
    struct job_ask *ask;
    int rc = job_region_get(job, handle, &region);

    if (rc != TS_OK || !job->served) {
        job_answer(job, id, rc != TS_OK ? rc : TS_ERR_GONE, handle,
                   rc != TS_OK ? "no such region" : "the worker died");
        return;
    }
    ask = ask_make(job, WIRE_REGION_KEYS, id, handle, JOB_ASK_MS);
    if (ask == NULL) {
        answer_busy(job, id);
        return;
    }
    copy.header.id = ask->id;
    copy.header.session = job->handle;
    worker_link_send(&job->worker->link, &copy);
}

static void remote_open(struct job *job, struct wire_message *message)
{
    struct proto_remote *remote = &message->body.remote;
    uint32_t id = message->header.id, handle;
    struct job_ask *ask;
    int rc;

    wire_text_close(remote->name);
    rc = job_remote_add(job, remote, &handle);
    if (rc != TS_OK) {
        char text[PROTO_TEXT_MAX] = "too many segments are open";

        if (rc != TS_ERR_LIMIT)
            rc = shortage_explain(ENOMEM, "an open segment", sizeof(*remote), text, sizeof(text));
        job_answer(job, id, rc, 0, text);
        return;
    }
    ask =
        ask_make(job, WIRE_REMOTE_OPEN, id, handle, (uint64_t)remote->timeout_ms + JOB_ASK_MORE_MS);
    if (ask == NULL) {
        job_remote_drop(job, handle);
        answer_busy(job, id);
        return;
    }
    job_ask_send(ask);
}

static void remote_ask(struct job *job, const struct wire_message *message)
{
    enum wire_type type = (enum wire_type)message->header.type;
    uint32_t handle = message->body.handle.handle;
    struct job_remote *remote;
    int rc = job_remote_get(job, handle, &remote);
    struct job_ask *ask;

    if (rc != TS_OK) {
        job_answer(job, message->header.id, rc, handle,
                   rc == TS_ERR_GONE ? "the segment was closed" : "no such open segment");
        return;
    }
    ask = ask_make(job, type, message->header.id, handle, JOB_ASK_MS);
    if (ask == NULL) {
        answer_busy(job, message->header.id);
        return;
    }
    remote->leaving = type == WIRE_REMOTE_CLOSE;
    job_ask_send(ask);
}

void job_request(struct job *job, struct wire_message *message)
{
    enum wire_type type = (enum wire_type)message->header.type;

    if (type == WIRE_BYE) {
        job_end(job, "it said goodbye");
        return;
    }
    if (job->state != JOB_OPEN)
        type = WIRE_NONE; /* it has no WELCOME yet, so it has nothing to say */
    switch (type) {
    case WIRE_CHANNEL_OPEN:
        channel_open(job, message);
        break;
    case WIRE_CHANNEL_CLOSE:
        channel_leave(job, message);
        break;
    case WIRE_REGION_ADD:
    case WIRE_REGION_ADD_GPU:
        region_add(job, message);
        break;
    case WIRE_REGION_DEL:
        region_leave(job, message);
        break;
    case WIRE_REGION_GRANT:
        region_grant(job, message);
        break;
    case WIRE_REGION_KEYS:
        region_keys(job, message);
        break;
    case WIRE_REMOTE_OPEN:
        remote_open(job, message);
        break;
    case WIRE_REMOTE_CLOSE:
    case WIRE_REMOTE_WATCH:
        remote_ask(job, message);
        break;
    default:
        report_problem(job->supervisor, &job->supervisor->job_broken,
                       "job %d (%s) sent message %u out of turn and was detached",
                       (int)job->cred.pid, job->comm, message->header.type);
        job_end(job, "message out of turn");
        break;
    }
}

void job_request_no_files(struct job *job, const struct wire_message *message)
{
    char text[PROTO_TEXT_MAX];

    report_no_files(text, sizeof(text));
    report_problem(job->supervisor, &job->supervisor->job_refused, "a request was refused: %s",
                   text);
    job_answer(job, message->header.id, TS_ERR_LIMIT, 0, text);
}

static void record_drop(struct job *job, enum wire_type type, uint32_t handle)
{
    if (type == WIRE_CHANNEL_ADD || type == WIRE_CHANNEL_CLOSE)
        job_channel_drop(job, handle);
    else if (type == WIRE_REGION_ADD || type == WIRE_REGION_DEL)
        job_region_drop(job, handle);
    else if (type == WIRE_REMOTE_OPEN || type == WIRE_REMOTE_CLOSE)
        job_remote_drop(job, handle);
}

/* The record is there for good; `type` made it. */
static void record_settle(struct job *job, enum wire_type type, uint32_t handle)
{
    struct job_remote *remote;
    void *object;

    if (type == WIRE_CHANNEL_ADD)
        job->channels[handle].live = true;
    else if (type == WIRE_REGION_ADD && table_get(&job->regions, handle, &object) == TS_OK)
        ((struct job_region *)object)->live = true;
    else if (type == WIRE_REMOTE_OPEN && table_get(&job->remotes, handle, &object) == TS_OK)
        ((struct job_remote *)object)->live = true;
    else if (type == WIRE_REMOTE_WATCH && job_remote_get(job, handle, &remote) == TS_OK)
        remote->watched = true;
}

/* It has requests in flight: the job may ask again. */
static void remote_stay(struct job *job, uint32_t handle)
{
    void *object;

    if (table_get(&job->remotes, handle, &object) == TS_OK)
        ((struct job_remote *)object)->leaving = false;
}

static enum wire_type inverse_of(enum wire_type type)
{
    switch (type) {
    case WIRE_CHANNEL_ADD:
        return WIRE_CHANNEL_CLOSE;
    case WIRE_REGION_ADD:
        return WIRE_REGION_DEL;
    case WIRE_REMOTE_OPEN:
        return WIRE_REMOTE_CLOSE;
    default:
        return WIRE_NONE;
    }
}

/* The worker did what its job no longer waits for: undo it. */
static void ask_undo(struct job *job, enum wire_type type, uint32_t handle)
{
    struct job_ask *undo = job_ask_new(job, inverse_of(type), 0, handle, JOB_ASK_MS);

    if (undo == NULL) {
        worker_process_kill(job->worker, "no memory to take a late answer back");
        return;
    }
    undo->abandoned = true;
    job_ask_send(undo);
}

static void channel_ready(struct job *job, uint32_t id, uint32_t handle)
{
    const struct job_channel *channel = &job->channels[handle];
    struct wire_message message;

    wire_message_init(&message, WIRE_CHANNEL_READY);
    message.header.id = id;
    message.body.reply.handle = handle;
    for (int i = 0; i < 3; i++)
        message.fds[i] = channel->fds[i];
    message.fd_count = 3;
    job_send(job, &message);
}

static void open_job_answered(const struct job_ask *ask, const struct proto_reply *reply)
{
    struct job *job = ask->job;
    bool makes = inverse_of(ask->type) != WIRE_NONE;

    if (ask->abandoned && makes && reply->status == TS_OK) {
        ask_undo(job, ask->type, ask->handle);
        return;
    }
    if (reply->status == TS_OK && (makes || ask->type == WIRE_REMOTE_WATCH))
        record_settle(job, ask->type, ask->handle);
    else if (ask->type == WIRE_REMOTE_CLOSE && reply->status == TS_AGAIN)
        remote_stay(job, ask->handle);
    else
        record_drop(job, ask->type, ask->handle);
    if (ask->abandoned)
        return;
    if (ask->type == WIRE_CHANNEL_ADD && reply->status == TS_OK)
        channel_ready(job, ask->job_id, ask->handle);
    else
        job_answer(job, ask->job_id, reply->status, ask->handle, reply->text);
}

/* A new process of the worker did not take what its predecessor had.  A job without channels would
 * wait for completions for ever, so it learns by the end of its session. */
static void replay_refused(struct worker_process *worker, const struct wire_message *message)
{
    const struct proto_reply *reply = &message->body.reply;
    struct supervisor *supervisor = worker->supervisor;
    void *object;
    struct job *job;

    if (table_get(&supervisor->jobs, (uint32_t)message->header.session, &object) != TS_OK)
        return;
    job = object;
    if (job->worker != worker || job->state == JOB_ENDING)
        return;
    report_problem(supervisor, &supervisor->job_broken,
                   "worker %s started anew and could not take over %s of job %d (%s)%s: %s: %s",
                   worker->pair->name,
                   message->header.id == REPLAY_ID_BASE ? "a channel" : "everything",
                   (int)job->cred.pid, job->comm,
                   message->header.id == REPLAY_ID_BASE ? ", which was detached" : "",
                   err_name(reply->status), reply->text);
    if (message->header.id == REPLAY_ID_BASE)
        job_end(job, "its worker could not take over its channels");
}

void job_request_answered(struct worker_process *worker, const struct wire_message *message)
{
    const struct proto_reply *reply = &message->body.reply;
    struct job_ask *ask = job_ask_find(worker, message->header.id), copy;

    if (ask == NULL) {
        if (message->header.id <= REPLAY_ID_BASE && reply->status != TS_OK)
            replay_refused(worker, message);
        return;
    }
    copy = *ask;
    job_ask_free(ask);
    if (copy.type == WIRE_SESSION_DEL)
        job_free(copy.job);
    else if (copy.job->state == JOB_ATTACHING)
        job_attach_answered(copy.job, reply->status, reply->text);
    else
        open_job_answered(&copy, reply);
}

void job_request_granted(struct worker_process *worker, struct wire_message *message)
{
    struct job_ask *ask = job_ask_find(worker, message->header.id);
    struct job *job;

    if (ask == NULL || ask->type != WIRE_REGION_GRANT)
        return; /* late: the descriptor is closed with the message */
    job = ask->job;
    message->header.id = ask->job_id;
    message->header.session = 0;
    if (!ask->abandoned && job->state == JOB_OPEN)
        job_send(job, message);
    job_ask_free(ask);
}

void job_request_late(struct job_ask *ask)
{
    struct job *job = ask->job;
    char text[PROTO_TEXT_MAX];
    uint32_t id = ask->job_id;

    if (ask->type == WIRE_SESSION_DEL) {
        worker_process_kill(job->worker, "it did not let a finished job go for 30 s");
        return;
    }
    snprintf(text, sizeof(text), "worker %s did not answer in time", job->worker->pair->name);
    if (job->state == JOB_ATTACHING) {
        job_attach_refuse(job, TS_ERR_TIMEOUT, text);
        return;
    }
    if (ask->abandoned)
        return;
    if (job->known) {
        ask->abandoned = true; /* the record must stay until the worker has answered */
    } else {
        record_drop(job, ask->type, ask->handle);
        job_ask_free(ask);
    }
    job_answer(job, id, TS_ERR_TIMEOUT, 0, text);
}

void job_request_worker_lost(struct job *job)
{
    list_each (node, next, &job->asks) {
        struct job_ask *ask = list_entry(node, struct job_ask, node);

        bool live = job->state == JOB_OPEN && !ask->abandoned;

        if (live && ask->type != WIRE_REGION_KEYS)
            continue;
        if (live)
            job_answer(job, ask->job_id, TS_ERR_GONE, ask->handle, "the worker died");
        if (job->state == JOB_OPEN)
            record_drop(job, ask->type, ask->handle);
        job_ask_free(ask);
    }
    if (job->state == JOB_ATTACHING)
        job_attach_wait(job);
}
