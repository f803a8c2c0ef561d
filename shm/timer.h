/* Timers of a single-threaded loop: a binary heap of deadlines, embedded in their owners. */
#ifndef TESUP_SHM_TIMER_H
#define TESUP_SHM_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    uint64_t when; /* clock_now() nanoseconds */
    size_t place;  /* in the heap, from 1; 0 = not set */
    void (*fire)(struct timer *timer);
};

struct timer_heap {
    struct timer **entries; /* from 1 */
    size_t count, room;
};

void timer_heap_init(struct timer_heap *heap);
void timer_heap_fini(struct timer_heap *heap);

/* Sets or moves a timer. TS_OK or TS_ERR_NO_MEMORY (only when it was not set before). */
int timer_set(struct timer_heap *heap, struct timer *timer, uint64_t when);
void timer_clear(struct timer_heap *heap, struct timer *timer);

static inline bool timer_is_set(const struct timer *timer)
{
    return timer->place != 0;
}

/* When the earliest is due; UINT64_MAX when none is set. */
uint64_t timer_heap_next(const struct timer_heap *heap);
/* Fires all that are due, each cleared before its function runs. Returns how many. */
int timer_heap_run(struct timer_heap *heap, uint64_t now);

#endif
