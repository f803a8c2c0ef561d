/* What jobs ask for and what workers answer. */
#ifndef TESUP_SUPERVISOR_JOB_REQUEST_H
#define TESUP_SUPERVISOR_JOB_REQUEST_H

#include "supervisor/job/ask.h"

/* A message of an attached job. The job may be freed on return. */
void job_request(struct job *job, struct wire_message *message);
/* The same for one whose descriptors could not be taken: it is refused. */
void job_request_no_files(struct job *job, const struct wire_message *message);
/* WIRE_GRANT of a worker: its descriptor goes on to the job. */
void job_request_granted(struct worker_process *worker, struct wire_message *message);
/* WIRE_REPLY of a worker. */
void job_request_answered(struct worker_process *worker, const struct wire_message *message);
/* The worker did not answer in time. */
void job_request_late(struct job_ask *ask);
/* The worker's process died: abandoned asks and what they were about are forgotten. */
void job_request_worker_lost(struct job *job);

#endif
