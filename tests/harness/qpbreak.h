/* Queue pairs of a running worker that fail for a reason of their own: what a device's firmware or
 * a cosmic ray does.  Root may take a copy of the worker's device descriptor and put one of its
 * queue pairs into the error state; the worker learns of it as of any other failure. */
#ifndef TESUP_TESTS_HARNESS_QPBREAK_H
#define TESUP_TESTS_HARNESS_QPBREAK_H

#include <stdint.h>
#include <sys/types.h>

/* Of a worker with two connected queue pairs, the one that does not lead to the peer's `other`;
 * waits until there is one. */
void qpbreak(pid_t worker, uint32_t other);

#endif
