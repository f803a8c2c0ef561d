/* The whole benchmark on one machine: two private supervisors, both jobs, and nothing left after.
 */
#ifndef TESUP_BENCH_LOCAL_H
#define TESUP_BENCH_LOCAL_H

#include "client/bench/options.h"

/* `argv` is the command line, as options_parse() left it: its last word is "local".
 * The initiator's exit code, or 128 + signal when a signal ended it. */
int local_run(const struct bench_options *options, int argc, char **argv);

#endif
