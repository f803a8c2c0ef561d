/* Phrases of `tesup status` that need more than one counter. */
#ifndef TESUP_SUPERVISOR_STATUS_WORDS_H
#define TESUP_SUPERVISOR_STATUS_WORDS_H

#include <stddef.h>

#include "supervisor/status/read.h"
#include "supervisor/status/screen.h"

#define STATUS_WORDS_MAX 256

/* Fabrics over which this worker's endpoints go now ("local+tcp"); the planned one when there is
 * none. The way of a worker to itself does not count. */
void status_words_fabric(const struct counters_worker *worker, char *text, size_t size);

/* What carries notifications to other workers now ("local, tcp"); without any endpoint what may. */
void status_words_carried(const struct status *status, char *text, size_t size);

/* How notifications travel over an endpoint, and why not natively. */
void status_words_notify(const struct counters_supervisor *supervisor,
                         const struct counters_endpoint *endpoint, char *text, size_t size);

/* "; QPs 17-21, 18-22 and 2 more, notification QP 19-23": own number and the peer's. "" where the
 * fabric has none. */
void status_words_queues(const struct counters_endpoint *endpoint, char *text, size_t size);

enum status_colour status_worker_colour(const struct status *status,
                                        const struct counters_worker *worker);

#endif
