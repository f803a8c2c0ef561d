/* Time in nanoseconds.  Deadlines use the monotonic clock, what people read uses the real one. */
#ifndef TESUP_SHM_CLOCK_H
#define TESUP_SHM_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_US UINT64_C(1000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S  UINT64_C(1000000000)

static inline uint64_t clock_read(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

static inline uint64_t clock_wall(void)
{
    return clock_read(CLOCK_REALTIME);
}

/* Whole milliseconds from now to `when`, rounded up, for poll(2) and epoll_wait(2). */
static inline int clock_ms_until(uint64_t when, uint64_t now)
{
    uint64_t ms;

    if (when <= now)
        return 0;
    ms = (when - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

#endif
