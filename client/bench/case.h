/* One row of the sweep: one operation and one block size, warmed up, timed and checked. */
#ifndef TESUP_BENCH_CASE_H
#define TESUP_BENCH_CASE_H

#include "client/bench/party.h"
#include "client/bench/result.h"

struct case_plan {
    uint32_t warmup; /* rounded up to whole rounds */
    uint32_t iters;
};

/* How many iterations a row gets: as told, or by size. */
struct case_plan case_iterations(const struct bench_options *options, uint64_t block_bytes);

/* Called between iterations, never inside a timed interval. */
typedef void case_progress_fn(void *context, uint64_t done, uint64_t total);

/* 0: *result is a verified row. 1: a byte was wrong: *result is a row of what was timed before,
 * verified is false, and the party's error says where. -1: failed, no row. */
int case_run(struct party *party, const struct bench_options *options, enum bench_op op,
             uint64_t block_bytes, bool receipts, case_progress_fn *progress, void *context,
             struct result *result);

#endif
