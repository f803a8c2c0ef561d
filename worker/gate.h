/* Requests that wait for an event: TESUP_OP_WAIT, and those behind it that say TESUP_AFTER.
 *
 * A wait keeps those behind it; its end starts them, or skips them if it failed.  Others of the
 * channel do not wait.
 */
#ifndef TESUP_WORKER_GATE_H
#define TESUP_WORKER_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct request;
struct sqe;

/* Of a channel: its newest wait. */
struct gate {
    struct request *pending; /* NULL: it has ended */
    int16_t status;          /* how */
};

/* Nothing has been waited for: who says AFTER is skipped. */
void gate_init(struct gate *gate);

/* Begins to wait. TS_OK, or what it ends with. */
int gate_wait(struct request *request, const struct sqe *sqe);
/* A wait has ended, and its completion is written. */
void gate_on_end(struct request *request, int status);

/* Of a request that says AFTER: TS_OK: it may start; TS_ERR_SKIPPED; TS_AGAIN: it is kept, and
 * starts or is skipped when the wait ends. */
int gate_pass(struct request *request);

#endif
