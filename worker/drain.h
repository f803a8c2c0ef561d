/* The end of a worker that was asked to leave: finish what was accepted, accept nothing more. */
#ifndef TESUP_WORKER_DRAIN_H
#define TESUP_WORKER_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

/* From here on submissions end with TS_ERR_GONE. What is in flight after `deadline_ms` is stopped:
 * its job gets TS_ERR_TIMEOUT instead of silence. A second call changes nothing. */
void drain_start(struct worker *worker, uint32_t deadline_ms);
/* Nothing accepted is left, or all deadlines are over: the loop may end. */
bool drain_is_done(const struct worker *worker);

#endif
