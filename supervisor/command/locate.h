/* Finds the running supervisor of a name by its lock file, without disturbing it.
 *
 * The lock file holds one line, "PID STARTTIME COUNTERS_FD\n"; the supervisor keeps an flock(2) on
 * it while it lives.  STARTTIME is field 22 of /proc/PID/stat, as pids are reused.
 */
#ifndef TESUP_SUPERVISOR_COMMAND_LOCATE_H
#define TESUP_SUPERVISOR_COMMAND_LOCATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/options/paths.h"

struct located {
    pid_t pid;
    uint64_t start_time;
    int counters_fd; /* number in the supervisor */
};

enum locate_result {
    LOCATE_FOUND = 0,
    LOCATE_NOBODY = 1, /* no file, or its owner is gone */
    LOCATE_ERROR = 2,  /* the file cannot be read or makes no sense */
};

/* `text` says what was found where, unless LOCATE_FOUND. */
enum locate_result locate_supervisor(const struct options_paths *paths, struct located *found,
                                     char *text, size_t text_size);

/* The line of the lock file. 0, or -1 when it is not one. */
int locate_line_parse(const char *line, struct located *found);

/* Opens the supervisor's counters read-only. The fd, or -1 with text. */
int locate_counters_open(const struct located *found, char *text, size_t text_size);

#endif
