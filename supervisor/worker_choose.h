/* Which worker serves a job. */
#ifndef TESUP_SUPERVISOR_WORKER_CHOOSE_H
#define TESUP_SUPERVISOR_WORKER_CHOOSE_H

#include "supervisor/supervisor.h"

/* By `wanted` (pair, NIC or GPU name) if it is not "", else by the node of `cpu`, else the one with
 * the fewest jobs; ready ones first. NULL with *status and a sentence in text. */
struct worker_process *worker_choose(struct supervisor *supervisor, const char *wanted, int cpu,
                                     int *status, char *text, size_t text_size);

/* True when `cpu` is in a list like "0-3,8". */
bool cpu_list_contains(const char *list, int cpu);

#endif
