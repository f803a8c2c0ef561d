/* How many descriptors and notifications one worker passes on. */
#include "tests/bench/work.h"

#include <stdio.h>
#include <string.h>

#define WINDOW 512u
#define BATCH  32u

static double flood_sample(struct flood *flood)
{
    uint64_t until = clock_now() + bench_sample_ns();
    struct series rates = {.count = 0};
    double median;

    do
        series_add(&rates, 1e3 * 4096 / (double)flood_run(flood, 4096));
    while (clock_now() < until);
    median = series_median(&rates);
    series_free(&rates);
    return median;
}

void rate_nop(void **state)
{
    static const struct tesup_request nop = {.op = TESUP_OP_NOP};
    struct series rate = {.count = 0};
    struct daemon daemon;
    struct party party;
    struct row *row;

    (void)state;
    bench_serve(&daemon, "rate", "--idle busy", 0);
    party_attach(&party, &daemon, NULL);
    place_pin(0, 1);
    struct flood flood = {
        .channel = party.channel, .request = &nop, .batch = BATCH, .window = WINDOW};
    flood_sample(&flood);
    for (unsigned i = 0; i < bench_reps(); i++)
        series_add(&rate, flood_sample(&flood));
    party_detach(&party);
    daemon_stop(&daemon);
    row = row_add("rate-nop", "no-op descriptors through one worker, batches of 32", "M/s", &rate);
    row_ask(row, true, 3, ">= 3 M/s", 10, ">= 10 M/s");
    row_place(row, "job CPU %d, worker CPU %d, --idle busy", place_cpu(1), place_cpu(0));
    series_free(&rate);
}

/* The job sends to its own segment, so that two CPUs are enough for who spins. */
static void notify_self(const struct daemon *daemon)
{
    static const uint8_t message[64];
    struct series rate = {.count = 0};
    struct party party;
    struct row *row;

    party_attach(&party, daemon, NULL);
    place_pin(0, 1);
    struct tesup_request notify = {.op = TESUP_OP_NOTIFY,
                                   .remote = party_open(&party, tesup_segment_name(party.session)),
                                   .msg = message,
                                   .msg_len = sizeof(message)};
    struct flood flood = {
        .channel = party.channel, .request = &notify, .batch = BATCH, .window = WINDOW};
    flood_sample(&flood);
    for (unsigned i = 0; i < bench_reps(); i++)
        series_add(&rate, flood_sample(&flood));
    assert_true(flood.notes > 0);
    party_detach(&party);
    row = row_add("rate-notify-self", "notifications of 64 B, job -> worker -> the same job", "M/s",
                  &rate);
    row_ask(row, true, 1, ">= 1 M/s", 3, ">= 3 M/s");
    row_place(row, "job CPU %d, worker CPU %d, --idle busy", place_cpu(1), place_cpu(0));
    series_free(&rate);
}

/* ---- two jobs ---- */

struct receiver {
    const struct daemon *daemon;
    char name[LAYOUT_NAME_MAX];
    _Atomic uint64_t ready, stop, received;
    unsigned place;
};

static void receiver_job(void *argument)
{
    struct receiver *receiver = argument;
    struct tesup_notification note;
    struct party party;
    uint64_t expected = 0;

    place_pin(0, receiver->place);
    party_attach(&party, receiver->daemon, NULL);
    snprintf(receiver->name, sizeof(receiver->name), "%s", tesup_segment_name(party.session));
    atomic_publish(&receiver->ready, 1);
    while (atomic_observe(&receiver->stop) == 0) {
        int code = tesup_wait(party.channel, 20);

        if (code != TESUP_ERR_TIMEOUT)
            party_check(code, "receiver waits");
        while (tesup_notify_peek(party.channel, &note) == TESUP_OK) {
            uint64_t number;

            assert_int_equal(note.msg_len, 64);
            memcpy(&number, note.msg, sizeof(number));
            assert_int_equal(number, expected++); /* in order, none lost, none twice */
            party_check(tesup_notify_release(party.channel), "release");
        }
        atomic_publish(&receiver->received, expected);
    }
    party_detach(&party);
}

/* Sends `count` numbered notifications; ns until the receiver has them all. */
static uint64_t stream_run(const struct party *party, struct receiver *receiver,
                           const struct tesup_request *form, uint64_t *number, uint64_t count)
{
    struct patience patience = patience_begin("notifications at the receiver");
    uint64_t began = clock_now(), end = *number + count;
    uint8_t message[BATCH][64] = {{0}};
    struct tesup_request batch[BATCH];
    struct tesup_completion done[2 * BATCH];

    while (*number < end || atomic_observe(&receiver->received) < end) {
        uint32_t accepted = 0, want = end - *number < BATCH ? (uint32_t)(end - *number) : BATCH;
        int got;

        for (uint32_t i = 0; i < want; i++) {
            uint64_t value = *number + i;

            memcpy(message[i], &value, sizeof(value));
            batch[i] = *form;
            batch[i].msg = message[i];
        }
        assert_true(tesup_submit(party->channel, batch, want, NULL, &accepted) >= 0);
        *number += accepted;
        got = tesup_poll(party->channel, done, 2 * BATCH);
        assert_true(got >= 0);
        for (int i = 0; i < got; i++)
            party_check(done[i].status, "completion");
        /* Nothing to do: the receiver may need this CPU. */
        if (accepted == 0 && got == 0 && tesup_wait(party->channel, 1) != TESUP_OK)
            patience_turn(&patience);
    }
    return clock_now() - began;
}

static void notify_other(const struct daemon *daemon)
{
    struct receiver *receiver = job_board_create(sizeof(*receiver));
    uint64_t number = 0, count = bench_quick ? 2000 : 100000;
    struct series rate = {.count = 0};
    struct party party;
    struct job job;
    struct row *row;

    receiver->daemon = daemon;
    receiver->place = place_cpus() > 2 ? 2 : 1;
    job_start(&job, "receiver", receiver_job, receiver);
    wait_word(&receiver->ready, 1, "the receiver");
    party_attach(&party, daemon, NULL);
    place_pin(0, 1);
    struct tesup_request form = {
        .op = TESUP_OP_NOTIFY, .remote = party_open(&party, receiver->name), .msg_len = 64};
    stream_run(&party, receiver, &form, &number, count / 10);
    for (unsigned i = 0; i < bench_reps(); i++) {
        uint64_t ns = stream_run(&party, receiver, &form, &number, count);

        series_add(&rate, 1e3 * (double)count / (double)ns);
    }
    party_detach(&party);
    atomic_publish(&receiver->stop, 1);
    job_expect_success(&job, WAIT_MS);
    row =
        row_add("rate-notify", "notifications of 64 B, job -> worker -> another job", "M/s", &rate);
    row_ask(row, true, 1, ">= 1 M/s", 3, ">= 3 M/s");
    row_place(row, "sender CPU %d, worker CPU %d, receiver CPU %d, --idle busy, jobs sleep",
              place_cpu(1), place_cpu(0), place_cpu(receiver->place));
    series_free(&rate);
    job_board_free(receiver, sizeof(*receiver));
}

void rate_notify(void **state)
{
    struct daemon daemon;

    (void)state;
    bench_job_spin_us(0);
    bench_serve(&daemon, "notify", "--idle busy", 0);
    notify_self(&daemon);
    notify_other(&daemon);
    daemon_stop(&daemon);
}
