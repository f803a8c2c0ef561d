/* Notifications of 4 KiB while another job moves 64 MiB blocks over the same endpoint.
 *
 * The time begins at tesup_submit and ends when the receiver holds the notification. */
#include "tests/bench/work.h"

#include <string.h>

#include "tests/bench/bulk.h"
#include "tests/bench/target.h"

#define MESSAGE 4096u

struct mover {
    const struct daemon *daemon;
    const struct target *target;
    unsigned place;
    _Atomic uint64_t ready, stop, blocks;
};

static void mover_job(void *argument)
{
    struct mover *mover = argument;
    struct party_region region;
    struct party party;

    place_pin(0, mover->place);
    party_attach(&party, mover->daemon, NULL);
    assert_true(
        party_region_create(&party, PARTY_MEMORY_ALLOC, bulk_bytes(), TESUP_ACCESS_LOCAL, &region));
    memset(region.bytes, 3, region.size);
    const struct tesup_request write = {.op = TESUP_OP_WRITE,
                                        .remote = party_open(&party, mover->target->name),
                                        .local_region = region.handle,
                                        .remote_region =
                                            (tesup_region_t)atomic_peek(&mover->target->region),
                                        .length = bulk_bytes()};
    while (atomic_observe(&mover->stop) == 0) {
        work_once(party.channel, &write, true);
        atomic_publish(&mover->blocks, atomic_peek(&mover->blocks) + 1);
        atomic_publish(&mover->ready, 1);
    }
    party_region_free(&party, &region);
    party_detach(&party);
}

static double notify_us(const struct party *party, const struct tesup_request *notify,
                        struct target *target)
{
    uint64_t before = atomic_observe(&target->received);
    uint64_t began = clock_now();
    struct wait wait;

    work_once(party->channel, notify, true);
    wait = wait_begin("a notification beside large transfers", WAIT_MS);
    while (atomic_observe(&target->received) == before)
        wait_step(&wait); /* sleeps, so that nothing competes with what is measured */
    return (double)(atomic_peek(&target->received_ns) - began) / 1e3;
}

static void mixed_measure(const char *id, const char *what, const char *fabric)
{
    struct series p99 = {.count = 0}, p50 = {.count = 0};
    struct mover *mover = job_board_create(sizeof(*mover));
    static const uint8_t message[MESSAGE];
    struct daemon left, right;
    struct target *target;
    struct party party;
    struct row *row;
    struct job job;
    unsigned count = bench_quick ? 20 : 300;

    bench_serve(&left, "left", fabric, 0);
    bench_serve(&right, "right", fabric, 1);
    target = target_start((struct target){.daemon = &right, .place = 3, .size = bulk_bytes()});
    *mover = (struct mover){.daemon = &left, .target = target, .place = 2};
    job_start(&job, "mover of blocks", mover_job, mover);
    party_attach(&party, &left, NULL);
    place_pin(0, 2);
    const struct tesup_request notify = {.op = TESUP_OP_NOTIFY,
                                         .remote = party_open(&party, target->name),
                                         .msg = message,
                                         .msg_len = sizeof(message)};
    wait_word(&mover->ready, 1, "the first block");
    for (unsigned i = 0; i < bench_reps(); i++) {
        struct series times = {.count = 0};
        uint64_t blocks = atomic_observe(&mover->blocks);

        for (unsigned n = 0; n < count; n++)
            series_add(&times, notify_us(&party, &notify, target));
        series_add(&p99, series_rank(&times, 99));
        series_add(&p50, series_median(&times));
        wait_word(&mover->blocks, blocks + 1, "a block beside the notifications");
        series_free(&times);
    }
    atomic_publish(&mover->stop, 1);
    job_expect_success(&job, WAIT_MS);
    party_detach(&party);
    target_stop(target);
    daemon_stop(&left);
    daemon_stop(&right);
    row = row_add(id, what, "us", &p99);
    row_ask(row, false, 1000, "<= 1 ms", 200, "<= 200 us");
    row_place(
        row,
        "workers CPU %d and %d, sending jobs CPU %d, receiver CPU %d, default idling; p50 %.0f us",
        place_cpu(0), place_cpu(1), place_cpu(2), place_cpu(3), series_median(&p50));
    series_free(&p99);
    series_free(&p50);
    job_board_free(mover, sizeof(*mover));
}

void mixed_latency(void **state)
{
    (void)state;
    mixed_measure("mixed-tcp", "notification of 4 KiB beside 64 MiB WRITEs over tcp, p99",
                  "--fabric tcp");
    mixed_measure("mixed-local", "the same over the local fabric, p99", "--fabric local");
}
