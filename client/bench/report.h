/* The rows of a sweep, as a table, JSON or CSV on standard output. */
#ifndef TESUP_BENCH_REPORT_H
#define TESUP_BENCH_REPORT_H

#include <stdint.h>

#include "client/bench/result.h"

/* `one_clock` says what ended the times (client/bench/round.h); the table's last line tells.
 * 0, or -1 after a message: out of memory, or standard output cannot be written. */
int report_print(enum bench_format format, const struct result *results, uint32_t count,
                 bool one_clock);

#endif
