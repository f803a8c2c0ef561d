/* File descriptors that wake the worker: one epoll set, one callback per source. */
#ifndef TESUP_WORKER_REACTOR_H
#define TESUP_WORKER_REACTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct source {
    int fd;
    uint32_t events; /* EPOLLIN, EPOLLOUT, REACTOR_NEWS; 0 = not in the set */
    void (*ready)(struct source *source, uint32_t events);
};

struct reactor {
    int epoll;
    uint64_t looked;             /* when the set was last asked */
    uint64_t patience;           /* how long it need not be asked again */
    uint64_t woken;              /* when the last callbacks began */
    struct source **dispatching; /* batch being handled, so that a removed source is skipped */
    int dispatch_count;
};

int reactor_init(struct reactor *reactor);
void reactor_fini(struct reactor *reactor);

/* For a bell, or whatever else tells each piece of news by a wake-up of its own: it need not be
 * read to be heard again (epoll(7), EPOLLET; eventfd(2): each write is one). */
#define REACTOR_NEWS (EPOLLIN | EPOLLET)

/* Adds, changes or (events 0) removes a source. 0, or -1 with errno. Removing is safe inside any
 * callback, also for a source that has an event in the same batch. */
int reactor_watch(struct reactor *reactor, struct source *source, uint32_t events);

/* Is it time to ask the set again?  It costs a system call, and a loop that is busy with shared
 * memory would make it in vain: each time nothing was there the pause doubles, up to what is little
 * beside the way through a socket; and while sockets have something there is none. */
#define REACTOR_PATIENCE_MIN 500u /* ns */
#define REACTOR_PATIENCE_MAX 8000u
static inline bool reactor_is_due(const struct reactor *reactor, uint64_t now)
{
    return now - reactor->looked >= reactor->patience;
}

/* Waits up to `timeout_ms` and calls the sources that are ready. Returns how many. */
int reactor_wait(struct reactor *reactor, int timeout_ms);

#endif
