/* How an idle loop spins without keeping its CPU from those whom it waits for.
 *
 * To spin before sleeping saves a wake-up where the loop has a CPU of its own.  Where it shares
 * one, the process that would bring work may be the one that is kept waiting.  So a spinning loop
 * offers its CPU every few microseconds (sched_yield(2)).  Whose offers are taken shares the CPU,
 * and sleeps at once for a while, which doubles as long as they are: a neighbour who computes keeps
 * an offered CPU for a whole time slice, and Linux lets those who yield often wait longer when they
 * wake up.
 */
#ifndef TESUP_SHM_SPIN_H
#define TESUP_SHM_SPIN_H

#include <stdbool.h>

#include "shm/atomics.h"
#include "shm/clock.h"

#define SPIN_OFFER_NS 4000u /* from one offer to the next */
#define SPIN_FIRST_NS CLOCK_NS_PER_MS
#define SPIN_MET_MOST 11u /* taken offers: sleeping at once for 512 ms */
#define SPIN_FORGET   8u  /* offers in a row that nobody took: alone again */

struct spin {
    uint64_t offered;     /* when last */
    uint64_t sleep_until; /* no spinning before */
    long switches;        /* involuntary ones of this thread until then, getrusage(2) */
    uint32_t met;         /* offers that somebody took */
    uint32_t unmet;       /* since the last of them */
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
