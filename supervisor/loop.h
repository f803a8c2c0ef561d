/* The supervisor's one thread: file descriptors by epoll(7), deadlines by shm/timer.h. */
#ifndef TESUP_SUPERVISOR_LOOP_H
#define TESUP_SUPERVISOR_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "shm/clock.h"
#include "shm/timer.h"

#define LOOP_BATCH 64

/* Embedded in its owner.  `fd` stays the owner's. */
struct loop_source {
    int fd;
    bool watched;
    void (*ready)(struct loop_source *source, uint32_t events);
};

struct loop {
    int epoll;
    bool stop;
    struct timer_heap timers;
    struct epoll_event
        batch[LOOP_BATCH]; /* being handed out; loop_remove takes sources out of it */
    int batch_count;
};

/* 0, or -1 with errno. */
int loop_init(struct loop *loop);
void loop_fini(struct loop *loop);

/* Watches `fd` for `events` (EPOLLIN, EPOLLOUT, level-triggered). 0, or -1 with errno. */
int loop_add(struct loop *loop, struct loop_source *source, int fd, uint32_t events,
             void (*ready)(struct loop_source *source, uint32_t events));
void loop_change(struct loop *loop, struct loop_source *source, uint32_t events);
/* Also safe for a source that is not watched; its callback is not called any more. */
void loop_remove(struct loop *loop, struct loop_source *source);

/* Sets `timer` to fire after `ms`. */
void loop_timer_set(struct loop *loop, struct timer *timer, uint64_t ms);

/* Until loop->stop. 0, or -1 with errno. */
int loop_run(struct loop *loop);

#endif
