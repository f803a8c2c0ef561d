/* The job of `tesup run`. */
#ifndef TESUP_SUPERVISOR_COMMAND_RUN_JOB_H
#define TESUP_SUPERVISOR_COMMAND_RUN_JOB_H

#include <signal.h>
#include <stdbool.h>

#include "supervisor/command/run_bind.h"
#include "supervisor/command/run_daemon.h"

#define RUN_EXIT_FAILED 125 /* as env(1) and others: the command never ran */

struct run_order {
    char *const *command; /* ends with NULL */
    const char *socket;   /* its TESUP_SOCKET */
    const char *pair;     /* its TESUP_PAIR; NULL: as inherited */
    struct run_bind bind;
    const sigset_t *mask; /* its signal mask */
};

/* Runs the job, forwards signals, waits. `signals` is a signalfd; `daemon` may have pid 0.
 * The exit code: the job's, 128 + signal, 127, 126 or 125 when it could not be run, -1 after an
 * error was printed. */
int run_job(const struct run_order *order, int signals, struct run_daemon *daemon);

#endif
