#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>

void series_add(struct series *series, double value)
{
    if (series->count == series->room) {
        series->room = series->room > 0 ? 2 * series->room : 64;
        series->value = realloc(series->value, series->room * sizeof(series->value[0]));
        assert_non_null(series->value);
    }
    series->value[series->count++] = value;
}

void series_free(struct series *series)
{
    free(series->value);
    *series = (struct series){.count = 0};
}

static int value_compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double series_rank(const struct series *series, double percent)
{
    double *sorted, found;
    size_t at;

    if (series->count == 0)
        return 0;
    sorted = malloc(series->count * sizeof(sorted[0]));
    assert_non_null(sorted);
    memcpy(sorted, series->value, series->count * sizeof(sorted[0]));
    qsort(sorted, series->count, sizeof(sorted[0]), value_compare);
    at = (size_t)(percent / 100 * (double)series->count);
    found = sorted[at < series->count ? at : series->count - 1];
    free(sorted);
    return found;
}
