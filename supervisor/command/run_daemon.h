/* A supervisor of `tesup run`'s own: lives in a directory of its own, ends with it. */
#ifndef TESUP_SUPERVISOR_COMMAND_RUN_DAEMON_H
#define TESUP_SUPERVISOR_COMMAND_RUN_DAEMON_H

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

#include "supervisor/options/paths.h"

#define RUN_DAEMON_ARGS_MAX 64u

struct run_daemon {
    pid_t pid;  /* 0 = none */
    int output; /* its standard output, -1 = closed */
    struct options_paths paths;
};

/* Starts it; `extra` are more arguments of `tesup serve`, `mask` is its signal mask.
 * 0, or -1 after a sentence on stderr. */
int run_daemon_start(struct run_daemon *daemon, const char *name, char *const *extra,
                     size_t extra_count, const sigset_t *mask);

/* Waits until jobs can attach. `signals` is a signalfd: 0; the signal that came instead; or -1
 * after a sentence on stderr. */
int run_daemon_wait_ready(struct run_daemon *daemon, int signals);

/* Throws away what it writes to standard output, so that it never waits for a reader. */
void run_daemon_output_drop(struct run_daemon *daemon);

/* Drains and ends it within a deadline, and removes what it had to leave. */
void run_daemon_stop(struct run_daemon *daemon);

#endif
