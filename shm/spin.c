#include "shm/spin.h"

#include <sched.h>
#include <sys/resource.h>

void spin_learn(struct spin *spin, long switches, uint64_t now)
{
    bool met = switches != spin->switches;

    spin->offered = now;
    spin->switches = switches;
    if (!met) {
        if (++spin->unmet >= SPIN_FORGET)
            spin->met = 0;
        return;
    }
    spin->unmet = 0;
    if (spin->met < SPIN_MET_MOST)
        spin->met++;
    if (spin->met > 1) /* one alone may be the kernel's own */
        spin->sleep_until = now + (SPIN_FIRST_NS << (spin->met - 2));
}

/* A yield that switches counts as involuntary; to sleep does not. */
void spin_offer(struct spin *spin)
{
    struct rusage usage;

    sched_yield();
    getrusage(RUSAGE_THREAD, &usage);
    spin_learn(spin, usage.ru_nivcsw, clock_now());
}
