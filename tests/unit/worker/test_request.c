/* The life of a request: it waits for its segment, moves, and is completed exactly once; what stops
 * it on the way, and what that says about bytes that may have landed. */
#include "tests/harness/test.h"

#include <string.h>
#include <sys/socket.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"
#include "worker/fabric/tcp/tcp.h"

static struct stage stage;
static struct job_channel *const channel = &stage.job.main;

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

static struct sqe move(uint8_t op, uint64_t length)
{
    return (struct sqe){.op = op,
                        .cookie = 0xc0ffee,
                        .length = length,
                        .local_region = JOB_HANDLE(0),
                        .remote_region = 5,
                        .remote = JOB_HANDLE(0)};
}

static void peer_result(uint32_t request, int status, uint64_t bytes)
{
    const struct frame result = {
        .type = FRAME_RESULT, .request = request, .status = (int16_t)status, .value = bytes};

    peer_send(&stage.peer, &result, NULL);
}

/* Nothing more comes, however long the worker turns. */
static void expect_nothing_more(void)
{
    struct cqe cqe;

    host_turns(4);
    assert_false(job_complete(channel, &cqe));
    assert_int_equal(host_stat(&stage.host.worker.stats->in_flight), 0);
}

static void test_a_write_ends_when_the_peer_says_so_and_only_once(void **state)
{
    const struct sqe sqe = move(SQE_WRITE, 100);
    struct cqe cqe;
    uint64_t ticket;
    uint32_t wire;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    memset(stage.bytes, 0xab, 100);
    ticket = job_submit(channel, &sqe, NULL);
    peer_expect(&stage.peer, FRAME_WRITE);
    assert_int_equal(stage.peer.frame.length, 100);
    assert_int_equal(stage.peer.frame.flags, FRAME_FLAG_LAST);
    assert_int_equal(stage.peer.frame.open, STAGE_OPEN(0));
    assert_int_equal(stage.peer.frame.region, 5);
    assert_memory_equal(stage.peer.payload, stage.bytes, 100);
    assert_true(peer_is_quiet(&stage.peer));
    assert_false(job_complete(channel, &cqe)); /* handed to the socket is not done */
    wire = stage.peer.frame.request;
    peer_result(wire, TS_OK, 100);
    cqe = job_completion(channel, ticket);
    assert_int_equal(cqe.status, TS_OK);
    assert_int_equal(cqe.bytes, 100);
    assert_int_equal(cqe.cookie, 0xc0ffee);
    assert_int_equal(cqe.op, SQE_WRITE);
    peer_result(wire, TS_OK, 100); /* late, or a lie: counted, not completed */
    expect_nothing_more();
    assert_int_equal(host_stat(&stage.host.worker.stats->stale_completions), 1);
    assert_int_equal(host_stat(&stage.host.worker.stats->writes), 1);
}

static void test_a_request_waits_for_its_segment(void **state)
{
    const struct sqe sqe = move(SQE_WRITE, 10);
    const struct remote *remote = stage_ask(&stage, 0, "there");
    uint64_t ticket = job_submit(channel, &sqe, NULL);

    (void)state;
    assert_true(peer_is_quiet(&stage.peer));
    assert_int_equal(job_request(channel, ticket)->state, REQUEST_WAITING);
    stage_allow(&stage, remote, 0);
    peer_expect(&stage.peer, FRAME_WRITE);
    assert_int_equal(job_request(channel, ticket)->state, REQUEST_MOVING);
    peer_result(stage.peer.frame.request, TS_ERR_DENIED, 0);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_DENIED);
}

/* Cancelled or too late before anything was sent: nothing is ever sent. */
static void test_stopped_while_it_waits(void **state)
{
    struct sqe sqe = move(SQE_WRITE, 10);
    const struct remote *remote = stage_ask(&stage, 0, "there");
    uint64_t ticket = job_submit(channel, &sqe, NULL);

    (void)state;
    job_cancel(channel, ticket);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_CANCELLED);
    sqe.deadline_ms = 5000;
    ticket = job_submit(channel, &sqe, NULL);
    host_turns(2);
    assert_non_null(job_request(channel, ticket));
    host_skip(&stage.host, 5001);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_TIMEOUT);
    stage_allow(&stage, remote, 0);
    assert_true(peer_is_quiet(&stage.peer));
    expect_nothing_more();
}

static void test_a_cancel_for_another_ticket_stops_nothing(void **state)
{
    const struct sqe sqe = move(SQE_READ, 10);
    const struct frame data = {.type = FRAME_DATA, .flags = FRAME_FLAG_LAST, .length = 10};
    struct frame answer = data;
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    ticket = job_submit(channel, &sqe, NULL);
    answer.request = peer_expect(&stage.peer, FRAME_READ)->request;
    job_cancel(channel, ticket + 1); /* the same slot, another life */
    assert_true(peer_is_quiet(&stage.peer));
    peer_send(&stage.peer, &answer, "0123456789");
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    assert_memory_equal(stage.bytes, "0123456789", 10);
}

/* The completion of a cancel says that no byte lands any more: it waits for the peer's word. */
static void test_cancel_in_the_middle(void **state)
{
    const struct sqe sqe = move(SQE_READ, 20);
    struct frame data = {.type = FRAME_DATA, .length = 10};
    struct cqe cqe;
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    ticket = job_submit(channel, &sqe, NULL);
    data.request = peer_expect(&stage.peer, FRAME_READ)->request;
    job_cancel(channel, ticket);
    assert_int_equal(peer_expect(&stage.peer, FRAME_CANCEL)->request, data.request);
    job_cancel(channel, ticket); /* twice is once */
    peer_send(&stage.peer, &data, "0123456789");
    assert_true(peer_is_quiet(&stage.peer));
    assert_false(job_complete(channel, &cqe));
    peer_result(data.request, TS_ERR_CANCELLED, 10);
    cqe = job_completion(channel, ticket);
    assert_int_equal(cqe.status, TS_ERR_CANCELLED);
    assert_int_equal(cqe.bytes, 10);
    assert_int_equal(host_stat(&stage.host.worker.stats->cancelled), 1);
}

static void test_a_cancel_that_comes_too_late_changes_nothing(void **state)
{
    const struct sqe sqe = move(SQE_READ, 10);
    struct frame data = {.type = FRAME_DATA, .flags = FRAME_FLAG_LAST, .length = 10};
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    ticket = job_submit(channel, &sqe, NULL);
    data.request = peer_expect(&stage.peer, FRAME_READ)->request;
    job_cancel(channel, ticket);
    peer_expect(&stage.peer, FRAME_CANCEL);
    peer_send(&stage.peer, &data, "0123456789"); /* was on its way */
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    expect_nothing_more();
}

/* A peer that does not confirm loses its link: then nothing can land either. */
static void test_deadline_in_the_middle(void **state)
{
    struct sqe sqe = move(SQE_READ, 10);
    struct cqe cqe;
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    sqe.deadline_ms = 5000;
    ticket = job_submit(channel, &sqe, NULL);
    peer_expect(&stage.peer, FRAME_READ);
    host_skip(&stage.host, 2500);
    assert_true(peer_is_quiet(&stage.peer));
    host_skip(&stage.host, 5001);
    peer_expect(&stage.peer, FRAME_CANCEL);
    assert_false(job_complete(channel, &cqe));
    assert_int_equal(stage.peer.endpoint->state, ENDPOINT_READY);
    host_skip(&stage.host, HOST_CONNECT_MS + 1);
    cqe = job_completion(channel, ticket);
    assert_int_equal(cqe.status, TS_ERR_TIMEOUT);
    assert_int_equal(stage.peer.endpoint->state, ENDPOINT_BACKOFF);
    assert_int_equal(host_stat(&stage.host.worker.stats->timed_out), 1);
}

/* The host's socket takes little and is full until the peer reads. */
static void narrow_the_link(void)
{
    const int little = 4096;

    assert_int_equal(setsockopt(tcp_of(stage.peer.endpoint->link)->source.fd, SOL_SOCKET, SO_SNDBUF,
                                &little, sizeof(little)),
                     0);
}

/* What was sent is uncertain; what was not goes over the next link. */
static void test_lost_link(void **state)
{
    static struct peer next;
    const struct sqe large = move(SQE_WRITE, STAGE_MEMORY), small = move(SQE_WRITE, 10);
    struct remote *remote = stage_open(&stage, 0, "there", 0);
    struct frame answer = {.type = FRAME_OPENED, .open = STAGE_OPEN(9)};
    uint64_t first, second;
    struct cqe cqe;

    (void)state;
    narrow_the_link();
    first = job_submit(channel, &large, NULL);
    host_until(tcp_of(stage.peer.endpoint->link)->blocked);
    second = job_submit(channel, &small, NULL);
    host_turns(2);
    assert_int_equal(job_request(channel, second)->state, REQUEST_MOVING);
    peer_leave(&stage.peer);
    cqe = job_completion(channel, first);
    assert_int_equal(cqe.status, TS_ERR_UNCERTAIN);
    assert_int_equal(cqe.bytes, 0); /* nobody knows */
    assert_int_equal(job_request(channel, second)->state, REQUEST_WAITING);
    assert_int_equal(remote->state, REMOTE_CONNECTING);
    peer_connect(&next, &stage.host);
    endpoint_hand_over(remote->endpoint, next.endpoint);
    peer_expect(&next, FRAME_OPEN);
    answer.request = remote->wire;
    peer_send(&next, &answer, NULL);
    assert_int_equal(peer_expect(&next, FRAME_WRITE)->length, 10);
    assert_int_equal(next.frame.open, STAGE_OPEN(9));
    answer = (struct frame){.type = FRAME_RESULT, .request = next.frame.request, .value = 10};
    peer_send(&next, &answer, NULL);
    assert_int_equal(job_completion(channel, second).status, TS_OK);
    expect_nothing_more(); /* the first is not tried again */
    peer_leave(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_write_ends_when_the_peer_says_so_and_only_once,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_request_waits_for_its_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stopped_while_it_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_cancel_for_another_ticket_stops_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_cancel_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_cancel_that_comes_too_late_changes_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_deadline_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_link, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
