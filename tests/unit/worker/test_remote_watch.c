/* A segment that ends while it is open: who waits is told, who watches gets one event. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"

static struct stage stage;
static struct remote *remote;

static int setup(void **state)
{
    (void)state;
    stage_begin(&stage);
    remote = stage_open(&stage, 0, "there", 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

static void peer_says_gone(void)
{
    const struct frame gone = {.type = FRAME_GONE, .request = remote->wire};

    peer_send(&stage.peer, &gone, NULL);
    host_turns(2);
}

static void watch(void)
{
    assert_int_equal(remote_watch(stage.job.session, JOB_HANDLE(0)), TS_OK);
}

static void expect_event(int status)
{
    struct job_mail mail;

    host_until(job_mail(&stage.job, &mail));
    assert_int_equal(mail.record.kind, NOTIFY_KIND_EVENT);
    assert_int_equal(mail.record.status, status);
    assert_int_equal(mail.record.remote, JOB_HANDLE(0));
    assert_string_equal(mail.from, "127.0.0.1:1/there");
}

static void expect_no_event(void)
{
    struct job_mail mail;

    host_turns(4);
    assert_false(job_mail(&stage.job, &mail));
}

static void test_gone_fires_once(void **state)
{
    (void)state;
    watch();
    expect_no_event();
    peer_says_gone();
    expect_event(TS_ERR_GONE);
    peer_says_gone();
    expect_no_event();
}

static void test_nobody_watches(void **state)
{
    (void)state;
    peer_says_gone();
    expect_no_event();
    assert_int_equal(remote->state, REMOTE_GONE);
}

/* Whoever watches too late is told at once, each time. */
static void test_watch_what_is_gone(void **state)
{
    (void)state;
    peer_says_gone();
    watch();
    watch(); /* the event is on its way already */
    expect_event(TS_ERR_GONE);
    expect_no_event();
    watch();
    expect_event(TS_ERR_GONE);
}

static void test_unknown(void **state)
{
    (void)state;
    assert_int_equal(remote_watch(stage.job.session, JOB_HANDLE(3)), TS_ERR_NOT_FOUND);
}

/* A lost connection is an event, too; should the segment come back, it is watched no more. */
static void test_lost_link(void **state)
{
    static struct peer next;
    struct frame opened = {.type = FRAME_OPENED, .open = STAGE_OPEN(0)};

    (void)state;
    watch();
    peer_leave(&stage.peer);
    expect_event(TS_ERR_UNREACHABLE);
    assert_int_equal(remote->state, REMOTE_CONNECTING);
    peer_connect(&next, &stage.host);
    endpoint_hand_over(remote->endpoint, next.endpoint);
    peer_expect(&next, FRAME_OPEN);
    opened.request = remote->wire;
    peer_send(&next, &opened, NULL);
    assert_int_equal(remote->state, REMOTE_OPEN);
    peer_leave(&next);
    host_until(remote->state == REMOTE_CONNECTING);
    expect_no_event();
}

/* The event waits for room like a notification, and is not lost. */
static void test_event_waits_for_room(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    /* No larger than the event: when the mailbox has no room for these, it has none for it. */
    const struct frame notify = {.type = FRAME_NOTIFY, .open = sender.open};
    struct job_mail mail;
    unsigned messages = 0;

    (void)state;
    while (host_stat(&stage.host.worker.stats->notify_parked) == 0)
        peer_send(&stage.peer, &notify, NULL);
    watch();
    peer_says_gone();
    assert_false(list_empty(&stage.job.session->events));
    for (;;) {
        host_until(job_mail(&stage.job, &mail));
        if (mail.record.kind == NOTIFY_KIND_EVENT)
            break;
        messages++;
    }
    assert_true(messages > 0);
    assert_true(list_empty(&stage.job.session->events));
    host_turns(4);
    while (job_mail(&stage.job, &mail)) {
        assert_int_equal(mail.record.kind, NOTIFY_KIND_MESSAGE);
        host_turns(1);
    }
}

/* What is on its way ends by itself, and takes along what waited behind it. */
static void test_who_waits_is_told(void **state)
{
    const struct sqe sqe = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};
    const struct sqe read = {.op = SQE_READ,
                             .length = 10,
                             .local_region = JOB_HANDLE(0),
                             .remote_region = 5,
                             .remote = JOB_HANDLE(0)};
    const struct job_note note = {.msg = "m", .msg_len = 1};
    struct frame data = {.type = FRAME_DATA, .flags = FRAME_FLAG_LAST, .length = 10};
    struct job_channel other;
    uint64_t moving, behind, elsewhere;

    (void)state;
    job_channel_add(&stage.job, 1, &other);
    moving = job_submit(&stage.job.main, &read, &note);
    behind = job_submit(&stage.job.main, &sqe, &note);
    elsewhere = job_submit(&other, &sqe, &note);
    data.request = peer_expect(&stage.peer, FRAME_READ)->request;
    peer_says_gone();
    assert_int_equal(job_completion(&other, elsewhere).status, TS_ERR_GONE);
    assert_true(peer_is_quiet(&stage.peer)); /* no reason to cancel */
    assert_non_null(job_request(&stage.job.main, moving));
    peer_send(&stage.peer, &data, "0123456789");
    assert_int_equal(job_completion(&stage.job.main, moving).status, TS_ERR_GONE);
    assert_int_equal(job_completion(&stage.job.main, behind).status, TS_ERR_GONE);
    job_channel_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gone_fires_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_watches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watch_what_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_link, setup, teardown),
        cmocka_unit_test_setup_teardown(test_event_waits_for_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_is_told, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
