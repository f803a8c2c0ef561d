/* Senders that open a segment of ours: who may, what arrives, and handles that are stale or made
 * up.
 */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"
#include "worker/inbound.h"

#define LENGTH 1000u /* of a notification's message */

static struct stage stage;
static struct host *const host = &stage.host;

static int setup(void **state)
{
    (void)state;
    stage_begin(&stage);
    return 0;
}

static int setup_shared(void **state)
{
    const struct job_shape shape = {
        .handle = 1, .segment = STAGE_SEGMENT, .flags = PROTO_SHARE_ALL};

    (void)state;
    stage_begin_with(&stage, &shape);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

/* The peer asks; what OPENED says. */
static const struct frame *ask(const char *segment, uint32_t uid)
{
    const struct frame open = {
        .type = FRAME_OPEN, .request = 3, .length = sizeof(struct frame_open)};
    struct frame_open body = {.uid = uid, .sender = "127.0.0.1:1/sender"};

    snprintf(body.segment, sizeof(body.segment), "%s", segment);
    peer_send(&stage.peer, &open, &body);
    return peer_expect(&stage.peer, FRAME_OPENED);
}

/* Message number `number` of a sender. */
static void notify(const struct stage_sender *sender, uint32_t number)
{
    const struct frame frame = {.type = FRAME_NOTIFY, .open = sender->open, .length = LENGTH};
    uint8_t payload[LENGTH] = {0};

    memcpy(payload, &number, sizeof(number));
    peer_send(&stage.peer, &frame, payload);
}

static uint32_t number_of(const struct job_mail *mail)
{
    uint32_t number;

    assert_int_equal(mail->record.kind, NOTIFY_KIND_MESSAGE);
    assert_int_equal(mail->record.msg_len, LENGTH);
    memcpy(&number, mail->msg, sizeof(number));
    return number;
}

static void expect_hung_up(void)
{
    host_until(host_stat(&host->worker.stats->peer_protocol) == 1);
    host_until(host->worker.endpoint_count == 1);
}

static void test_who_may_open(void **state)
{
    (void)state;
    assert_int_equal(ask(STAGE_SEGMENT, JOB_UID)->status, TS_OK);
    assert_int_equal(stage.peer.frame.request, 3);
    assert_true(stage.peer.frame.value >= notify_cost(HOST_NOTIFY_MAX, 0));
    assert_int_equal(ask(STAGE_SEGMENT, 0)->status, TS_OK); /* root */
    assert_int_equal(ask(STAGE_SEGMENT, JOB_UID + 1)->status, TS_ERR_DENIED);
    assert_int_equal(stage.peer.frame.open, 0);
    stage.peer.payload[stage.peer.frame.length] = '\0';
    assert_non_null(strstr((char *)stage.peer.payload, "not shared with uid 1001"));
    assert_int_equal(ask("elsewhere", JOB_UID)->status, TS_ERR_NOT_FOUND);
    assert_int_equal(host_stat(&host->worker.stats->peer_protocol), 0);
}

static void test_shared_with_all(void **state)
{
    (void)state;
    assert_int_equal(ask(STAGE_SEGMENT, JOB_UID + 1)->status, TS_OK);
}

/* Names without an end would be read beyond it. */
static void forge_open(bool segment, bool sender)
{
    const struct frame open = {.type = FRAME_OPEN, .length = sizeof(struct frame_open)};
    struct frame_open body = {.segment = STAGE_SEGMENT, .sender = "127.0.0.1:1/sender"};

    if (segment)
        memset(body.segment, 'x', sizeof(body.segment));
    if (sender)
        memset(body.sender, 'x', sizeof(body.sender));
    peer_send(&stage.peer, &open, &body);
    expect_hung_up();
}

static void test_forged_segment(void **state)
{
    (void)state;
    forge_open(true, false);
}

static void test_forged_sender(void **state)
{
    (void)state;
    forge_open(false, true);
}

static void test_arrives(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const struct frame frame = {
        .type = FRAME_NOTIFY, .open = sender.open, .length = 9, .region = 4};
    struct job_mail mail;

    (void)state;
    peer_send(&stage.peer, &frame, "namehello");
    host_until(job_mail(&stage.job, &mail));
    assert_int_equal(mail.record.kind, NOTIFY_KIND_MESSAGE);
    assert_string_equal(mail.from, "127.0.0.1:1/sender1");
    assert_int_equal(mail.record.name_len, 4);
    assert_memory_equal(mail.name, "name", 4);
    assert_int_equal(mail.record.msg_len, 5);
    assert_memory_equal(mail.msg, "hello", 5);
}

/* A handle of an earlier opening is late, one that was never given out is a lie. */
static void test_stale_and_unknown_senders(void **state)
{
    struct stage_sender old = stage_sender(&stage, 1, JOB_UID);
    const struct stage_sender sender = stage_sender(&stage, 2, JOB_UID);
    const struct frame close = {.type = FRAME_CLOSE, .open = old.open};
    struct job_mail mail;

    (void)state;
    peer_send(&stage.peer, &close, NULL);
    notify(&old, 1);
    notify(&sender, 2);
    host_until(job_mail(&stage.job, &mail));
    assert_int_equal(number_of(&mail), 2);
    old.open = sender.open + 1;
    notify(&old, 3);
    expect_hung_up();
}

static void test_the_job_ends(void **state)
{
    const struct job_shape again = {.handle = 2, .segment = STAGE_SEGMENT};
    const struct stage_sender sender = stage_sender(&stage, 5, JOB_UID);
    const struct frame read = {
        .type = FRAME_READ, .open = sender.open, .region = JOB_HANDLE(0), .value = 8};
    struct job_mail mail;

    (void)state;
    job_detach(&stage.job);
    assert_int_equal(peer_expect(&stage.peer, FRAME_GONE)->request, 5);
    job_attach(&stage.job, host, &again); /* the same name and handles, another job */
    job_memory(&stage.job, 0, 4096, REGION_ACCESS_MASK);
    notify(&sender, 1);
    peer_send(&stage.peer, &read, NULL);
    assert_int_equal(peer_expect(&stage.peer, FRAME_RESULT)->status, TS_ERR_GONE);
    assert_false(job_mail(&stage.job, &mail));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_may_open, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_with_all, setup_shared, teardown),
        cmocka_unit_test_setup_teardown(test_forged_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged_sender, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale_and_unknown_senders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_job_ends, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
