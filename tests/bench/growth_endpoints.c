/* One worker with 1, 16 and 128 endpoints over tcp, to peers that are simulated (peers.h). */
#include "tests/bench/work.h"

#include <stdio.h>
#include <time.h>

#include "tests/bench/memory.h"
#include "tests/bench/peers.h"

#define ENDPOINTS_MAX 128u
#define BATCH         32u
#define MESSAGE       64u

struct fan {
    struct daemon daemon;
    pid_t worker;
    struct peers *peers;
    struct party party;
    tesup_remote_t remote[ENDPOINTS_MAX];
    unsigned count;
    double kib; /* of the worker, per endpoint */
};

static void fan_open(struct fan *fan, unsigned count)
{
    double before;
    char name[64];

    *fan = (struct fan){.count = count, .peers = peers_start(1)};
    fan->worker = bench_serve(&fan->daemon, "fan", daemon_config("[peer]\nauth = none\n"), 0);
    party_attach(&fan->party, &fan->daemon, NULL);
    place_pin(0, 1);
    before = memory_pss_kib(fan->worker);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "127.0.0.1:%u/peer-%u", fan->peers->port, i);
        fan->remote[i] = party_open(&fan->party, name);
    }
    assert_int_equal(atomic_peek(&fan->peers->connections), count);
    fan->kib = (memory_pss_kib(fan->worker) - before) / count;
}

static void fan_close(struct fan *fan)
{
    party_detach(&fan->party);
    daemon_stop(&fan->daemon);
    peers_stop(fan->peers);
}

static uint64_t cpu_ns(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (uint64_t)used.tv_sec * CLOCK_NS_PER_S + (uint64_t)used.tv_nsec;
}

static void batch_send(struct fan *fan, unsigned active, unsigned *turn)
{
    static const uint8_t message[MESSAGE];
    struct patience patience = patience_begin("room for notifications");
    struct tesup_request batch[BATCH];
    uint32_t done = 0, accepted;

    for (unsigned i = 0; i < BATCH; i++)
        batch[i] = (struct tesup_request){.op = TESUP_OP_NOTIFY,
                                          .remote = fan->remote[(*turn)++ % active],
                                          .msg = message,
                                          .msg_len = sizeof(message)};
    while (done < BATCH) {
        struct tesup_completion completions[BATCH];
        int got;

        assert_true(tesup_submit(fan->party.channel, batch + done, BATCH - done, NULL, &accepted) >=
                    0);
        done += accepted;
        got = tesup_poll(fan->party.channel, completions, BATCH);
        assert_true(got >= 0);
        for (int i = 0; i < got; i++)
            party_check(completions[i].status, "completion");
        /* The peers need this CPU. */
        if (done < BATCH && got == 0 && tesup_wait(fan->party.channel, 1) != TESUP_OK)
            patience_turn(&patience);
    }
}

/* Sends notifications to the first `active` peers in turn, until they have them all. */
static void fan_measure(struct fan *fan, unsigned active, double *wall, double *worker)
{
    uint64_t count = bench_quick ? 10 * BATCH : 1000 * BATCH;
    uint64_t before = atomic_observe(&fan->peers->received);
    uint64_t began = clock_now(), used = cpu_ns(fan->worker);
    struct tesup_completion completions[BATCH];
    unsigned turn = 0;
    struct wait wait;

    for (uint64_t sent = 0; sent < count; sent += BATCH)
        batch_send(fan, active, &turn);
    wait = wait_begin("notifications at the simulated peers", WAIT_MS);
    while (atomic_observe(&fan->peers->received) < before + count)
        wait_step(&wait);
    *wall = (double)(clock_now() - began) / (double)count;
    *worker = (double)(cpu_ns(fan->worker) - used) / (double)count;
    while (tesup_poll(fan->party.channel, completions, BATCH) > 0)
        ;
}

static double echo_time(struct fan *fan)
{
    static const struct tesup_request nop = {.op = TESUP_OP_NOP};
    struct series times = {.count = 0};
    uint64_t until = clock_now() + bench_sample_ns();
    double median;

    while (clock_now() < until) {
        uint64_t began = clock_now();

        work_once(fan->party.channel, &nop, false);
        series_add(&times, (double)(clock_now() - began));
    }
    median = series_median(&times);
    series_free(&times);
    return median;
}

static void fan_row(struct grid *grid, unsigned count)
{
    struct series series[5] = {{.count = 0}};
    double cells[6];
    char label[16];
    struct fan fan;

    fan_open(&fan, count);
    for (unsigned i = 0; i < bench_reps(); i++) {
        double sample[5];

        sample[0] = echo_time(&fan);
        fan_measure(&fan, 1, &sample[1], &sample[2]);
        fan_measure(&fan, count, &sample[3], &sample[4]);
        for (int n = 0; n < 5; n++)
            series_add(&series[n], sample[n]);
    }
    for (int n = 0; n < 5; n++) {
        cells[n] = series_median(&series[n]);
        series_free(&series[n]);
    }
    cells[5] = fan.kib;
    fan_close(&fan);
    snprintf(label, sizeof(label), "%u", count);
    grid_row(grid, label, cells);
}

void growth_endpoints(void **state)
{
    static const char *const columns[] = {
        "endpoints",         "no-op echo ns",  "ns/note, one used", "worker ns, one",
        "ns/note, all used", "worker ns, all", "worker KiB/endp.",  NULL};
    struct grid *grid = grid_add("growth-endpoints", "Endpoints of one worker over tcp", columns);

    (void)state;
    fan_row(grid, 1);
    fan_row(grid, 16);
    fan_row(grid, ENDPOINTS_MAX);
    snprintf(grid->note, sizeof(grid->note),
             "Notifications of %u B in batches of %u, to one peer or to all in turn, until they "
             "have them: wall time and the worker's CPU time. Worker CPU %d (default idling); job "
             "and all simulated peers CPU %d.",
             MESSAGE, BATCH, place_cpu(0), place_cpu(1));
}
