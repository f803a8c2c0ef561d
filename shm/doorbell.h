/* Doorbell: how a sleeping consumer is woken, and how a wake-up is never lost.
 *
 *   consumer                         producer
 *   armed = 1                        tail = new (release)
 *   full fence             (D0)      full fence                (D1)
 *   look at tail again; if empty     if armed and armed went 1 -> 0 by us:
 *   sleep on the eventfd                 write the eventfd
 *
 * D0 and D1 pair: of the two stores at least one is seen by the other side's load, so either the
 * consumer finds the work or the producer finds the bell armed.  tests/model/doorbell.pml proves it
 * and shows the lost wake-up when either fence is taken away.
 */
#ifndef TESUP_SHM_DOORBELL_H
#define TESUP_SHM_DOORBELL_H

#include "shm/atomics.h"
#include "shm/layout.h"

struct doorbell {
    struct doorbell_shared *word; /* in the channel */
    int fd;                       /* eventfd, non-blocking */
};

/* Consumer: about to sleep.  Look for work once more after this, before sleeping. */
static inline void doorbell_arm(const struct doorbell *bell)
{
    atomic_store_explicit(&bell->word->armed, 1, memory_order_relaxed);
    atomic_fence_full(); /* D0, pairs with D1 in doorbell_ring */
}

/* Consumer: awake, rings are not needed. */
static inline void doorbell_disarm(const struct doorbell *bell)
{
    atomic_store_explicit(&bell->word->armed, 0, memory_order_relaxed);
}

void doorbell_signal(int fd);
void doorbell_drain(int fd);

/* Producer: after publishing.  A system call only when the consumer sleeps.
 * Returns whether a system call was made. */
static inline bool doorbell_ring(const struct doorbell *bell)
{
    atomic_fence_full(); /* D1, pairs with D0 in doorbell_arm */
    if (atomic_load_explicit(&bell->word->armed, memory_order_relaxed) == 0)
        return false;
    if (atomic_exchange_explicit(&bell->word->armed, 0, memory_order_relaxed) == 0)
        return false;
    doorbell_signal(bell->fd);
    return true;
}

#endif
