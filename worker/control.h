/* The worker's end of its supervisor's socket. */
#ifndef TESUP_WORKER_CONTROL_H
#define TESUP_WORKER_CONTROL_H

#include "shm/wire.h"
#include "worker/worker.h"

/* Waits (with a deadline) for WORKER_CONFIG, the first message, and applies it. 0 or -1. */
int control_init(struct worker *worker, int fd);
/* Answers `id`; never blocks, never loses an answer. */
void control_reply(struct worker *worker, uint64_t session, uint32_t id, int status,
                   uint32_t handle, const char *text);
void control_send(struct worker *worker, const struct wire_message *message);
void control_ready(struct worker *worker);

#endif
