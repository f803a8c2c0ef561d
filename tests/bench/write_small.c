/* The exchange of exchange.h, waiting in three ways.
 *
 * Each host's job and worker share one CPU where there are only two, as each side of the raw
 * connection has one. */
#include "tests/bench/work.h"

#include <stdio.h>

#include "tests/bench/exchange.h"
#include "tests/bench/limits.h"
static void stage_sample(struct stage *stage, struct series *whole, struct series *one_way)
{
    struct series whole_us = {.count = 0}, one_way_us = {.count = 0};
    uint64_t until = clock_now() + bench_sample_ns();

    do {
        uint64_t ns, way_ns;

        stage_exchange(stage, &ns, &way_ns);
        series_add(&whole_us, (double)ns / 1e3);
        series_add(&one_way_us, (double)way_ns / 1e3);
    } while (clock_now() < until);
    series_add(whole, series_median(&whole_us));
    series_add(one_way, series_median(&one_way_us));
    series_free(&whole_us);
    series_free(&one_way_us);
}

static void stage_verify(struct stage *stage)
{
    uint64_t whole, one_way;

    party_fill(stage->region.bytes, EXCHANGE_BLOCK, 1);
    stage_exchange(stage, &whole, &one_way);
    target_verify(stage->target, 1);
}

struct variant {
    const char *id, *what, *options, *how;
    unsigned spin_us;
    bool sleep;
    bool asked; /* the requirement is about this one */
};

static void row_ask_wakes(struct row *row, const struct series *tcp, const struct series *wakes)
{
    double trip = series_median(tcp), wake = series_median(wakes) / 2;
    char text[48];

    snprintf(text, sizeof(text), "<= 2 x + 4 wake-ups of %.1f", wake);
    row_ask(row, false, 2 * trip + 4 * wake, text, 2 * trip, "<= 2 x");
}

static void variant_measure(const struct variant *variant, const unsigned at[4])
{
    struct series whole = {.count = 0}, one_way = {.count = 0};
    struct series tcp = {.count = 0}, wakes = {.count = 0};
    struct stage stage;
    struct row *row;
    char id[32];

    bench_job_spin_us(variant->spin_us);
    stage_open(&stage, variant->options, variant->sleep, at);
    stage_verify(&stage);
    for (unsigned i = 0; i < bench_reps(); i++) {
        series_add(&tcp, limit_tcp_ns(at[0], at[1], EXCHANGE_BLOCK + 96, 104) / 1e3);
        series_add(&wakes, limit_eventfd_ns(at[0], at[2]) / 1e3);
        stage_sample(&stage, &whole, &one_way);
    }
    stage_close(&stage);
    row = row_add(variant->id, variant->what, "us", &whole);
    row_limit(row, "raw TCP round trip", &whole, &tcp);
    if (variant->asked)
        row_ask_wakes(row, &tcp, &wakes);
    row_place(row, "jobs CPU %d and %d, their workers CPU %d and %d, %s", place_cpu(at[0]),
              place_cpu(at[1]), place_cpu(at[2]), place_cpu(at[3]), variant->how);
    snprintf(id, sizeof(id), "%s-one-way", variant->id);
    row = row_add(id, "of it: until the receiver holds the notification", "us", &one_way);
    row_place(row, "as above");
    series_free(&whole);
    series_free(&one_way);
    series_free(&tcp);
    series_free(&wakes);
}

void write_small(void **state)
{
    static const unsigned together[4] = {0, 1, 0, 1}, apart[4] = {0, 1, 2, 3};
    static const struct variant variants[] = {
        {"write-4k-sleep", "WRITE 4 KiB + notify over tcp, and an answer; all sleep",
         "--fabric tcp --idle sleep", "--idle sleep, TESUP_SPIN_US=0", 0, true, true},
        {"write-4k-default", "the same, all wait as they do by default", "--fabric tcp",
         "--idle adaptive, TESUP_SPIN_US=20", 20, true, true},
        {"write-4k-spin", "the same, all four spin", "--fabric tcp --idle busy", "--idle busy", 20,
         false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
        variant_measure(&variants[i], place_cpus() >= 4 ? apart : together);
}
