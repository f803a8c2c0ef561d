/* Opened segments, from the side of the one who opened: yes, no and silence; how one closes, and
 * what a move to another connection means. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"

static struct stage stage;
static struct job_channel *const channel = &stage.job.main;
static const struct sqe write_there = {.op = SQE_WRITE,
                                       .length = 10,
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

static const struct host_answer *answer(uint32_t id)
{
    host_until(host_answer(&stage.host, id) != NULL);
    return host_answer(&stage.host, id);
}

static struct remote *remote_of(uint32_t index)
{
    void *object = NULL;

    (void)table_get(&stage.job.session->remotes, JOB_HANDLE(index), &object);
    return object;
}

/* The peer's no, with its reason. */
static void refuse(uint32_t wire, int status, const char *text)
{
    const struct frame opened = {.type = FRAME_OPENED,
                                 .request = wire,
                                 .status = (int16_t)status,
                                 .length = (uint32_t)strlen(text)};

    peer_send(&stage.peer, &opened, text);
}

static int open_named(uint32_t index, const char *name, char text[PROTO_TEXT_MAX])
{
    struct proto_remote ask = {.handle = JOB_HANDLE(index), .timeout_ms = 5000};

    memcpy(ask.name, name, strlen(name) + 1);
    return remote_add(stage.job.session, &ask, 100 + index, text, PROTO_TEXT_MAX);
}

static void test_open(void **state)
{
    struct remote *remote = job_open(&stage.job, 0, stage.peer.endpoint, "there", 100);
    struct frame_open ask;

    (void)state;
    peer_expect(&stage.peer, FRAME_OPEN);
    memcpy(&ask, stage.peer.payload, sizeof(ask));
    assert_string_equal(ask.segment, "there");
    assert_string_equal(ask.sender, "127.0.0.1:1/" STAGE_SEGMENT);
    assert_int_equal(ask.uid, JOB_UID);
    host_turns(2);
    assert_null(host_answer(&stage.host, 100)); /* asked is not opened */
    stage_allow(&stage, remote, 1234);
    assert_int_equal(answer(100)->status, TS_OK);
    assert_int_equal(answer(100)->handle, JOB_HANDLE(0));
    assert_int_equal(remote->credit, 1234);
    host_skip(&stage.host, JOB_OPEN_MS + 1); /* the deadline of an open is no longer of interest */
    assert_int_equal(remote->state, REMOTE_OPEN);
}

/* The supervisor forgets the handle of a failed open: nothing of it may stay here. */
static void test_refused(void **state)
{
    const struct remote *remote = stage_ask(&stage, 0, "there");

    (void)state;
    stage_sender(&stage, 1, JOB_UID); /* keeps the connection */
    refuse(remote->wire, TS_ERR_DENIED, "not for uid 1000");
    assert_int_equal(answer(100)->status, TS_ERR_DENIED);
    assert_string_equal(answer(100)->text, "not for uid 1000");
    assert_null(remote_of(0));
    stage_open(&stage, 0, "there", 0); /* the handle can be given again */
}

/* Asked over a connection that was made for another segment, "no such segment" means only that this
 * worker does not have it: the host is asked. */
static void test_not_found_by_this_worker(void **state)
{
    struct remote *remote = stage_ask(&stage, 0, "there");

    (void)state;
    remote->own_attempt = false;
    refuse(remote->wire, TS_ERR_NOT_FOUND, "no such segment");
    host_turns(1);
    assert_null(host_answer(&stage.host, 100));
    assert_ptr_not_equal(remote->endpoint, stage.peer.endpoint);
    assert_string_equal(remote->endpoint->asked, "there");
    assert_true(remote->own_attempt); /* the next no is final */
}

/* Its own handshake asked for the segment and led here: there is nobody else to ask. */
static void test_not_found_at_all(void **state)
{
    const struct remote *remote = stage_ask(&stage, 0, "there");

    (void)state;
    refuse(remote->wire, TS_ERR_NOT_FOUND, "no such segment");
    assert_int_equal(answer(100)->status, TS_ERR_NOT_FOUND);
    assert_string_equal(answer(100)->text, "no such segment");
    assert_null(remote_of(0));
}

static void test_silence(void **state)
{
    const struct remote *remote = stage_ask(&stage, 0, "there");
    uint32_t wire = remote->wire;
    const struct frame late = {.type = FRAME_OPENED, .request = wire, .open = 9};

    (void)state;
    host_skip(&stage.host, JOB_OPEN_MS / 2);
    assert_non_null(remote_of(0));
    host_skip(&stage.host, JOB_OPEN_MS + 1);
    assert_int_equal(answer(100)->status, TS_ERR_TIMEOUT);
    assert_null(remote_of(0));
    peer_send(&stage.peer, &late, NULL); /* too late, and no reason to hang up */
    assert_int_equal(host_stat(&stage.host.worker.stats->peer_protocol), 0);
    assert_int_equal(host_stat(&stage.host.worker.stats->stale_completions), 1);
}

static void test_bad_opens(void **state)
{
    char text[PROTO_TEXT_MAX] = "";

    (void)state;
    assert_int_equal(open_named(1, "127.0.0.1:1", text), TS_ERR_INVALID);
    assert_string_not_equal(text, "");
    assert_int_equal(open_named(1, "/segment", text), TS_ERR_INVALID);
    stage_open(&stage, 0, "there", 0);
    assert_int_equal(open_named(0, "127.0.0.1:1/there", text), TS_ERR_EXISTS);
    assert_int_equal(remote_of(0)->state, REMOTE_OPEN);
    stage.host.worker.config.endpoint_max = stage.host.worker.endpoint_count;
    assert_int_equal(open_named(1, "127.0.0.1:1/there", text), TS_ERR_LIMIT);
    assert_non_null(strstr(text, "endpoint_max"));
    assert_null(remote_of(1));
    host_skip(&stage.host, JOB_OPEN_MS + 1); /* no timer of the failed one may fire */
}

/* A segment that something is on its way to stays. */
static void test_close(void **state)
{
    struct session *session = stage.job.session;
    struct frame result = {.type = FRAME_RESULT, .value = 10};
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 0);
    ticket = job_submit(channel, &write_there, NULL);
    result.request = peer_expect(&stage.peer, FRAME_WRITE)->request;
    assert_int_equal(remote_close(session, JOB_HANDLE(0)), TS_AGAIN);
    assert_true(peer_is_quiet(&stage.peer));
    peer_send(&stage.peer, &result, NULL);
    job_completion(channel, ticket);
    stage_sender(&stage, 1, JOB_UID); /* keeps the connection */
    assert_int_equal(remote_close(session, JOB_HANDLE(0)), TS_OK);
    assert_int_equal(peer_expect(&stage.peer, FRAME_CLOSE)->open, STAGE_OPEN(0));
    assert_int_equal(remote_close(session, JOB_HANDLE(0)), TS_ERR_GONE);
    assert_int_equal(remote_close(session, JOB_HANDLE(1)), TS_ERR_NOT_FOUND);
    assert_true(peer_is_quiet(&stage.peer));
}

/* The last one who needs the connection says BYE. */
static void test_nobody_needs_the_connection(void **state)
{
    const struct frame bye = {.type = FRAME_BYE};

    (void)state;
    stage_open(&stage, 0, "there", 0);
    assert_int_equal(remote_close(stage.job.session, JOB_HANDLE(0)), TS_OK);
    peer_expect(&stage.peer, FRAME_CLOSE);
    host_skip(&stage.host, 20000); /* it may be kept a little for whoever comes next */
    peer_expect(&stage.peer, FRAME_BYE);
    assert_int_equal(stage.host.worker.endpoint_count, 2); /* not before the peer said it, too */
    peer_send(&stage.peer, &bye, NULL);
    host_until(stage.host.worker.endpoint_count == 1);
}

/* Another connection to the same worker is kept: what moves stays where it is, all else follows. */
static void test_hand_over(void **state)
{
    static struct peer next;
    struct remote *remote = stage_open(&stage, 0, "there", 0);
    struct endpoint *old = stage.peer.endpoint;
    struct frame answers = {.type = FRAME_RESULT, .value = 10};
    uint64_t first, second;

    (void)state;
    first = job_submit(channel, &write_there, NULL);
    answers.request = peer_expect(&stage.peer, FRAME_WRITE)->request;
    peer_connect(&next, &stage.host);
    endpoint_handle(old, ENDPOINT_EVENT_DUPLICATE, TS_OK, "another is kept");
    assert_ptr_equal(remote->endpoint, next.endpoint);
    assert_int_equal(old->state, ENDPOINT_DRAINING);
    second = job_submit(channel, &write_there, NULL);
    assert_true(peer_is_quiet(&stage.peer)); /* no BYE while a transfer is on its way */
    peer_expect(&next, FRAME_OPEN);
    assert_true(peer_is_quiet(&next)); /* the second waits: it is not open here yet */
    peer_send(&stage.peer, &answers, NULL);
    assert_int_equal(job_completion(channel, first).status, TS_OK);
    answers = (struct frame){.type = FRAME_OPENED, .request = remote->wire, .open = 77};
    peer_send(&next, &answers, NULL);
    assert_int_equal(peer_expect(&next, FRAME_WRITE)->open, 77);
    answers = (struct frame){.type = FRAME_RESULT, .request = next.frame.request, .value = 10};
    peer_send(&next, &answers, NULL);
    assert_int_equal(job_completion(channel, second).status, TS_OK);
    peer_leave(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_found_by_this_worker, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_found_at_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_opens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_needs_the_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hand_over, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
