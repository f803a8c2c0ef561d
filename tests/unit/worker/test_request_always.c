/* Notifications that must arrive in any case: they carry the outcome of their transfer, whatever it
 * is, and wait for it as long as they may, not longer. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"

static struct stage stage;
static struct job_channel *const channel = &stage.job.main;
static const struct sqe alone = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};

static int setup(void **state)
{
    (void)state;
    stage_begin(&stage);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

static uint64_t notify(struct job_channel *from, const struct sqe *sqe, const char *msg)
{
    const struct job_note note = {
        .name = "name", .name_len = 4, .msg = msg, .msg_len = (uint32_t)strlen(msg)};

    return job_submit(from, sqe, &note);
}

static struct sqe bound(uint8_t op, uint64_t length)
{
    return (struct sqe){.op = op,
                        .length = length,
                        .local_region = JOB_HANDLE(0),
                        .remote_region = 5,
                        .remote = JOB_HANDLE(0)};
}

static void expect_notify(struct peer *peer, const char *msg)
{
    const struct frame *frame = peer_expect(peer, FRAME_NOTIFY);

    assert_int_equal(frame->region, 4);
    assert_int_equal(frame->length, 4 + strlen(msg));
    assert_memory_equal(peer->payload, "name", 4);
    assert_memory_equal(peer->payload + 4, msg, strlen(msg));
}

static void answer(enum frame_type type, uint32_t request, int status, uint64_t value)
{
    const struct frame frame = {
        .type = (uint8_t)type, .request = request, .status = (int16_t)status, .value = value};

    peer_send(&stage.peer, &frame, NULL);
}

/* NOTIFY_ALWAYS: the outcome arrives, whatever it is: refused here, refused there, cancelled. */
static void test_always_tells_the_outcome(void **state)
{
    struct sqe sqe = bound(SQE_READ, 20);
    uint64_t ticket;
    uint32_t wire;

    (void)state;
    sqe.flags = SQE_FLAG_NOTIFY_ALWAYS;
    stage_open(&stage, 0, "there", 1000);
    ticket = notify(channel, &sqe, "denied");
    answer(FRAME_RESULT, peer_expect(&stage.peer, FRAME_READ)->request, TS_ERR_DENIED, 0);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_DENIED);
    expect_notify(&stage.peer, "denied");
    assert_int_equal(stage.peer.frame.status, TS_ERR_DENIED);
    assert_int_equal(stage.peer.frame.flags, FRAME_FLAG_ALWAYS);

    ticket = notify(channel, &sqe, "cancelled");
    wire = peer_expect(&stage.peer, FRAME_READ)->request;
    job_cancel(channel, ticket);
    peer_expect(&stage.peer, FRAME_CANCEL);
    answer(FRAME_RESULT, wire, TS_ERR_CANCELLED, 10);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_CANCELLED);
    expect_notify(&stage.peer, "cancelled");
    assert_int_equal(stage.peer.frame.status, TS_ERR_CANCELLED);
    assert_int_equal(stage.peer.frame.value, 10);

    sqe.local_region = JOB_HANDLE(7);
    ticket = notify(channel, &sqe, "not begun");
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_NOT_FOUND);
    expect_notify(&stage.peer, "not begun");
    assert_int_equal(stage.peer.frame.status, TS_ERR_NOT_FOUND);
}

/* The link dies under the transfer: over the next one the receiver learns that nobody knows. */
static void test_always_tells_uncertain(void **state)
{
    static struct peer next;
    struct sqe sqe = bound(SQE_READ, 20);
    struct remote *remote = stage_open(&stage, 0, "there", 1000);
    struct frame opened = {.type = FRAME_OPENED, .open = STAGE_OPEN(9), .value = 1000};
    struct cqe cqe;
    uint64_t ticket;

    (void)state;
    sqe.flags = SQE_FLAG_NOTIFY_ALWAYS;
    ticket = notify(channel, &sqe, "perhaps");
    peer_expect(&stage.peer, FRAME_READ);
    peer_leave(&stage.peer);
    host_until(remote->state == REMOTE_CONNECTING);
    assert_false(job_complete(channel, &cqe));
    peer_connect(&next, &stage.host);
    endpoint_hand_over(remote->endpoint, next.endpoint);
    peer_expect(&next, FRAME_OPEN);
    opened.request = remote->wire;
    peer_send(&next, &opened, NULL);
    expect_notify(&next, "perhaps");
    assert_int_equal(next.frame.status, TS_ERR_UNCERTAIN);
    assert_int_equal(next.frame.open, STAGE_OPEN(9));
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    assert_int_equal(host_stat(&stage.host.worker.stats->uncertain), 1);
    peer_leave(&next);
}

/* Nobody waits for ever: what must arrive in any case cannot when its segment is gone for good. */
static void test_waiting_for_credit_of_a_segment_that_goes(void **state)
{
    struct sqe sqe = alone;
    uint64_t first, second;

    (void)state;
    sqe.flags = SQE_FLAG_NOTIFY_ALWAYS;
    const struct remote *remote = stage_open(&stage, 0, "there", 0);
    first = notify(channel, &sqe, "first");
    second = notify(channel, &alone, "second");
    host_turns(1);
    answer(FRAME_GONE, remote->wire, TS_ERR_GONE, 0);
    assert_int_equal(job_completion(channel, first).status, TS_ERR_GONE);
    assert_int_equal(job_completion(channel, second).status, TS_ERR_GONE);
}

/* It must arrive in any case, so a cancel does not end its wait: its deadline does. */
static void test_cancelled_while_it_waits_for_credit(void **state)
{
    struct sqe sqe = alone;
    struct cqe cqe;
    uint64_t ticket;

    (void)state;
    sqe.flags = SQE_FLAG_NOTIFY_ALWAYS;
    sqe.deadline_ms = 5000;
    stage_open(&stage, 0, "there", 0);
    ticket = notify(channel, &sqe, "keep me");
    host_turns(1);
    job_cancel(channel, ticket);
    host_turns(2);
    assert_false(job_complete(channel, &cqe));
    host_skip(&stage.host, 5001);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_TIMEOUT);
    assert_true(peer_is_quiet(&stage.peer));
}

/* The deadline that stopped the transfer ends the wait of its notification, too. */
static void test_deadline_of_transfer_and_notification(void **state)
{
    struct sqe sqe = bound(SQE_READ, 20);
    struct cqe cqe;
    uint64_t ticket;
    uint32_t wire;

    (void)state;
    sqe.flags = SQE_FLAG_NOTIFY_ALWAYS;
    sqe.deadline_ms = 5000;
    stage_open(&stage, 0, "there", 0);
    ticket = notify(channel, &sqe, "too late");
    wire = peer_expect(&stage.peer, FRAME_READ)->request;
    host_skip(&stage.host, 5001);
    peer_expect(&stage.peer, FRAME_CANCEL);
    answer(FRAME_RESULT, wire, TS_ERR_CANCELLED, 0);
    host_turns(2);
    assert_false(job_complete(channel, &cqe)); /* its outcome waits for credit */
    host_skip(&stage.host, HOST_CONNECT_MS + 1);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_TIMEOUT);
    assert_int_equal(stage.peer.endpoint->state, ENDPOINT_READY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_always_tells_the_outcome, setup, teardown),
        cmocka_unit_test_setup_teardown(test_always_tells_uncertain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waiting_for_credit_of_a_segment_that_goes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_while_it_waits_for_credit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline_of_transfer_and_notification, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
