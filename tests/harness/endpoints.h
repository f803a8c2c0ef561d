/* The endpoints of a supervisor's first worker, out of its counters: a look costs no process, so
 * that a test can look often. */
#ifndef TESUP_TESTS_HARNESS_ENDPOINTS_H
#define TESUP_TESTS_HARNESS_ENDPOINTS_H

#include "shm/counters.h"
#include "tests/harness/daemon.h"

struct endpoints {
    unsigned ready, other; /* the one to itself is not counted */
    const char *state;     /* of one that is not ready */
};

/* Good while the supervisor lives; counters_unmap() in the end. */
struct counters_segment *endpoints_open(const struct daemon *daemon);
struct endpoints endpoints_look(const struct counters_segment *counters);
/* Waits until there are so many that are ready, and no others. */
void endpoints_wait(const struct counters_segment *counters, unsigned ready, const char *what);

#endif
