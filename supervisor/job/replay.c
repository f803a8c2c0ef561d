#include "supervisor/job/replay.h"

#include "supervisor/job/attach.h"
#include "supervisor/supervisor.h"

/* Descriptors wait in the queue as duplicates: a worker is told as fast as it reads. */
#define REPLAY_QUEUE_MAX 256u

/* Answers to a replay are looked at only for errors. */
static void replay_send(struct job *job, enum wire_type type, uint32_t handle)
{
    struct wire_message message;

    job_message_build(job, type, handle, true, &message);
    message.header.id =
        type == WIRE_SESSION_ADD || type == WIRE_CHANNEL_ADD ? REPLAY_ID_BASE : REPLAY_ID_DETAIL;
    worker_link_send(&job->worker->link, &message);
}

static void replay_begin(struct job *job)
{
    replay_send(job, WIRE_SESSION_ADD, 0);
    for (uint32_t i = 0; i < JOB_CHANNELS_MAX; i++)
        if (job->channels[i].used && job->channels[i].live)
            replay_send(job, WIRE_CHANNEL_ADD, i);
    job->known = true;
}

static bool replay_region(struct job *job)
{
    const struct job_region *region = table_next(&job->regions, &job->replay_cursor);

    if (region != NULL && region->live)
        replay_send(job, WIRE_REGION_ADD, region->ask.handle);
    return region != NULL;
}

static bool replay_remote(struct job *job)
{
    const struct job_remote *remote = table_next(&job->remotes, &job->replay_cursor);

    if (remote == NULL)
        return false;
    if (remote->live)
        replay_send(job, WIRE_REMOTE_OPEN, remote->ask.handle);
    if (remote->live && remote->watched)
        replay_send(job, WIRE_REMOTE_WATCH, remote->ask.handle);
    return true;
}

/* One step: first what the old process had, at last what it still owed. */
static void replay_step(struct job *job)
{
    if (job->state != JOB_OPEN) {
        job_attach_start(job);
    } else if (!job->known) {
        replay_begin(job);
    } else if (!job->replaying_remotes) {
        if (!replay_region(job)) {
            job->replaying_remotes = true;
            job->replay_cursor = 0;
        }
    } else if (!replay_remote(job)) {
        job_mark_served(job);
        list_each (node, next, &job->asks)
            job_ask_send(list_entry(node, struct job_ask, node));
    }
}

void job_replay_continue(struct worker_process *worker)
{
    if (worker->state != WORKER_STATE_READY)
        return;
    while (!list_empty(&worker->backlog) && worker->link.queued < REPLAY_QUEUE_MAX)
        replay_step(list_entry(worker->backlog.next, struct job, worker_node));
}
