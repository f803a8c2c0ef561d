/* How an idle loop spins without keeping its CPU from those whom it waits for.
 *
 * To spin before sleeping saves a wake-up where the loop has a CPU of its own.  Where it shares
 * one, the process that would bring work may be the one that is kept waiting.  So a spinning loop
 * offers its CPU every few microseconds (sched_yield(2)).  Whose offer is taken twice in a row
 * shares the CPU, and sleeps at once for a while, which doubles as long as offers are taken: a
 * neighbour who computes keeps an offered CPU for a whole time slice.
 */
#ifndef TESUP_SHM_SPIN_H
#define TESUP_SHM_SPIN_H

#include <stdbool.h>

#include "shm/atomics.h"
#include "shm/clock.h"

#define SPIN_OFFER_NS 4000u /* from one offer to the next */
#define SPIN_FIRST_NS CLOCK_NS_PER_MS
#define SPIN_MET_MOST 11u /* offers in a row: sleeping at once for 512 ms */

struct spin {
    uint64_t offered;     /* when last */
    uint64_t sleep_until; /* no spinning before */
    long switches;        /* involuntary ones of this thread until then, getrusage(2) */
    uint32_t met;         /* offers in a row that somebody took */
};

static inline bool spin_is_alone(const struct spin *spin, uint64_t now)
{
    return now >= spin->sleep_until;
}

/* An offer ended `now`, and this thread had so many involuntary switches. */
void spin_learn(struct spin *spin, long switches, uint64_t now);

void spin_offer(struct spin *spin);

/* Between two looks of a loop that found nothing `since` then. */
static inline void spin_pause(struct spin *spin, uint64_t since, uint64_t now)
{
    if (now - (spin->offered > since ? spin->offered : since) < SPIN_OFFER_NS)
        cpu_relax();
    else
        spin_offer(spin);
}

#endif
