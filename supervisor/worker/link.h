/* The supervisor's end of a worker's socket.  Sending never blocks: what a stopped worker does not
 * take waits in a queue, and the owner is told when it waits too long. */
#ifndef TESUP_SUPERVISOR_WORKER_LINK_H
#define TESUP_SUPERVISOR_WORKER_LINK_H

#include "shm/wire.h"
#include "supervisor/loop.h"

#define WORKER_LINK_QUEUE_MAX 4096u
#define WORKER_LINK_STUCK_MS  30000u
#define WORKER_LINK_BATCH     64 /* messages received per turn */

struct link_item;

/* Begins as {.fd = -1}, closed. */
struct worker_link {
    struct loop *loop;
    int fd; /* -1 = closed */
    struct loop_source source;
    struct link_item *first, *last; /* the queue */
    unsigned queued;
    uint64_t progress_ns; /* when the worker last took something, or the queue began */
    struct timer timer;
    /* Each may close the link. */
    void (*received)(struct worker_link *link, struct wire_message *message);
    void (*drained)(struct worker_link *link); /* the queue is empty again */
    void (*broken)(struct worker_link *link, const char *why);
};

/* Takes the non-blocking socket `fd`. 0, or -1 with errno (fd stays the caller's). */
int worker_link_open(struct worker_link *link, struct loop *loop, int fd);
void worker_link_close(struct worker_link *link);

/* Sends or queues; fds stay the caller's. What cannot even be queued breaks the link (`broken` is
 * called from the loop, not from here). */
void worker_link_send(struct worker_link *link, const struct wire_message *message);

/* Receives what is there already; for a worker that died with answers in its socket. */
void worker_link_receive(struct worker_link *link, int max);

#endif
