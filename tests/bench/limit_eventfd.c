#include "tests/bench/bench.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/bench/limits.h"

struct pair {
    int forth, back;
    unsigned rounds, there;
};

static void pass(int to)
{
    uint64_t one = 1;

    assert_int_equal(write(to, &one, sizeof(one)), sizeof(one));
}

static void take(int from)
{
    uint64_t got;

    assert_int_equal(read(from, &got, sizeof(got)), sizeof(got));
}

static void other_side(void *argument)
{
    const struct pair *pair = argument;

    place_pin(0, pair->there);
    for (unsigned i = 0; i < pair->rounds; i++) {
        take(pair->forth);
        pass(pair->back);
    }
}

double limit_eventfd_ns(unsigned here, unsigned there)
{
    struct pair pair = {.forth = eventfd(0, EFD_CLOEXEC),
                        .back = eventfd(0, EFD_CLOEXEC),
                        .rounds = bench_quick ? 200 : 4000,
                        .there = there};
    struct series times = {.count = 0};
    struct job job;
    double median;

    assert_true(pair.forth >= 0 && pair.back >= 0);
    place_pin(0, here);
    job_start(&job, "other side of the eventfds", other_side, &pair);
    for (unsigned i = 0; i < pair.rounds; i++) {
        uint64_t began = clock_now();

        pass(pair.forth);
        take(pair.back);
        series_add(&times, (double)(clock_now() - began));
    }
    job_expect_success(&job, WAIT_MS);
    close(pair.forth);
    close(pair.back);
    median = series_median(&times);
    series_free(&times);
    return median;
}
