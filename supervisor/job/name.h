/* The name of a job's segment, and the wait for one whose holder is on its way out: a job that its
 * runner starts anew at once must not lose against what is left of itself. */
#ifndef TESUP_SUPERVISOR_JOB_NAME_H
#define TESUP_SUPERVISOR_JOB_NAME_H

#include <stddef.h>

#include "supervisor/job/job.h"

/* Jobs whose process has ended are let go now, not when the loop comes to their pidfd. */
void job_reap(struct supervisor *supervisor);

/* Gives the job its names; `wanted` may be empty.  TS_OK; TS_AGAIN: the process that has the name
 * is gone and its worker has not said so yet, job_name_wait() is next; or an error with a sentence
 * in text. */
int job_name_take(struct job *job, const char *wanted, char *text, size_t text_size);

/* Goes on with job_attach_wait() when the name is free, or refuses the job after a while. */
void job_name_wait(struct job *job);

/* A job gave its name back: those who wait have a look in the loop's next turn. */
void job_name_freed(struct supervisor *supervisor);

/* For supervisor->names_freed. */
void job_name_look(struct timer *timer);

/* The supervisor is leaving: nobody waits any longer. */
void job_name_close(struct supervisor *supervisor);

#endif
