/* `tesup status --watch`: again and again, until interrupted. */
#ifndef TESUP_SUPERVISOR_STATUS_WATCH_H
#define TESUP_SUPERVISOR_STATUS_WATCH_H

#include <stdbool.h>
#include <stdio.h>

/* Prints what is to be seen now; its return value is the last one's exit code. */
typedef int status_frame(void *argument, FILE *out);

/* On a terminal each frame replaces the one before, without flicker; SIGINT, SIGTERM or SIGHUP ends
 * it with the last frame's code, and the terminal is as it was.  Else frames follow each other,
 * with `between` before each but the first, until a signal ends the process. -1: nothing can be
 * written. */
int status_watch(unsigned seconds, const char *between, status_frame *frame, void *argument);

#endif
