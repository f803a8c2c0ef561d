/* Some measurements of the same thing. */
#ifndef TESUP_TESTS_BENCH_SERIES_H
#define TESUP_TESTS_BENCH_SERIES_H

#include <stddef.h>

struct series {
    double *value;
    size_t count, room;
};

void series_add(struct series *series, double value);
void series_free(struct series *series);
/* Nearest rank; 0 of an empty series. `percent` 50 is the median, 0 the least, 100 the most. */
double series_rank(const struct series *series, double percent);

static inline double series_median(const struct series *series)
{
    return series_rank(series, 50);
}

#endif
