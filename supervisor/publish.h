/* The supervisor's blocks of the counters segment. */
#ifndef TESUP_SUPERVISOR_PUBLISH_H
#define TESUP_SUPERVISOR_PUBLISH_H

#include "shm/counters.h"
#include "supervisor/job/job.h"

struct supervisor;

void publish_supervisor(struct supervisor *supervisor);
void publish_heartbeat(struct supervisor *supervisor);

void publish_worker_plan(struct worker_process *worker);
void publish_worker_state(struct counters_worker_life *life, enum worker_state state);
void publish_worker_started(struct counters_worker_life *life, pid_t pid);
void publish_worker_ready(struct counters_worker_life *life, const char *bind);
void publish_worker_death(struct counters_worker_life *life, const char *text);

/* Shows the job, or its new numbers, if there is room for it. */
void publish_job(struct job *job);
void publish_job_end(struct job *job);

#endif
