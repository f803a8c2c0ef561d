#include "supervisor/job/name.h"

#include <poll.h>
#include <stdio.h>

#include "shm/err.h"
#include "supervisor/job/attach.h"
#include "supervisor/job/replay.h"
#include "supervisor/supervisor.h"

/* Together with the wait for the worker, less than the 10 s that a job waits for its answer. */
#define NAME_WAIT_MS 4000u

static bool job_has_exited(const struct job *job)
{
    struct pollfd process = {.fd = job->pidfd, .events = POLLIN};

    return poll(&process, 1, 0) == 1;
}

void job_reap(struct supervisor *supervisor)
{
    uint32_t cursor = 0;
    struct job *job;

    while ((job = table_next(&supervisor->jobs, &cursor)) != NULL)
        if (job->state != JOB_ENDING && job_has_exited(job))
            job_end(job, "its process ended");
}

/* NULL: the name is free. */
static struct job *name_holder(const struct job *job)
{
    struct registry_entry *entry = registry_find(&job->supervisor->registry, job->segment.name);

    return entry != NULL ? list_entry(entry, struct job, segment) : NULL;
}

static int name_claim(struct job *job, char *text, size_t text_size)
{
    struct job *holder = name_holder(job);

    if (holder != NULL && holder->state != JOB_ENDING && job_has_exited(holder)) {
        job_end(holder, "its process ended");
        holder = name_holder(job); /* it may have been all that there was to do */
    }
    if (holder == NULL)
        return registry_add(&job->supervisor->registry, &job->segment);
    if (holder->state == JOB_ENDING)
        return TS_AGAIN;
    snprintf(text, text_size, "segment %s is offered by another process already: pid %d (%s)",
             job->segment.name, (int)holder->cred.pid, holder->comm);
    return TS_ERR_EXISTS;
}

int job_name_take(struct job *job, const char *wanted, char *text, size_t text_size)
{
    struct supervisor *supervisor = job->supervisor;

    if (wanted[0] != '\0')
        snprintf(job->segment.name, sizeof(job->segment.name), "%s", wanted);
    else
        snprintf(job->segment.name, sizeof(job->segment.name), "pid-%d-%llu", (int)job->cred.pid,
                 (unsigned long long)++supervisor->unnamed);
    if (snprintf(job->full_name, sizeof(job->full_name), "%s/%s", supervisor->address,
                 job->segment.name) >= (int)sizeof(job->full_name)) {
        snprintf(text, text_size,
                 "HOST:PORT/%s is longer than %u bytes: take a shorter name, or a shorter "
                 "--advertise",
                 job->segment.name, LAYOUT_NAME_MAX - 1);
        return TS_ERR_TOO_LONG;
    }
    return name_claim(job, text, text_size);
}

static void name_wait_over(struct timer *timer)
{
    struct job *job = list_entry(timer, struct job, timer);
    char text[PROTO_TEXT_MAX];

    snprintf(
        text, sizeof(text),
        "segment %s was offered by a process that is gone, and its worker did not let go of it "
        "within %u s; see `tesup status`",
        job->segment.name, NAME_WAIT_MS / 1000);
    job_attach_refuse(job, TS_ERR_EXISTS, text);
}

/* Not among the jobs of its worker, which are told to it as soon as it is ready. */
void job_name_wait(struct job *job)
{
    job->state = JOB_NAMELESS;
    list_remove(&job->worker_node);
    list_append(&job->supervisor->nameless, &job->worker_node);
    job->timer.fire = name_wait_over;
    loop_timer_set(&job->supervisor->loop, &job->timer, NAME_WAIT_MS);
}

void job_name_freed(struct supervisor *supervisor)
{
    if (!list_empty(&supervisor->nameless) && !timer_is_set(&supervisor->names_freed))
        loop_timer_set(&supervisor->loop, &supervisor->names_freed, 0);
}

/* The next in line for a name that became free, or that somebody else has taken in between. NULL:
 * all of them go on waiting. */
static struct job *name_next(struct supervisor *supervisor, int *status, char *text,
                             size_t text_size)
{
    list_each (node, next, &supervisor->nameless) {
        struct job *job = list_entry(node, struct job, worker_node);

        *status = name_claim(job, text, text_size);
        if (*status != TS_AGAIN)
            return job;
    }
    return NULL;
}

void job_name_look(struct timer *timer)
{
    struct supervisor *supervisor = list_entry(timer, struct supervisor, names_freed);
    char text[PROTO_TEXT_MAX];
    struct job *job;
    int status;

    while ((job = name_next(supervisor, &status, text, sizeof(text))) != NULL) {
        struct worker_process *worker = job->worker;

        list_remove(&job->worker_node);
        list_append(&worker->backlog, &job->worker_node);
        if (status != TS_OK) {
            job_attach_refuse(job, status, text);
            continue;
        }
        job_attach_wait(job);
        job_replay_continue(worker);
    }
}

void job_name_close(struct supervisor *supervisor)
{
    while (!list_empty(&supervisor->nameless)) {
        struct job *job = list_entry(supervisor->nameless.next, struct job, worker_node);

        job_attach_refuse(job, TS_ERR_UNREACHABLE, "the supervisor is leaving");
    }
}
