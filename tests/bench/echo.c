/* One no-op descriptor at a time: job -> worker -> job. */
#include "tests/bench/work.h"

#include <stdio.h>

#include "tests/bench/limits.h"

#define ROUNDS 20u /* of the spinning echo, between two looks at the clock */

static const struct tesup_request nop = {.op = TESUP_OP_NOP, .cookie = 7};

static double spin_sample(struct tesup_channel *channel)
{
    struct series times = {.count = 0};
    uint64_t until = clock_now() + bench_sample_ns();
    double median;

    do {
        uint64_t began = clock_now();

        for (unsigned i = 0; i < ROUNDS; i++)
            work_once(channel, &nop, false);
        series_add(&times, (double)(clock_now() - began) / ROUNDS);
    } while (clock_now() < until);
    median = series_median(&times);
    series_free(&times);
    return median;
}

/* Job on place 1, worker on place 0, as the limit's two sides. */
static void spin_measure(const char *idle, struct series *echo, struct series *line)
{
    struct daemon daemon;
    struct party party;
    char options[32];

    snprintf(options, sizeof(options), "--idle %s", idle);
    bench_serve(&daemon, "echo", options, 0);
    party_attach(&party, &daemon, NULL);
    place_pin(0, 1);
    spin_sample(party.channel);
    for (unsigned i = 0; i < bench_reps(); i++) {
        series_add(line, limit_line_ns(1, 0));
        series_add(echo, spin_sample(party.channel));
    }
    party_detach(&party);
    daemon_stop(&daemon);
}

void echo_spin(void **state)
{
    struct series echo = {.count = 0}, line = {.count = 0};
    struct row *row;

    (void)state;
    spin_measure("busy", &echo, &line);
    row = row_add("echo-spin", "echo (no-op), job and worker spin", "ns", &echo);
    row_limit(row, "cache-line round trip", &echo, &line);
    row_ask_times(row, false, 6, 3);
    row_place(row, "job CPU %d, worker CPU %d, --idle busy", place_cpu(1), place_cpu(0));
    series_free(&echo);
    series_free(&line);

    spin_measure("adaptive", &echo, &line);
    row = row_add("echo-adaptive", "the same, worker as it is by default", "ns", &echo);
    row_limit(row, "cache-line round trip", &echo, &line);
    row_place(row, "job CPU %d, worker CPU %d, --idle adaptive", place_cpu(1), place_cpu(0));
    series_free(&echo);
    series_free(&line);
}

static double sleep_sample(struct tesup_channel *channel)
{
    struct series times = {.count = 0};
    uint64_t until = clock_now() + bench_sample_ns();
    double median;

    do {
        uint64_t began = clock_now();

        work_once(channel, &nop, true);
        series_add(&times, (double)(clock_now() - began));
    } while (clock_now() < until);
    median = series_median(&times);
    series_free(&times);
    return median;
}

struct nap {
    const char *id, *what, *options, *how;
    unsigned job, worker; /* places */
    unsigned spin_us;
    bool asked; /* the requirement is about this one */
};

static void nap_measure(const struct nap *nap)
{
    struct series echo = {.count = 0}, limit = {.count = 0};
    struct daemon daemon;
    struct party party;
    struct row *row;

    bench_job_spin_us(nap->spin_us);
    bench_serve(&daemon, "echo", nap->options, nap->worker);
    party_attach(&party, &daemon, NULL);
    place_pin(0, nap->job);
    sleep_sample(party.channel);
    for (unsigned i = 0; i < bench_reps(); i++) {
        series_add(&limit, limit_eventfd_ns(nap->job, nap->worker) / 1e3);
        series_add(&echo, sleep_sample(party.channel) / 1e3);
    }
    party_detach(&party);
    daemon_stop(&daemon);
    row = row_add(nap->id, nap->what, "us", &echo);
    row_limit(row, "eventfd round trip", &echo, &limit);
    if (nap->asked)
        row_ask_times(row, false, 2, 1.5);
    row_place(row, "job CPU %d, worker CPU %d, %s", place_cpu(nap->job), place_cpu(nap->worker),
              nap->how);
    series_free(&echo);
    series_free(&limit);
}

void echo_sleep(void **state)
{
    static const struct nap naps[] = {
        {"echo-sleep", "echo (no-op), job and worker asleep", "--idle sleep",
         "--idle sleep, TESUP_SPIN_US=0", 1, 0, 0, true},
        {"echo-sleep-same", "the same on one CPU", "--idle sleep", "--idle sleep, TESUP_SPIN_US=0",
         0, 0, 0, true},
        {"echo-spin-same", "the same, but the job spins 20 us before it sleeps", "--idle sleep",
         "--idle sleep, TESUP_SPIN_US=20", 0, 0, 20, false},
        {"echo-default-same", "the same, and the worker spins 50 us before it sleeps", "",
         "--idle adaptive, TESUP_SPIN_US=20", 0, 0, 20, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(naps) / sizeof(naps[0]); i++)
        nap_measure(&naps[i]);
}
