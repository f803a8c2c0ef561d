#include "supervisor/job/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/name.h"
#include "shm/process.h"
#include "supervisor/job/name.h"
#include "supervisor/job/record.h"
#include "supervisor/job/replay.h"
#include "supervisor/publish.h"
#include "supervisor/shortage.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker/choose.h"

#define WORKER_WAIT_MS 5000u
#define ATTACH_ASK_MS  4000u /* so that the job hears of it before its own 10 s are over */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static void welcome_refusal(struct wire_message *message, uint32_t id, int status, const char *text)
{
    wire_message_init(message, WIRE_WELCOME);
    message->header.id = id;
    message->body.welcome.status = status;
    snprintf(message->body.welcome.text, sizeof(message->body.welcome.text), "%s", text);
}

static void refusal_count(struct supervisor *supervisor, const char *text)
{
    atomic_count(&supervisor->counters->supervisor.attach_refused, 1);
    report_problem(supervisor, &supervisor->job_refused, "attach refused: %s", text);
}

void job_attach_deny(struct supervisor *supervisor, int socket, uint32_t id, int status,
                     const char *text)
{
    struct wire_message message;

    refusal_count(supervisor, text);
    welcome_refusal(&message, id, status, text);
    (void)wire_send(socket, &message); /* it is closed next, read or not */
    close(socket);
}

void job_attach_refuse(struct job *job, int status, const char *text)
{
    struct wire_message message;

    refusal_count(job->supervisor, text);
    welcome_refusal(&message, job->hello_id, status, text);
    if (job_send(job, &message))
        job_end(job, text);
}

static bool uid_allowed(const struct option_uids *allowed, uid_t uid)
{
    for (uint32_t i = 0; i < allowed->count; i++)
        if (allowed->uid[i] == uid)
            return true;
    return allowed->all;
}

static uint32_t uid_jobs(const struct supervisor *supervisor, uid_t uid)
{
    const struct job *job;
    uint32_t cursor = 0, count = 0;

    while ((job = table_next(&supervisor->jobs, &cursor)) != NULL)
        if (job->cred.uid == uid && job->state != JOB_ENDING)
            count++;
    return count;
}

/* May this process attach at all? */
static int hello_check_process(struct supervisor *supervisor, const struct ucred *cred, char *text,
                               size_t text_size)
{
    const struct serve_options *options = &supervisor->options;

    if (supervisor->draining) {
        snprintf(text, text_size, "supervisor %s is leaving", options->name);
        return TS_ERR_UNREACHABLE;
    }
    if (!uid_allowed(&options->allow_uids, cred->uid)) {
        snprintf(text, text_size, "uid %u is not in limits.allow_uids of supervisor %s", cred->uid,
                 options->name);
        return TS_ERR_DENIED;
    }
    if (cred->pid <= 0) {
        snprintf(text, text_size,
                 "the process is not visible to supervisor %s: let them share a PID namespace",
                 options->name);
        return TS_ERR_DENIED;
    }
    if (uid_jobs(supervisor, cred->uid) >= options->sessions_per_uid)
        job_reap(supervisor);
    if (uid_jobs(supervisor, cred->uid) >= options->sessions_per_uid) {
        snprintf(text, text_size, "uid %u has %u sessions, which is limits.sessions_per_uid",
                 cred->uid, options->sessions_per_uid);
        return TS_ERR_LIMIT;
    }
    return TS_OK;
}

static int hello_check_words(struct proto_hello *hello, char *text, size_t text_size)
{
    wire_text_close(hello->segment);
    wire_text_close(hello->pair);
    if (hello->abi_major != LAYOUT_VERSION_MAJOR) {
        snprintf(
            text, text_size,
            "libtesup speaks version %u.%u, this supervisor (tesup %s) %u.%u: install the same "
            "release of both",
            hello->abi_major, hello->abi_minor, TESUP_VERSION, LAYOUT_VERSION_MAJOR,
            LAYOUT_VERSION_MINOR);
        return TS_ERR_VERSION;
    }
    if ((hello->features & LAYOUT_FEATURES_KNOWN) != LAYOUT_FEATURES_KNOWN) {
        snprintf(text, text_size,
                 "libtesup knows channel features %#llx, this supervisor (tesup %s) uses %#llx: "
                 "install the same release of both",
                 (unsigned long long)hello->features, TESUP_VERSION,
                 (unsigned long long)LAYOUT_FEATURES_KNOWN);
        return TS_ERR_VERSION;
    }
    if (hello->slots != 0 && !job_slots_valid(hello->slots)) {
        snprintf(text, text_size, "%u slots: must be a power of two from 16 to %u", hello->slots,
                 LAYOUT_SLOTS_MAX);
        return TS_ERR_INVALID;
    }
    if (hello->segment[0] != '\0' && !name_label_valid(hello->segment)) {
        snprintf(text, text_size,
                 "the segment's name is not 1 to 63 letters, digits or any of . _ - @ : +");
        return TS_ERR_INVALID;
    }
    if ((hello->flags & ~PROTO_SHARE_ALL) != 0) {
        snprintf(text, text_size, "flags 0x%x are unknown", hello->flags);
        return TS_ERR_INVALID;
    }
    return TS_OK;
}

/* The connection itself knows its process best; older kernels only know the number. */
static int peer_pidfd(int socket, pid_t pid)
{
    int pidfd = -1;
    socklen_t size = sizeof(pidfd);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
        return pidfd;
    return errno == ENOPROTOOPT ? process_pidfd(pid) : -1;
}

static int pidfd_error(int error, pid_t pid, char *text, size_t text_size)
{
    if (error == EMFILE || error == ENFILE) {
        report_no_files(text, text_size);
        return TS_ERR_LIMIT;
    }
    snprintf(text, text_size, "process %d cannot be watched: %s", (int)pid, strerror(error));
    return TS_ERR_SYSTEM;
}

static void attach_wait_over(struct timer *timer)
{
    struct job *job = list_entry(timer, struct job, timer);
    char text[PROTO_TEXT_MAX];

    snprintf(text, sizeof(text), "worker %s is %s and was not ready within 5 s; see `tesup status`",
             job->worker->pair->name,
             job->worker->state == WORKER_STATE_STARTING ? "restarting"
                                                         : worker_state_name(job->worker->state));
    job_attach_refuse(job, TS_ERR_UNREACHABLE, text);
}

void job_attach_wait(struct job *job)
{
    job->state = JOB_WAITING;
    job->timer.fire = attach_wait_over;
    loop_timer_set(&job->supervisor->loop, &job->timer, WORKER_WAIT_MS);
}

static struct job *job_alloc(struct supervisor *supervisor, struct worker_process *worker,
                             int socket, const struct ucred *cred, const struct wire_message *hello)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->supervisor = supervisor;
    job->worker = worker;
    job->socket = socket;
    job->cred = *cred;
    job->since_ns = clock_wall();
    job->start_time = process_start_time(cred->pid);
    process_comm(cred->pid, job->comm);
    job->hello_id = hello->header.id;
    job->slots = hello->body.hello.slots != 0 ? hello->body.hello.slots : supervisor->options.slots;
    job->flags = hello->body.hello.flags;
    job->counters_slot = -1;
    list_init(&job->asks);
    list_init(&job->segment.node);
    table_init_random(&job->regions, supervisor->options.regions_per_session);
    table_init_random(&job->remotes, TABLE_SLOTS_MAX);
    job->handle = table_add(&supervisor->jobs, job);
    if (job->handle == 0) {
        free(job);
        return NULL;
    }
    list_append(&worker->backlog, &job->worker_node);
    worker->job_count++;
    return job;
}

/* A full table and no memory look the same to job_alloc. */
static int job_alloc_error(const struct supervisor *supervisor, char *text, size_t text_size)
{
    if (supervisor->jobs.used < supervisor->jobs.limit)
        return shortage_explain(ENOMEM, "a session", sizeof(struct job), text, text_size);
    snprintf(text, text_size, "%u sessions are attached, which is limits.sessions_max",
             supervisor->jobs.used);
    return TS_ERR_LIMIT;
}

void job_attach(struct supervisor *supervisor, int socket, const struct ucred *cred,
                struct wire_message *message)
{
    struct proto_hello *hello = &message->body.hello;
    struct worker_process *worker = NULL;
    char text[PROTO_TEXT_MAX];
    struct job *job;
    int status = hello_check_process(supervisor, cred, text, sizeof(text));

    if (status == TS_OK)
        status = hello_check_words(hello, text, sizeof(text));
    if (status == TS_OK)
        worker = worker_choose(supervisor, hello->pair, hello->cpu, &status, text, sizeof(text));
    if (worker == NULL)
        goto err_deny;
    job = job_alloc(supervisor, worker, socket, cred, message);
    if (job == NULL) {
        status = job_alloc_error(supervisor, text, sizeof(text));
        goto err_deny;
    }
    job->pidfd = peer_pidfd(socket, cred->pid);
    if (job->pidfd < 0) {
        status = pidfd_error(errno, cred->pid, text, sizeof(text));
        goto err_free;
    }
    status = job_name_take(job, hello->segment, text, sizeof(text));
    if ((status == TS_OK || status == TS_AGAIN) && job_watch(job) < 0) {
        snprintf(text, sizeof(text), "the supervisor cannot watch the socket: %s", strerror(errno));
        status = TS_ERR_SYSTEM;
    }
    if (status == TS_AGAIN) {
        job_name_wait(job);
    } else if (status != TS_OK) {
        job_attach_refuse(job, status, text);
    } else {
        job_attach_wait(job);
        job_replay_continue(worker);
    }
    return;

err_free:
    job->socket = -1; /* the refusal goes over it */
    job_free(job);
err_deny:
    job_attach_deny(supervisor, socket, message->header.id, status, text);
}

void job_attach_start(struct job *job)
{
    uint32_t handle = 0;
    char text[PROTO_TEXT_MAX];
    struct job_ask *session, *channel;
    int status = TS_OK;

    if (!job->channels[0].used)
        status = job_channel_add(job, job->slots, &handle, text, sizeof(text));
    if (status != TS_OK) {
        job_attach_refuse(job, status, text);
        return;
    }
    timer_clear(&job->supervisor->loop.timers, &job->timer);
    session = job_ask_new(job, WIRE_SESSION_ADD, 0, 0, ATTACH_ASK_MS);
    channel = job_ask_new(job, WIRE_CHANNEL_ADD, 0, 0, ATTACH_ASK_MS);
    if (session == NULL || channel == NULL) {
        status = shortage_explain(ENOMEM, "a session", sizeof(*session), text, sizeof(text));
        job_attach_refuse(job, status, text);
        return;
    }
    job->state = JOB_ATTACHING;
    job_mark_served(job);
    job_ask_send(session);
    job_ask_send(channel);
}

static void job_welcome(struct job *job)
{
    struct job_channel *channel = &job->channels[0];
    struct wire_message message;
    struct proto_welcome *welcome = &message.body.welcome;

    wire_message_init(&message, WIRE_WELCOME);
    message.header.id = job->hello_id;
    welcome->notify_max = job->supervisor->notify_max;
    welcome->supervisor_pid = (uint32_t)getpid();
    if (job->worker->pair->nic[0] != '\0' &&
        (job->supervisor->options.fabric == OPTION_FABRIC_AUTO ||
         job->supervisor->options.fabric == OPTION_FABRIC_VERBS))
        welcome->flags = PROTO_WELCOME_RDMA;
    memcpy(welcome->segment, job->full_name, sizeof(welcome->segment));
    snprintf(welcome->worker, sizeof(welcome->worker), "%s", job->worker->pair->name);
    memcpy(message.fds, channel->fds, sizeof(channel->fds));
    message.fd_count = 3;
    channel->live = true;
    job->state = JOB_OPEN;
    atomic_count(&job->supervisor->counters->supervisor.attaches, 1);
    publish_job(job);
    if (job_send(job, &message))
        report_event(&job->supervisor->job_came, "job %d (%s) attached as %s to worker %s",
                     (int)job->cred.pid, job->comm, job->segment.name, job->worker->pair->name);
}

void job_attach_answered(struct job *job, int status, const char *text)
{
    if (status != TS_OK)
        job_attach_refuse(job, status, text);
    else if (list_empty(&job->asks))
        job_welcome(job);
}
