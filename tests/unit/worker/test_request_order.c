/* The order of notifications: per channel and segment that of their submission, and nothing more;
 * and how many may wait. */
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"

#define STASH_MAX (16u * 1024u * 1024u) /* worker/request.c: bytes that wait, per channel */

static struct stage stage;
static struct job_channel *const channel = &stage.job.main;
static const struct sqe read_here = {.op = SQE_READ,
                                     .length = 4,
                                     .local_region = JOB_HANDLE(0),
                                     .remote_region = 5,
                                     .remote = JOB_HANDLE(0)};

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
    const struct job_note note = {.msg = msg, .msg_len = (uint32_t)strlen(msg)};

    return job_submit(from, sqe, &note);
}

static uint64_t notify_alone(struct job_channel *from, uint32_t remote, const char *msg)
{
    const struct sqe sqe = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(remote)};

    return notify(from, &sqe, msg);
}

static void expect_notify(uint32_t remote, const char *msg)
{
    const struct frame *frame = peer_expect(&stage.peer, FRAME_NOTIFY);

    assert_int_equal(frame->open, STAGE_OPEN(remote));
    assert_int_equal(frame->length, strlen(msg));
    assert_memory_equal(stage.peer.payload, msg, strlen(msg));
}

static void read_ends(uint32_t wire, int status)
{
    const struct frame data = {
        .type = FRAME_DATA, .flags = FRAME_FLAG_LAST, .request = wire, .length = 4};
    const struct frame result = {
        .type = FRAME_RESULT, .request = wire, .status = (int16_t)status, .value = 0};

    peer_send(&stage.peer, status == TS_OK ? &data : &result, status == TS_OK ? "data" : NULL);
}

static void test_behind_what_was_submitted_before(void **state)
{
    uint32_t wire;

    (void)state;
    stage_open(&stage, 0, "there", 1000);
    notify(channel, &read_here, "first");
    notify_alone(channel, 0, "second");
    notify_alone(channel, 0, "third");
    wire = peer_expect(&stage.peer, FRAME_READ)->request;
    assert_true(peer_is_quiet(&stage.peer)); /* they wait, though nothing keeps them but order */
    read_ends(wire, TS_OK);
    expect_notify(0, "first");
    expect_notify(0, "second");
    expect_notify(0, "third");
    assert_int_equal(job_completion(channel, 0).status, TS_OK);
    assert_int_equal(job_completion(channel, 1).status, TS_OK);
    assert_int_equal(job_completion(channel, 2).status, TS_OK);
}

static void test_no_order_between_channels_and_segments(void **state)
{
    struct job_channel other;
    uint32_t wire;

    (void)state;
    job_channel_add(&stage.job, 1, &other);
    stage_open(&stage, 0, "there", 1000);
    stage_open(&stage, 1, "elsewhere", 1000);
    notify(channel, &read_here, "first");
    wire = peer_expect(&stage.peer, FRAME_READ)->request;
    notify_alone(&other, 0, "other channel");
    expect_notify(0, "other channel");
    notify_alone(channel, 1, "other segment");
    expect_notify(1, "other segment");
    read_ends(wire, TS_OK);
    expect_notify(0, "first");
    job_channel_close(&other);
}

/* One that will never be sent holds up nobody. */
static void test_a_gap_closes(void **state)
{
    uint32_t wire;
    uint64_t second;

    (void)state;
    stage_open(&stage, 0, "there", 1000);
    notify(channel, &read_here, "first");
    second = notify_alone(channel, 0, "second");
    notify_alone(channel, 0, "third");
    wire = peer_expect(&stage.peer, FRAME_READ)->request;
    job_cancel(channel, second);
    assert_int_equal(job_completion(channel, second).status, TS_ERR_CANCELLED);
    assert_true(peer_is_quiet(&stage.peer));
    read_ends(wire, TS_ERR_DENIED);
    expect_notify(0, "third");
}

/* Credit for a small one must not let it overtake the large one before it. */
static void test_credit_does_not_change_the_order(void **state)
{
    struct remote *remote = stage_open(&stage, 0, "there", notify_cost(0, 6));
    struct frame credit = {
        .type = FRAME_CREDIT, .request = remote->wire, .value = notify_cost(0, 13)};

    (void)state;
    notify_alone(channel, 0, "the first one");
    notify_alone(channel, 0, "second");
    assert_true(peer_is_quiet(&stage.peer));
    peer_send(&stage.peer, &credit, NULL);
    expect_notify(0, "the first one");
    expect_notify(0, "second");
}

/* A segment that opens late gets what waited in the order of submission. */
static void test_order_of_what_waited_for_the_segment(void **state)
{
    const struct remote *remote = stage_ask(&stage, 0, "there");

    (void)state;
    notify_alone(channel, 0, "first");
    notify_alone(channel, 0, "second");
    host_turns(1);
    notify_alone(channel, 0, "third");
    assert_true(peer_is_quiet(&stage.peer));
    stage_allow(&stage, remote, 1000);
    expect_notify(0, "first");
    expect_notify(0, "second");
    expect_notify(0, "third");
}

static int setup_large(void **state)
{
    const struct job_shape shape = {
        .handle = 1, .segment = STAGE_SEGMENT, .slots = 32, .notify_max = LAYOUT_NOTIFY_OOB_MAX};

    (void)state;
    stage_begin_with(&stage, &shape);
    stage.peer.endpoint->notify_max = LAYOUT_NOTIFY_OOB_MAX;
    return 0;
}

/* Without credit 16 MiB of a channel wait in the worker.  The next is told to try again, and was
 * certainly not sent; a place that is free again serves the next. */
static void test_again(void **state)
{
    const uint32_t size = LAYOUT_NOTIFY_OOB_MAX;
    const struct sqe sqe = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};
    struct job_note note = {.msg = calloc(1, size), .msg_len = size};
    uint64_t first, ticket;

    (void)state;
    assert_non_null(note.msg);
    stage_open(&stage, 0, "there", 0);
    first = job_submit(channel, &sqe, &note);
    for (uint32_t i = 1; i < STASH_MAX / size; i++) {
        host_turns(1);
        job_submit(channel, &sqe, &note);
    }
    host_turns(1);
    assert_int_equal(channel->channel->stashed_bytes, STASH_MAX);
    note.msg_len = 1;
    ticket = job_submit(channel, &sqe, &note);
    assert_int_equal(job_completion(channel, ticket).status, TS_AGAIN);
    assert_int_equal(host_stat(&stage.host.worker.stats->again), 1);
    job_cancel(channel, first);
    assert_int_equal(job_completion(channel, first).status, TS_ERR_CANCELLED);
    job_submit(channel, &sqe, &note);
    host_turns(1);
    assert_int_equal(channel->channel->stashed_bytes, STASH_MAX - size + 1);
    assert_true(peer_is_quiet(&stage.peer));
    free((void *)(uintptr_t)note.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_behind_what_was_submitted_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_order_between_channels_and_segments, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_gap_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_credit_does_not_change_the_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_of_what_waited_for_the_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_again, setup_large, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
