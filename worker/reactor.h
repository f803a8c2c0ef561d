/* File descriptors that wake the worker: one epoll set, one callback per source. */
#ifndef TESUP_WORKER_REACTOR_H
#define TESUP_WORKER_REACTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct source {
    int fd;
    uint32_t events; /* EPOLLIN, EPOLLOUT; 0 = not in the set */
    void (*ready)(struct source *source, uint32_t events);
};

struct reactor {
    int epoll;
    struct source **dispatching; /* batch being handled, so that a removed source is skipped */
    int dispatch_count;
};

int reactor_init(struct reactor *reactor);
void reactor_fini(struct reactor *reactor);

/* Adds, changes or (events 0) removes a source. 0, or -1 with errno. Removing is safe inside any
 * callback, also for a source that has an event in the same batch. */
int reactor_watch(struct reactor *reactor, struct source *source, uint32_t events);

/* Waits up to `timeout_ms` and calls the sources that are ready. Returns how many. */
int reactor_wait(struct reactor *reactor, int timeout_ms);

#endif
