/* One queue pair of a working endpoint fails: it is replaced, the other one does not notice, no
 * notification is lost, none comes twice, and the endpoint is the same one afterwards. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/harness/qpbreak.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define NOTES    200u
#define PAUSE_MS 1100u /* one that fails within a second of being replaced ends its endpoint */

static struct ends ends;
static struct rdma_objects objects[RDMA_SIDES];
static pid_t workers[RDMA_SIDES];
static uint64_t lost[RDMA_SIDES];
static uint32_t data_peer, notify_peer; /* where the left side's queue pairs lead to */

/* The numbers in status are the kernel's. */
static void shown_expect(const struct rdma_queue *data, const struct rdma_queue *notify)
{
    json_t *document = status_document(rdma_site.left), *pairs, *line, *queue;
    size_t i;

    pairs = json_object_get(document, "pairs");
    json_array_foreach(json_object_get(json_array_get(pairs, 0), "endpoints"), i, line)
    {
        const json_t *queues = json_object_get(line, "queue_pairs");

        if (json_is_null(queues)) /* the worker's way to itself */
            continue;
        queue = json_array_get(json_object_get(queues, "data"), 0);
        assert_int_equal(json_integer_value(json_object_get(queue, "own")), data->number);
        assert_int_equal(json_integer_value(json_object_get(queue, "peer")), data->peer);
        queue = json_object_get(queues, "notification");
        assert_int_equal(json_integer_value(json_object_get(queue, "own")), notify->number);
        assert_int_equal(json_integer_value(json_object_get(queue, "peer")), notify->peer);
        json_decref(document);
        return;
    }
    fail_msg("status shows no queue pairs");
}

/* The left side's two, by the peer's numbers. Which is which: one of them is as it was. */
static void queues_look(void)
{
    struct rdma_queue queues[2];
    unsigned data = 0;

    assert_int_equal(rdma_queues(workers[RDMA_LEFT], queues, 2), 2);
    if (queues[0].peer == notify_peer || queues[1].peer == data_peer ||
        (data_peer == 0 && queues[0].peer > queues[1].peer)) /* they were made in this order */
        data = 1;
    data_peer = queues[data].peer;
    notify_peer = queues[1 - data].peer;
    shown_expect(&queues[data], &queues[1 - data]);
}

static int group_setup(void **state)
{
    struct tesup_request request;

    if (rdma_group_setup(state) < 0)
        return -1;
    ends_begin(&ends, 8 * MIB);
    request = ends_request(&ends, TESUP_OP_WRITE, MIB, NULL);
    party_check(party_do(ends.left.channel, &request).status, "the first WRITE");
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        workers[side] = status_worker_ready(&rdma_daemon[side], 0);
        objects[side] = rdma_objects(workers[side]);
        lost[side] = status_worker_count(&rdma_daemon[side], "endpoint_lost");
    }
    queues_look();
    return 0;
}

static int group_teardown(void **state)
{
    ends_end(&ends);
    return rdma_group_teardown(state);
}

/* Both sides replaced one, nothing is left of the old one, and the endpoint is not another one. */
static void expect_renewed(const uint64_t before[RDMA_SIDES])
{
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        struct rdma_objects now;

        status_worker_wait(&rdma_daemon[side], "rdma_renewed", before[side] + 1);
        now = rdma_objects(workers[side]);
        assert_int_equal(now.qps, objects[side].qps);
        assert_int_equal(now.mrs, objects[side].mrs);
        assert_int_equal(status_worker_count(&rdma_daemon[side], "endpoint_lost"), lost[side]);
        assert_int_equal(status_worker_ready(&rdma_daemon[side], 0), workers[side]);
    }
    queues_look();
}

static void renewed_count(uint64_t counts[RDMA_SIDES])
{
    for (unsigned side = 0; side < RDMA_SIDES; side++)
        counts[side] = status_worker_count(&rdma_daemon[side], "rdma_renewed");
}

static void note_submit(uint32_t number)
{
    const struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                          .remote = ends.there,
                                          .name = "n",
                                          .name_len = 1,
                                          .msg = &number,
                                          .msg_len = sizeof(number)};

    party_submit(ends.left.channel, &request);
}

static void note_expect(uint32_t number)
{
    struct tesup_notification note = party_next(ends.right.channel);
    uint32_t got;

    assert_int_equal(note.msg_len, sizeof(got));
    memcpy(&got, note.msg, sizeof(got));
    assert_int_equal(got, number);
    party_check(tesup_notify_release(ends.right.channel), "release");
}

/* All in order and once, all said to be sent; the queue pair fails in the middle of them. */
static void notes_across(void)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < NOTES; i++) {
        if (i == NOTES / 2)
            qpbreak(workers[RDMA_LEFT], data_peer);
        note_submit(i);
        if (i % 16 == 15) /* the channel's rings need not hold all of them */
            for (unsigned k = 0; k < 16; k++)
                party_check(party_complete(ends.left.channel).status, "a notification");
        while (taken + 32 < i)
            note_expect(taken++);
    }
    for (uint32_t i = NOTES / 16 * 16; i < NOTES; i++)
        party_check(party_complete(ends.left.channel).status, "a notification");
    while (taken < NOTES)
        note_expect(taken++);
    party_expect_silence(ends.right.channel, 50);
}

static void transfers_work(uint64_t seed)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 4 * MIB, NULL);

    party_fill(ends.local.bytes, 4 * MIB, seed);
    party_check(party_do(ends.left.channel, &request).status, "WRITE");
    party_verify(ends.remote.bytes, 4 * MIB, seed, "what was written");
    request.op = TESUP_OP_READ;
    party_fill(ends.remote.bytes, 4 * MIB, seed + 1);
    party_check(party_do(ends.left.channel, &request).status, "READ");
    party_verify(ends.local.bytes, 4 * MIB, seed + 1, "what was read");
}

static void notification_queue_fails(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        uint64_t before[RDMA_SIDES];

        wait_sleep_ms(PAUSE_MS);
        renewed_count(before);
        notes_across();
        transfers_work(round);
        expect_renewed(before);
    }
}

/* An idle one: the transfer that finds it so fails, honestly, and no other does. */
static void data_queue_fails(void **state)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, MIB, NULL);
    uint64_t before[RDMA_SIDES];

    (void)state;
    renewed_count(before);
    qpbreak(workers[RDMA_LEFT], notify_peer);
    party_expect(party_do(ends.left.channel, &request).status, TESUP_ERR_UNCERTAIN);
    note_submit(1);
    party_check(party_complete(ends.left.channel).status, "a notification");
    note_expect(1);
    transfers_work(3);
    expect_renewed(before);
}

/* With bytes on it: the transfer's outcome is honest, and what it says it has moved is there. */
static void data_queue_fails_under_a_transfer(void **state)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 8 * MIB, "all of it");
    uint64_t before[RDMA_SIDES];
    struct tesup_completion completion;

    (void)state;
    wait_sleep_ms(PAUSE_MS);
    renewed_count(before);
    party_fill(ends.local.bytes, 8 * MIB, 77);
    party_submit(ends.left.channel, &request);
    qpbreak(workers[RDMA_LEFT], notify_peer);
    note_submit(5); /* it need not wait for what has failed */
    completion = party_complete(ends.left.channel);
    if (completion.status == TESUP_ERR_UNCERTAIN) {
        party_check(party_complete(ends.left.channel).status, "a notification");
    } else { /* it was through, or the notification was first */
        party_check(completion.status, "the first of the two");
        completion = party_complete(ends.left.channel);
        assert_true(completion.status == TESUP_OK || completion.status == TESUP_ERR_UNCERTAIN);
    }
    expect_renewed(before);
    for (;;) {
        struct tesup_notification note = party_next(ends.right.channel);
        bool bound = party_name_is(&note, "all of it");

        if (bound)
            party_verify(ends.remote.bytes, 8 * MIB, 77, "announced bytes");
        party_check(tesup_notify_release(ends.right.channel), "release");
        if (!bound)
            break;
    }
    transfers_work(9);
}

/* Breaks the notification queue pair and sends what finds it so. True: its endpoint ended. */
static bool breaking_ends_endpoint(uint32_t number)
{
    uint64_t renewed = status_worker_count(rdma_site.left, "rdma_renewed");
    struct wait wait = wait_begin("a broken queue pair to be noticed", WAIT_MS);

    qpbreak(workers[RDMA_LEFT], data_peer);
    note_submit(number);
    party_check(party_complete(ends.left.channel).status, "a notification");
    for (;;) {
        if (status_worker_count(rdma_site.left, "endpoint_lost") > lost[RDMA_LEFT])
            return true;
        if (status_worker_count(rdma_site.left, "rdma_renewed") > renewed)
            return false;
        wait_step(&wait);
    }
}

/* Again at once: then replacing it does not help, and the whole endpoint begins anew.  A plain
 * notification that was under way on it is lost with it: the first one is taken before. */
static void endpoint_ends_when_it_fails_again(void **state)
{
    uint32_t number = 0;

    (void)state;
    wait_sleep_ms(PAUSE_MS);
    assert_false(breaking_ends_endpoint(number));
    note_expect(number++);
    while (!breaking_ends_endpoint(number)) /* so slow a machine that it was not at once */
        note_expect(number++);
    transfers_work(10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notification_queue_fails),
        cmocka_unit_test(data_queue_fails),
        cmocka_unit_test(data_queue_fails_under_a_transfer),
        cmocka_unit_test(endpoint_ends_when_it_fails_again),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
