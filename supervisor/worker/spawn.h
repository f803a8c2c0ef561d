/* Starting a worker process: bound to its core and node before it runs its first instruction. */
#ifndef TESUP_SUPERVISOR_WORKER_SPAWN_H
#define TESUP_SUPERVISOR_WORKER_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WORKER_CONTROL_FD 3 /* in the worker */

struct worker_place {
    const char *name;
    const char *cpus; /* to pin it to, as a list */
    int node;         /* -1 = memory where it comes from */
    bool foreground;  /* it may keep our standard error */
};

struct worker_spawned {
    pid_t pid;
    int pidfd;
    int control; /* our end of its socket, non-blocking */
    int report;  /* what the child could not do, as text; end of file once it runs */
};

/* 0, or -1 with a sentence in text. */
int worker_spawn(const struct worker_place *place, struct worker_spawned *spawned, char *text,
                 size_t text_size);

#endif
