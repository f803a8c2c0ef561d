/* What `tesup status --json` says about a supervisor under test. */
#ifndef TESUP_TESTS_HARNESS_STATUS_H
#define TESUP_TESTS_HARNESS_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/harness/daemon.h"

/* The whole document; free with json_decref(). */
json_t *status_document(const struct daemon *daemon);
/* Counters of the first worker and of the supervisor, by their JSON names. */
uint64_t status_worker_count(const struct daemon *daemon, const char *name);

/* Whether the first worker has said an error with this in its text.  The log is no witness of that:
 * a worker writes at most one line of a kind each second there, and counts the others. */
bool status_worker_erred(const struct daemon *daemon, const char *part);
uint64_t status_supervisor_count(const struct daemon *daemon, const char *name);
/* Waits until the counter has reached `least`. */
void status_worker_wait(const struct daemon *daemon, const char *name, uint64_t least);
/* Waits until it is not above `most`. */
void status_worker_fall(const struct daemon *daemon, const char *name, uint64_t most);
void status_supervisor_wait(const struct daemon *daemon, const char *name, uint64_t least);
/* Of the first worker: "ready", "hung", "failed", … */
void status_worker_state(const struct daemon *daemon, char *state, size_t size);
void status_worker_state_wait(const struct daemon *daemon, const char *state, unsigned ms);
/* Waits until a worker is ready that is not `old`; its pid. */
pid_t status_worker_ready(const struct daemon *daemon, pid_t old);
size_t status_sessions(const struct daemon *daemon);

#endif
