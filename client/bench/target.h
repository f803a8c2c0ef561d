/* The passive job: offers memory, takes or serves blocks, checks or fills them, and answers. */
#ifndef TESUP_BENCH_TARGET_H
#define TESUP_BENCH_TARGET_H

#include "client/bench/options.h"

/* Serves one initiator, then returns the exit code. */
int target_run(const struct bench_options *options);

#endif
