#include "client/bench/result.h"

#include <stdlib.h>

static int time_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Nearest rank: the smallest time that at least `percent` of all iterations did not exceed. */
static double percentile_us(const uint64_t *sorted, uint32_t count, uint32_t percent)
{
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;

    return (double)sorted[rank - 1] / 1e3;
}

void result_summarise(struct result *result, uint64_t *times_ns, uint32_t iters, uint64_t bytes,
                      uint64_t busy_ns)
{
    double sum = 0;

    result->iters = iters;
    if (iters == 0)
        return;
    qsort(times_ns, iters, sizeof(times_ns[0]), time_compare);
    for (uint32_t i = 0; i < iters; i++)
        sum += (double)times_ns[i];
    result->avg_us = sum / iters / 1e3;
    result->p50_us = percentile_us(times_ns, iters, 50);
    result->p99_us = percentile_us(times_ns, iters, 99);
    result->gb_per_s = busy_ns ? (double)bytes / (double)busy_ns : 0;
}
