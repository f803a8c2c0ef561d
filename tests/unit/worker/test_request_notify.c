/* Notifications of a sender: after the data they are bound to, in the order of their submission per
 * channel and segment, within the receiver's credit, and with the outcome that is known. */
#include "tests/harness/test.h"

#include <string.h>
#include <sys/socket.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"
#include "worker/fabric/tcp/tcp.h"

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

/* The stream's order is the proof: the notification is the next frame after the last slice, also
 * when credit comes while the slices are on their way. */
static void test_bound_to_a_write_it_goes_behind_the_last_slice(void **state)
{
    const struct sqe sqe = bound(SQE_WRITE, 8 * HOST_SLICE);
    const struct remote *remote = stage_open(&stage, 0, "there", 0);
    struct tcp_link *tcp = tcp_of(stage.peer.endpoint->link);
    const int little = 4096;
    uint64_t ticket;
    struct cqe cqe;
    uint32_t wire;

    (void)state;
    assert_int_equal(setsockopt(tcp->source.fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
    ticket = notify(channel, &sqe, "block 17");
    host_until(tcp->blocked);
    assert_false(job_request(channel, ticket)->posted);
    answer(FRAME_CREDIT, remote->wire, TS_OK, 1000);
    for (int slice = 0; slice < 8; slice++)
        peer_expect(&stage.peer, FRAME_WRITE);
    assert_int_equal(stage.peer.frame.flags, FRAME_FLAG_LAST);
    wire = stage.peer.frame.request;
    expect_notify(&stage.peer, "block 17");
    assert_int_equal(stage.peer.frame.flags, FRAME_FLAG_BOUND);
    assert_int_equal(stage.peer.frame.request, wire);
    assert_int_equal(stage.peer.frame.value, 8 * HOST_SLICE);
    assert_false(job_complete(channel, &cqe));
    answer(FRAME_RESULT, wire, TS_OK, 8 * HOST_SLICE);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
}

static void test_bound_to_a_read_it_waits_for_the_last_byte(void **state)
{
    const struct sqe sqe = bound(SQE_READ, 20);
    struct frame data = {.type = FRAME_DATA, .length = 10};
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 1000);
    ticket = notify(channel, &sqe, "free it");
    data.request = peer_expect(&stage.peer, FRAME_READ)->request;
    peer_send(&stage.peer, &data, "0123456789");
    assert_true(peer_is_quiet(&stage.peer));
    data.offset = 10;
    data.flags = FRAME_FLAG_LAST;
    peer_send(&stage.peer, &data, "abcdefghij");
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    expect_notify(&stage.peer, "free it");
    assert_int_equal(stage.peer.frame.flags, 0);
    assert_int_equal(stage.peer.frame.status, TS_OK);
    assert_int_equal(stage.peer.frame.value, 20);
    assert_memory_equal(stage.bytes, "0123456789abcdefghij", 20);
}

static void test_a_failed_transfer_announces_nothing(void **state)
{
    const struct sqe sqe = bound(SQE_READ, 20);
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 1000);
    ticket = notify(channel, &sqe, "free it");
    answer(FRAME_RESULT, peer_expect(&stage.peer, FRAME_READ)->request, TS_ERR_DENIED, 0);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_DENIED);
    assert_true(peer_is_quiet(&stage.peer));
}

static void test_credit(void **state)
{
    const uint64_t cost = notify_cost(4, 5);
    struct remote *remote = stage_open(&stage, 0, "there", cost + cost - 1);
    struct cqe cqe;
    uint64_t ticket;

    (void)state;
    ticket = notify(channel, &alone, "first");
    expect_notify(&stage.peer, "first");
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    ticket = notify(channel, &alone, "again");
    assert_true(peer_is_quiet(&stage.peer)); /* one byte is missing */
    assert_false(job_complete(channel, &cqe));
    assert_int_equal(remote->credit, cost - 1);
    answer(FRAME_CREDIT, remote->wire, TS_OK, 1);
    expect_notify(&stage.peer, "again");
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    assert_int_equal(remote->credit, 0);
    assert_int_equal(channel->channel->stashed_bytes, 0);
}

static void test_waiting_for_credit_it_can_be_stopped(void **state)
{
    struct sqe sqe = alone;
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    ticket = notify(channel, &sqe, "drop me");
    host_turns(1);
    job_cancel(channel, ticket);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_CANCELLED);
    sqe.deadline_ms = 5000;
    ticket = notify(channel, &sqe, "drop me, too");
    host_turns(1);
    host_skip(&stage.host, 5001);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_TIMEOUT);
    assert_true(peer_is_quiet(&stage.peer));
}

/* Longer than the peer takes: refused before a byte of the WRITE is sent. */
static void test_too_long_for_the_peer(void **state)
{
    const struct sqe sqe = bound(SQE_WRITE, 20);
    char msg[101] = "";
    uint64_t ticket;

    (void)state;
    memset(msg, 'x', 100);
    stage.peer.endpoint->notify_max = 103;
    stage_open(&stage, 0, "there", 1000);
    ticket = notify(channel, &sqe, msg);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_TOO_LONG);
    ticket = notify(channel, &alone, msg);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_TOO_LONG);
    assert_true(peer_is_quiet(&stage.peer));
    ticket = notify(channel, &alone, msg + 1);
    expect_notify(&stage.peer, msg + 1);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bound_to_a_write_it_goes_behind_the_last_slice, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_bound_to_a_read_it_waits_for_the_last_byte, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_failed_transfer_announces_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_credit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waiting_for_credit_it_can_be_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_long_for_the_peer, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
