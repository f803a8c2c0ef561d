#include "tests/bench/bench.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/bench/limits.h"

#define ROUNDS 100u /* between two looks at the clock */

struct line {
    _Atomic uint64_t turn; /* even: the timing side's, odd: the other side's */
    uint8_t pad[LAYOUT_LINE - 8];
    uint64_t end;
    unsigned there;
};

static void *other_side(void *argument)
{
    struct line *line = argument;

    place_pin(0, line->there);
    for (uint64_t turn = 1; turn < line->end; turn += 2) {
        while (atomic_observe(&line->turn) != turn) /* pairs with the publish of the timing side */
            cpu_relax();
        atomic_publish(&line->turn, turn + 1);
    }
    return NULL;
}

double limit_line_ns(unsigned here, unsigned there)
{
    unsigned batches = (unsigned)(bench_sample_ns() / (ROUNDS * 500)) + 10;
    struct line *line = aligned_alloc(LAYOUT_LINE, sizeof(*line));
    struct series times = {.count = 0};
    uint64_t turn = 0;
    pthread_t thread;
    double median;

    assert_non_null(line);
    *line = (struct line){.end = UINT64_C(2) * ROUNDS * batches, .there = there};
    place_pin(0, here);
    assert_int_equal(pthread_create(&thread, NULL, other_side, line), 0);
    for (unsigned batch = 0; batch < batches; batch++) {
        uint64_t began = clock_now();

        for (unsigned i = 0; i < ROUNDS; i++, turn += 2) {
            atomic_publish(&line->turn, turn + 1);
            while (atomic_observe(&line->turn) != turn + 2)
                cpu_relax();
        }
        series_add(&times, (double)(clock_now() - began) / ROUNDS);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    median = series_median(&times);
    series_free(&times);
    free(line);
    return median;
}
