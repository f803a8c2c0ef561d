/* Telling a new worker process about the jobs of its predecessor. */
#ifndef TESUP_SUPERVISOR_JOB_REPLAY_H
#define TESUP_SUPERVISOR_JOB_REPLAY_H

#include "supervisor/job.h"

/* Goes on with the worker's unknown jobs while its queue is short; called again when it is empty.
 */
void job_replay_continue(struct worker_process *worker);

#endif
