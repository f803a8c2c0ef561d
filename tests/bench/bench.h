/* What every figure shares: how long it may take, what it writes down, and where it runs.
 *
 * A group of figures is one cmocka test: its asserts are about correctness, never about speed.
 * What it measured goes into rows (one figure beside its limit) and grids (plain tables).
 */
#ifndef TESUP_TESTS_BENCH_BENCH_H
#define TESUP_TESTS_BENCH_BENCH_H

#include "tests/harness/test.h"

#include "shm/atomics.h"
#include "shm/clock.h"
#include "shm/layout.h"
#include "tests/bench/place.h"
#include "tests/bench/row.h"
#include "tests/bench/series.h"
#include "tests/harness/daemon.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

extern bool bench_quick; /* a smoke run: figures mean little, correctness counts */

/* Repetitions of a figure, each next to its limit, and what one of them lasts. */
unsigned bench_reps(void);
uint64_t bench_sample_ns(void);

/* A supervisor whose worker idles like this ("busy", "sleep", "adaptive") on CPU `place`.
 * Returns the worker's pid. */
pid_t bench_serve(struct daemon *daemon, const char *name, const char *options,
                  unsigned worker_place);

/* How jobs that attach from now on wait: 0 sleeps at once. */
void bench_job_spin_us(unsigned us);

/* The figures. */
void echo_spin(void **state);
void echo_sleep(void **state);
void rate_nop(void **state);
void rate_notify(void **state);
void write_small(void **state);
void write_bulk_tcp(void **state);
void write_bulk_host(void **state);
void mixed_latency(void **state);
void idle_cost(void **state);
void attach_time(void **state);
void growth_jobs(void **state);
void growth_endpoints(void **state);
void calls_per_operation(void **state);

#endif
