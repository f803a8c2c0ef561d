/* Telling a new worker process about the jobs of its predecessor. */
#ifndef TESUP_SUPERVISOR_JOB_REPLAY_H
#define TESUP_SUPERVISOR_JOB_REPLAY_H

#include "supervisor/job/job.h"

/* The ids of replayed messages say what a refusal means; asks have higher ones. */
enum replay_id {
    REPLAY_ID_DETAIL = 0, /* a region or a remote is lost, the job goes on */
    REPLAY_ID_BASE = 1,   /* without its session and channels the job cannot go on */
};
static_assert(REPLAY_ID_BASE == PROTO_REPLAY_ID_MAX, "workers tell replayed messages by their id");

/* Goes on with the worker's unknown jobs while its queue is short; called again when it is empty.
 */
void job_replay_continue(struct worker_process *worker);

#endif
