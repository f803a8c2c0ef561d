/* 256 peers of one worker, played by one process with real queue pairs: what a notification costs
 * with all of them there, and what is pinned for them. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/clock.h"
#include "tests/harness/rawverbs.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define PEERS   256u
#define SAMPLES 64u
#define PINNED  (64 * MIB)
#define REQUEST 1u

struct far {
    struct rawverbs raw;
    uint32_t open; /* the worker's handle of the job's segment */
    uint32_t sent;
};

static struct far peers[PEERS]; /* large */
static struct party job;

static void packet_say(struct far *far, const struct frame *frame, const void *payload)
{
    uint8_t bytes[1024];
    struct verbs_packet packet =
        rawverbs_packet(&far->raw, (uint32_t)sizeof(*frame) + frame->length);

    memcpy(bytes, frame, sizeof(*frame));
    if (frame->length > 0)
        memcpy(bytes + sizeof(*frame), payload, frame->length);
    assert_int_equal(rawverbs_send(&far->raw, &packet, sizeof(packet), bytes, packet.length),
                     IBV_WC_SUCCESS);
}

/* An endpoint with the job's segment open over it. */
static void far_begin(struct far *far, uint32_t number)
{
    const char *segment = strchr(tesup_segment_name(job.session), '/') + 1;
    const struct frame ready = {.type = FRAME_READY};
    const struct frame open = {
        .type = FRAME_OPEN, .request = REQUEST, .length = sizeof(struct frame_open)};
    struct frame_open ask = {.uid = 0};
    struct frame opened;

    rawverbs_open(&far->raw, rdma_site.left);
    rawverbs_shake(&far->raw, segment);
    packet_say(far, &ready, NULL);
    snprintf(ask.segment, sizeof(ask.segment), "%s", segment);
    snprintf(ask.sender, sizeof(ask.sender), "127.0.0.1:1/peer-%u", number);
    packet_say(far, &open, &ask);
    opened = rawverbs_wait(&far->raw, FRAME_OPENED);
    assert_int_equal(opened.status, 0);
    far->open = opened.open;
}

/* From the SEND until the job holds it, in nanoseconds. */
static uint64_t notify_once(struct far *far, uint32_t number)
{
    const struct frame frame = {.type = FRAME_NOTIFY,
                                .open = far->open,
                                .region = sizeof(number),
                                .length = sizeof(number)};
    uint64_t begun = clock_now(), taken;
    struct tesup_notification note;

    packet_say(far, &frame, &number);
    note = party_next(job.channel);
    taken = clock_now() - begun;
    assert_int_equal(note.name_len, sizeof(number));
    assert_memory_equal(note.name, &number, sizeof(number));
    party_check(tesup_notify_release(job.channel), "release");
    return taken;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *first = a, *second = b;

    return (*first > *second) - (*first < *second);
}

/* The middle of SAMPLES notifications, from `count` peers in turn. */
static double middle_us(uint32_t count)
{
    static uint32_t number;
    uint64_t taken[SAMPLES];

    for (uint32_t i = 0; i < SAMPLES; i++)
        taken[i] =
            notify_once(&peers[i * (count > SAMPLES ? count / SAMPLES : 1) % count], number++);
    qsort(taken, SAMPLES, sizeof(taken[0]), by_value);
    return (double)taken[SAMPLES / 2] / 1000;
}

static void many_cost_as_much_as_few(void **state)
{
    uint64_t rnr = rdma_hw_count(RDMA_LEFT, "send_rnr_err"), pinned;
    double few = 0, many;

    (void)state;
    party_attach(&job, rdma_site.left, NULL);
    for (uint32_t i = 0; i < PEERS; i++) {
        far_begin(&peers[i], i);
        if (i == 0)
            few = middle_us(1);
    }
    many = middle_us(PEERS);
    pinned = status_worker_count(rdma_site.left, "rdma_pool_bytes");
    print_message("1 peer: %.0f us, %u peers: %.0f us (%.2f x), %.1f MiB pinned\n", few, PEERS,
                  many, many / few, (double)pinned / (double)MIB);
    assert_int_equal(status_worker_count(rdma_site.left, "endpoints"), PEERS + 1); /* and itself */
    assert_true(pinned <= PINNED);
    assert_int_equal(rdma_hw_count(RDMA_LEFT, "send_rnr_err"), rnr);
    for (uint32_t i = 0; i < PEERS; i++)
        rawverbs_close(&peers[i].raw);
    party_detach(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_cost_as_much_as_few)};

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
