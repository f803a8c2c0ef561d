/* One row of the report, and how it follows from the times of the iterations. */
#ifndef TESUP_BENCH_RESULT_H
#define TESUP_BENCH_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/bench/options.h"

#define RESULT_FABRIC_MAX 16u

struct result {
    enum bench_op op;
    enum bench_notify notify;
    uint64_t block_bytes;
    uint32_t batch;
    uint32_t iters; /* timed ones */
    double avg_us, p50_us, p99_us;
    double gb_per_s; /* 10^9 bytes */
    bool verified;
    uint64_t verified_on_gpu; /* blocks that a kernel found right */
    char fabric[RESULT_FABRIC_MAX];
};

/* Sorts the `iters` times. `bytes` were moved in `busy_ns`. */
void result_summarise(struct result *result, uint64_t *times_ns, uint32_t iters, uint64_t bytes,
                      uint64_t busy_ns);

#endif
