#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

pid_t bench_serve(struct daemon *daemon, const char *name, const char *options,
                  unsigned worker_place)
{
    pid_t workers[DAEMON_WORKERS];

    daemon_start(daemon, name, options);
    assert_int_equal(daemon_workers(daemon, workers), 1);
    place_pin(workers[0], worker_place);
    return workers[0];
}

void bench_job_spin_us(unsigned us)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", us);
    assert_int_equal(setenv("TESUP_SPIN_US", text, 1), 0);
}
