#include "tests/bench/bench.h"

#include <sched.h>

static int cpus[CPU_SETSIZE];
static unsigned count;

void place_init(void)
{
    cpu_set_t allowed;

    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpus[count++] = (int)cpu;
}

unsigned place_cpus(void)
{
    return count;
}

int place_cpu(unsigned place)
{
    return cpus[place % count];
}

void place_pin(pid_t pid, unsigned place)
{
    cpu_set_t only, got;

    CPU_ZERO(&only);
    CPU_SET((size_t)place_cpu(place), &only);
    assert_int_equal(sched_setaffinity(pid, sizeof(only), &only), 0);
    assert_int_equal(sched_getaffinity(pid, sizeof(got), &got), 0);
    assert_true(CPU_EQUAL(&only, &got));
}
