/* The job of `tesup run`. */
#ifndef TESUP_SUPERVISOR_RUN_JOB_H
#define TESUP_SUPERVISOR_RUN_JOB_H

#include <signal.h>
#include <stdbool.h>

#include "supervisor/run_daemon.h"

/* Runs `command` (ends with NULL) with TESUP_SOCKET set to `socket`, forwards signals, waits.
 * `signals` is a signalfd, `mask` the job's signal mask; `daemon` may have pid 0.
 * The exit code: the job's, 128 + signal, 127 or 126 when it could not be run, -1 after an error
 * was printed. */
int run_job(char *const *command, const char *socket, int signals, const sigset_t *mask,
            struct run_daemon *daemon);

#endif
