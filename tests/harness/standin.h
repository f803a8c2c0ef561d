/* Programs that run with the stand-in of the CUDA driver (docs/gpu.md, "Stand-in"). */
#ifndef TESUP_TESTS_HARNESS_STANDIN_H
#define TESUP_TESTS_HARNESS_STANDIN_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/standin/counters.h"

/* At the start of main(): from here on, this program and whatever it starts finds the stand-in
 * instead of the driver.  Starts the program again, because the path is read when it begins. */
void standin_use(char **argv);
/* Runs `body` in a child, which begins without the driver; exit code, or 128 + signal.  The
 * environment ends with NULL: "NAME=value". */
int standin_child(void (*body)(void *context), void *context, const char *const *environment);
/* The counters of a process that STANDIN_CUDA_COUNTERS=folder was set for; false: it made none. */
bool standin_counters_read(const char *folder, pid_t pid, struct standin_counters *counters);

#endif
