/* One worker: its process, its socket, its life (worker_fsm.c) and the jobs it serves. */
#ifndef TESUP_SUPERVISOR_WORKER_PROCESS_H
#define TESUP_SUPERVISOR_WORKER_PROCESS_H

#include <sys/types.h>

#include "shm/counters.h"
#include "shm/list.h"
#include "shm/table.h"
#include "supervisor/worker/fsm.h"
#include "supervisor/worker/link.h"
#include "topology/topology.h"

struct supervisor;

struct worker_process {
    struct supervisor *supervisor;
    unsigned index;
    const struct topology_pair *pair;
    enum worker_state state;
    pid_t pid; /* 0 = no process */
    int pidfd;
    int report; /* pipe from before exec: what could not be bound */
    struct loop_source exit_source;
    struct worker_link link;
    struct timer timer; /* deadline or pause of the state */

    char killed[COUNTERS_TEXT]; /* why we killed this process; "" = we did not */

    uint64_t ready_ns; /* monotonic; 0 = this process was never ready */
    unsigned early;    /* deaths in a row before a healthy life, for the pause */
    uint64_t *deaths;  /* when the last restart_max_deaths were; a ring */
    uint64_t death_count;

    struct list served;  /* jobs that this process was told everything of */
    struct list backlog; /* jobs that it must still be told of (job_replay.c) */
    unsigned job_count;
    struct table asks; /* struct job_ask: what this process was asked and owes an answer */
};

/* 0, or -1 without memory. */
int worker_process_init(struct worker_process *worker, struct supervisor *supervisor,
                        unsigned index, const struct topology_pair *pair);
/* Kills and reaps a process that is left. */
void worker_process_fini(struct worker_process *worker);

void worker_process_start(struct worker_process *worker);
void worker_process_drain(struct worker_process *worker);
/* Ends it at once; a new one follows unless the supervisor drains. */
void worker_process_kill(struct worker_process *worker, const char *why);

static inline bool worker_process_alive(const struct worker_process *worker)
{
    return worker->pid != 0;
}

#endif
