/* Which worker serves a job. */
#ifndef TESUP_SUPERVISOR_WORKER_CHOOSE_H
#define TESUP_SUPERVISOR_WORKER_CHOOSE_H

#include "supervisor/supervisor.h"

/* By `wanted` (the words of place.h) if it is not "", else the one nearest to the node of `cpu`,
 * where that is known; among equals a ready one, and then the one with the fewest jobs.
 * NULL with *status and a sentence in text. */
struct worker_process *worker_choose(struct supervisor *supervisor, const char *wanted, int cpu,
                                     int *status, char *text, size_t text_size);

#endif
