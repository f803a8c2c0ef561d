/* Groups: one notification for several transfers, sent when all of them are done. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"

static struct stage stage;
static struct job_channel *const channel = &stage.job.main;

static int setup(void **state)
{
    (void)state;
    stage_begin(&stage);
    stage_open(&stage, 0, "there", 4000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

static struct sqe read_four(uint8_t flags)
{
    return (struct sqe){.op = SQE_READ,
                        .flags = flags,
                        .length = 4,
                        .local_region = JOB_HANDLE(0),
                        .remote_region = 5,
                        .remote = JOB_HANDLE(0)};
}

static uint64_t member(uint32_t *wire)
{
    const struct sqe sqe = read_four(SQE_FLAG_MORE);
    uint64_t ticket = job_submit(channel, &sqe, NULL);

    *wire = peer_expect(&stage.peer, FRAME_READ)->request;
    return ticket;
}

static uint64_t lead(const struct sqe *sqe, const char *msg)
{
    const struct job_note note = {.msg = msg, .msg_len = (uint32_t)strlen(msg)};

    return job_submit(channel, sqe, &note);
}

static uint64_t lead_alone(uint8_t flags, const char *msg)
{
    const struct sqe sqe = {.op = SQE_NOTIFY, .flags = flags, .remote = JOB_HANDLE(0)};

    return lead(&sqe, msg);
}

static void ends(uint32_t wire, int status)
{
    const struct frame data = {
        .type = FRAME_DATA, .flags = FRAME_FLAG_LAST, .request = wire, .length = 4};
    const struct frame result = {
        .type = FRAME_RESULT, .request = wire, .status = (int16_t)status, .value = 0};

    peer_send(&stage.peer, status == TS_OK ? &data : &result, status == TS_OK ? "data" : NULL);
}

static const struct frame *expect_notify(const char *msg)
{
    const struct frame *frame = peer_expect(&stage.peer, FRAME_NOTIFY);

    assert_int_equal(frame->length, strlen(msg));
    assert_memory_equal(stage.peer.payload, msg, strlen(msg));
    return frame;
}

static void expect_end(uint64_t ticket, int status)
{
    assert_int_equal(job_completion(channel, ticket).status, status);
}

static void test_the_last_of_all_lets_it_go(void **state)
{
    const struct sqe last = read_four(0);
    uint64_t ticket[3];
    uint32_t wire[3];

    (void)state;
    ticket[0] = member(&wire[0]);
    ticket[1] = member(&wire[1]);
    ticket[2] = lead(&last, "all three");
    wire[2] = peer_expect(&stage.peer, FRAME_READ)->request;
    ends(wire[2], TS_OK);
    assert_true(peer_is_quiet(&stage.peer));
    ends(wire[0], TS_OK);
    expect_end(ticket[0], TS_OK);
    assert_true(peer_is_quiet(&stage.peer));
    ends(wire[1], TS_OK);
    assert_int_equal(expect_notify("all three")->value, 12);
    assert_int_equal(job_completion(channel, ticket[2]).bytes, 4);
    expect_end(ticket[1], TS_OK);
}

/* A WRITE's bytes are in the stream at once, but those of its group are not there yet. */
static void test_a_write_that_leads_waits_for_reads(void **state)
{
    struct sqe write = read_four(0);
    uint64_t ticket;
    uint32_t wire;

    (void)state;
    write.op = SQE_WRITE;
    member(&wire);
    ticket = lead(&write, "both");
    peer_expect(&stage.peer, FRAME_WRITE);
    assert_true(peer_is_quiet(&stage.peer));
    ends(wire, TS_OK);
    assert_int_equal(expect_notify("both")->flags, FRAME_FLAG_BOUND);
    assert_int_equal(stage.peer.frame.value, 8);
    assert_non_null(job_request(channel, ticket));
}

static void test_one_that_failed_silences_all(void **state)
{
    uint64_t first, second, last;
    uint32_t wire[2];

    (void)state;
    first = member(&wire[0]);
    second = member(&wire[1]);
    last = lead_alone(0, "never");
    ends(wire[0], TS_ERR_DENIED);
    expect_end(first, TS_ERR_DENIED);
    assert_non_null(job_request(channel, last)); /* others of it still move */
    ends(wire[1], TS_OK);
    expect_end(last, TS_ERR_SKIPPED);
    expect_end(second, TS_OK);
    assert_true(peer_is_quiet(&stage.peer));
    lead_alone(0, "the next is on its own");
    expect_notify("the next is on its own");
}

static void test_one_that_was_refused_counts(void **state)
{
    struct sqe wrong = read_four(SQE_FLAG_MORE);
    uint64_t ticket;

    (void)state;
    wrong.local_region = JOB_HANDLE(9);
    ticket = job_submit(channel, &wrong, NULL);
    expect_end(ticket, TS_ERR_NOT_FOUND);
    ticket = lead_alone(0, "never");
    expect_end(ticket, TS_ERR_SKIPPED);
    assert_true(peer_is_quiet(&stage.peer));
}

static void test_always_tells_how_it_ended(void **state)
{
    uint64_t first, last;
    uint32_t wire;

    (void)state;
    first = member(&wire);
    last = lead_alone(SQE_FLAG_NOTIFY_ALWAYS, "anyway");
    ends(wire, TS_ERR_DENIED);
    assert_int_equal(expect_notify("anyway")->status, TS_ERR_DENIED);
    expect_end(last, TS_OK); /* it said what there was to say */
    expect_end(first, TS_ERR_DENIED);
}

static void test_a_leader_that_leaves(void **state)
{
    uint64_t first, last;
    uint32_t wire;

    (void)state;
    first = member(&wire);
    last = lead_alone(0, "never");
    job_cancel(channel, last);
    expect_end(last, TS_ERR_CANCELLED);
    ends(wire, TS_OK);
    expect_end(first, TS_OK);
    assert_true(peer_is_quiet(&stage.peer));
}

static void test_a_nop_ends_a_group(void **state)
{
    const struct sqe nop = {.op = SQE_NOP};
    uint64_t first;
    uint32_t wire;

    (void)state;
    first = member(&wire);
    expect_end(job_submit(channel, &nop, NULL), TS_OK);
    lead_alone(0, "waits for nobody");
    expect_notify("waits for nobody");
    ends(wire, TS_ERR_DENIED);
    job_completion(channel, first + 2);
    expect_end(first, TS_ERR_DENIED);
}

/* Members of a link that breaks are uncertain. */
static void test_a_lost_link(void **state)
{
    uint64_t first, last;
    uint32_t wire;

    (void)state;
    first = member(&wire);
    last = lead_alone(0, "never");
    peer_leave(&stage.peer);
    expect_end(last, TS_ERR_SKIPPED);
    expect_end(first, TS_ERR_UNCERTAIN);
}

/* The whole session goes while one group is led and the next one is collected: tear-down looks. */
static void test_nothing_is_left_of_a_session(void **state)
{
    uint32_t wire;

    (void)state;
    member(&wire);
    lead_alone(0, "never");
    member(&wire);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(test_the_last_of_all_lets_it_go),   ON(test_a_write_that_leads_waits_for_reads),
        ON(test_one_that_failed_silences_all), ON(test_one_that_was_refused_counts),
        ON(test_always_tells_how_it_ended),    ON(test_a_leader_that_leaves),
        ON(test_a_nop_ends_a_group),           ON(test_a_lost_link),
        ON(test_nothing_is_left_of_a_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
