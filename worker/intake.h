/* Intake: from a job's submission ring to started requests. */
#ifndef TESUP_WORKER_INTAKE_H
#define TESUP_WORKER_INTAKE_H

#include "worker/channel.h"

/* Takes up to one batch. Returns how many were taken. */
int intake_do_work(struct channel *channel);
/* Is there something to take?  False also when the job's completions have no room: it must first
 * read them, and a job that never does must not keep the worker awake. */
bool intake_has_work(struct channel *channel);

#endif
