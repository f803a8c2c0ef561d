#include "supervisor/job/job.h"

#include <stdlib.h>
#include <unistd.h>

#include "shm/err.h"
#include "supervisor/job/attach.h"
#include "supervisor/job/name.h"
#include "supervisor/job/record.h"
#include "supervisor/job/request.h"
#include "supervisor/publish.h"
#include "supervisor/supervisor.h"

void job_free(struct job *job)
{
    struct supervisor *supervisor = job->supervisor;

    list_each (node, next, &job->asks)
        job_ask_free(list_entry(node, struct job_ask, node));
    job_records_drop(job);
    publish_job_end(job);
    timer_clear(&supervisor->loop.timers, &job->timer);
    registry_remove(&job->segment);
    table_remove(&supervisor->jobs, job->handle);
    list_remove(&job->worker_node);
    job->worker->job_count--;
    table_fini(&job->regions);
    table_fini(&job->remotes);
    /* Last: a job that waits for our hang-up may then use its segment's name again. */
    if (job->socket >= 0)
        close(job->socket);
    free(job);
    job_name_freed(supervisor);
}

void job_end(struct job *job, const char *why)
{
    struct supervisor *supervisor = job->supervisor;
    struct job_ask *farewell;

    if (job->state == JOB_ENDING)
        return;
    if (job->state == JOB_OPEN) {
        atomic_count(&supervisor->counters->supervisor.sessions_ended, 1);
        report_event(&supervisor->job_left, "job %d (%s) detached from %s: %s", (int)job->cred.pid,
                     job->comm, job->segment.name, why);
    }
    job->state = JOB_ENDING;
    loop_remove(&supervisor->loop, &job->source);
    loop_remove(&supervisor->loop, &job->exit_source);
    timer_clear(&supervisor->loop.timers, &job->timer);
    close(job->pidfd);
    list_each (node, next, &job->asks)
        job_ask_free(list_entry(node, struct job_ask, node));
    job_records_drop(job);
    publish_job_end(job);
    if (!job->known) {
        job_free(job);
        return;
    }
    job_mark_served(job); /* nothing is left to be replayed */
    farewell = job_ask_new(job, WIRE_SESSION_DEL, 0, 0, JOB_ASK_MS);
    if (farewell == NULL) {
        worker_process_kill(job->worker, "no memory to tell it that a job is gone");
        return;
    }
    job_ask_send(farewell);
}

void job_mark_served(struct job *job)
{
    list_remove(&job->worker_node);
    list_append(&job->worker->served, &job->worker_node);
    job->known = true;
    job->served = true;
}

bool job_send(struct job *job, const struct wire_message *message)
{
    int rc = wire_send(job->socket, message);

    if (rc == TS_OK)
        return true;
    job_end(job, rc == TS_AGAIN ? "it does not read its answers" : "its socket is broken");
    return false;
}

/* One message per turn: the job may be gone after any of them. */
static void job_readable(struct loop_source *source, uint32_t events)
{
    struct job *job = list_entry(source, struct job, source);
    struct wire_message message;
    int rc;

    (void)events;
    rc = wire_receive(job->socket, &message);
    if (rc == TS_AGAIN)
        return;
    if (rc == TS_OK) {
        job_request(job, &message);
        wire_message_close(&message);
        return;
    }
    if (rc == TS_ERR_LIMIT) {
        job_request_no_files(job, &message);
        return;
    }
    if (rc == TS_ERR_GONE || rc == TS_ERR_SYSTEM) {
        job_end(job, "it closed its socket");
        return;
    }
    report_problem(job->supervisor, &job->supervisor->job_broken,
                   "job %d (%s) sent a broken message (%s) and was detached", (int)job->cred.pid,
                   job->comm, err_name(rc));
    job_end(job, "broken message");
}

static void job_exited(struct loop_source *source, uint32_t events)
{
    (void)events;
    job_end(list_entry(source, struct job, exit_source), "its process ended");
}

int job_watch(struct job *job)
{
    struct loop *loop = &job->supervisor->loop;

    if (loop_add(loop, &job->source, job->socket, EPOLLIN, job_readable) < 0)
        return -1;
    return loop_add(loop, &job->exit_source, job->pidfd, EPOLLIN, job_exited);
}

void job_worker_lost(struct worker_process *worker)
{
    list_each (node, next, &worker->served) {
        list_remove(node);
        list_append(&worker->backlog, node);
    }
    list_each (node, next, &worker->backlog) {
        struct job *job = list_entry(node, struct job, worker_node);

        job->known = false;
        job->served = false;
        job->replaying_remotes = false;
        job->replay_cursor = 0;
        if (job->state == JOB_ENDING)
            job_free(job);
        else
            job_request_worker_lost(job);
    }
}

static void jobs_end(struct list *jobs, const char *text)
{
    list_each (node, next, jobs) {
        struct job *job = list_entry(node, struct job, worker_node);

        if (job->state == JOB_OPEN)
            job_end(job, text);
        else
            job_attach_refuse(job, TS_ERR_UNREACHABLE, text);
    }
}

void job_worker_failed(struct worker_process *worker)
{
    jobs_end(&worker->backlog, worker->state == WORKER_STATE_FAILED
                                   ? "its worker has failed; `tesup status` says why"
                                   : "the supervisor is leaving");
}

void job_killed_by_worker(struct worker_process *worker, uint32_t handle, const char *why)
{
    struct supervisor *supervisor = worker->supervisor;
    void *object;
    struct job *job;

    if (table_get(&supervisor->jobs, handle, &object) != TS_OK)
        return;
    job = object;
    if (job->worker != worker || job->state == JOB_ENDING)
        return;
    report_problem(supervisor, &supervisor->job_broken,
                   "job %d (%s) broke the rules and was detached: %s", (int)job->cred.pid,
                   job->comm, why);
    job_end(job, why);
}
