#include "tests/bench/bench.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/bench/limits.h"

#define ROUNDS 50u /* between two looks at the clock */

struct line {
    _Atomic uint64_t turn; /* even: the timing side's, odd: the other side's */
    uint8_t pad[LAYOUT_LINE - 8];
    _Atomic uint64_t stop;
    unsigned there;
};

static void *other_side(void *argument)
{
    struct line *line = argument;

    place_pin(0, line->there);
    for (uint64_t turn = 1;; turn += 2) {
        while (atomic_observe(&line->turn) != turn) { /* pairs with the timing side's publish */
            if (atomic_peek(&line->stop) != 0)
                return NULL;
            cpu_relax();
        }
        atomic_publish(&line->turn, turn + 1);
    }
}

static double rounds_time(struct line *line, uint64_t *turn)
{
    uint64_t began = clock_now();

    for (unsigned i = 0; i < ROUNDS; i++, *turn += 2) {
        atomic_publish(&line->turn, *turn + 1);
        while (atomic_observe(&line->turn) != *turn + 2)
            cpu_relax();
    }
    return (double)(clock_now() - began) / ROUNDS;
}

double limit_line_ns(unsigned here, unsigned there)
{
    struct line *line = aligned_alloc(LAYOUT_LINE, sizeof(*line));
    struct series times = {.count = 0};
    uint64_t turn = 0, until;
    pthread_t thread;
    double median;

    assert_non_null(line);
    *line = (struct line){.there = there};
    place_pin(0, here);
    assert_int_equal(pthread_create(&thread, NULL, other_side, line), 0);
    until = clock_now() + bench_sample_ns();
    do
        series_add(&times, rounds_time(line, &turn));
    while (clock_now() < until);
    atomic_set(&line->stop, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    median = series_median(&times);
    series_free(&times);
    free(line);
    return median;
}
