/* What the kernel says about a process that should move, read without asking it. */
#ifndef TESUP_SUPERVISOR_STATUS_LOOK_H
#define TESUP_SUPERVISOR_STATUS_LOOK_H

#include <stdint.h>
#include <sys/types.h>

struct status_process {
    char state;           /* as in /proc/PID/stat; 0: nobody looked; 'X': it is gone */
    uint64_t start_ticks; /* process_start_time() */
    uint64_t cpu_ns;      /* CPU time so far; 0 unknown */
    pid_t tracer;         /* debugger, 0 none */
    char wait[32];        /* kernel function in which it sleeps, "" unknown */
};

typedef void status_look(pid_t pid, struct status_process *process);

/* Looks into /proc. */
status_look status_look_proc;

#endif
