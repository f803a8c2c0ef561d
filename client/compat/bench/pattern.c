/* What a block holds, and how a process waits that has nothing else to do. */
#include <sched.h>

#include "client/compat/bench/bench.h"
#include "shm/clock.h"

bool bench_spin(struct bench_spin *spin)
{
    if (++spin->looks % BENCH_SPIN != 0) {
        cpu_relax();
        return true;
    }
    sched_yield(); /* a worker may wait for this CPU */
    if (spin->deadline == 0)
        spin->deadline = clock_now() + BENCH_WAIT_MS * CLOCK_NS_PER_MS;
    return clock_now() < spin->deadline;
}

uint8_t bench_byte(uint64_t at, uint64_t seed)
{
    return (uint8_t)((at >> 12) * 31 + at * 7 + seed * 13);
}

void bench_fill(uint8_t *bytes, uint64_t length, uint64_t seed)
{
    for (uint64_t i = 0; i < length; i++)
        bytes[i] = bench_byte(i, seed);
}

bool bench_filled(const uint8_t *bytes, uint64_t length, uint64_t seed)
{
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < length; i++)
        wrong += bytes[i] != bench_byte(i, seed);
    return wrong == 0;
}
