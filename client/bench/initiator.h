/* The active job: runs the sweep against a target and prints the report. */
#ifndef TESUP_BENCH_INITIATOR_H
#define TESUP_BENCH_INITIATOR_H

#include "client/bench/options.h"

/* The exit code: 0 when every row is verified. */
int initiator_run(const struct bench_options *options);

#endif
