/* How much senders may send, and where it goes when the job does not read: parked, in order, within
 * the credit that was given. */
#include "tests/harness/test.h"

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

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
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

static uint64_t parked(void)
{
    return host_stat(&host->worker.stats->notify_parked);
}

static void expect_hung_up(void)
{
    host_until(host_stat(&host->worker.stats->peer_protocol) == 1);
    host_until(host->worker.endpoint_count == 1);
}

/* Credit goes back in quarters of the window, as the mailbox takes the notifications. */
static void test_credit_comes_back(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 6, JOB_UID);
    const uint64_t cost = notify_cost(LENGTH, 0);
    const uint32_t quarter = (uint32_t)((sender.credit / 4 + cost - 1) / cost);
    struct job_mail mail;

    (void)state;
    for (uint32_t i = 1; i < quarter; i++) {
        notify(&sender, i);
        host_until(job_mail(&stage.job, &mail));
    }
    assert_true(peer_is_quiet(&stage.peer));
    notify(&sender, quarter);
    assert_int_equal(peer_expect(&stage.peer, FRAME_CREDIT)->request, 6);
    assert_int_equal(stage.peer.frame.value, quarter * cost);
    for (uint32_t i = 0; i < 5 * quarter; i++) { /* more than the window in all */
        notify(&sender, i);
        host_until(job_mail(&stage.job, &mail));
    }
    assert_int_equal(host_stat(&host->worker.stats->peer_protocol), 0);
}

/* The sender may use what it was given and what came back, and not a byte more. */
static void test_more_than_credit(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const uint64_t cost = notify_cost(LENGTH, 0);
    uint64_t credit = sender.credit;
    struct job_mail mail;
    uint32_t sent = 0;

    (void)state;
    for (; credit >= cost; credit -= cost) {
        notify(&sender, sent++);
        while (peer_take(&stage.peer))
            credit += stage.peer.frame.value;
    }
    assert_true(parked() > 0);
    assert_int_equal(host_stat(&host->worker.stats->peer_protocol), 0);
    notify(&sender, sent);
    expect_hung_up();
    for (uint32_t i = 0; i < sent; i++) { /* what came before is delivered all the same */
        host_until(job_mail(&stage.job, &mail));
        assert_int_equal(number_of(&mail), i);
    }
    assert_int_equal(parked(), 0);
    assert_true(list_empty(&stage.job.session->inbound));
    assert_int_equal(stage.job.session->notify_budget, 0);
}

static void test_what_would_fit_does_not_overtake(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const struct frame small = {.type = FRAME_NOTIFY, .open = sender.open};
    struct job_mail mail;
    uint32_t sent = 0;

    (void)state;
    while (parked() == 0)
        notify(&sender, sent++);
    peer_send(&stage.peer, &small, NULL);
    assert_int_equal(parked(), 2);
    for (uint32_t i = 0; i < sent; i++) {
        host_until(job_mail(&stage.job, &mail));
        assert_int_equal(number_of(&mail), i);
    }
    host_until(job_mail(&stage.job, &mail));
    assert_int_equal(mail.record.msg_len, 0);
}

/* Senders take turns at a mailbox that has room again, and each one's order stays. */
static void test_parked_senders_take_turns(void **state)
{
    const struct stage_sender first = stage_sender(&stage, 1, JOB_UID);
    const struct stage_sender second = stage_sender(&stage, 2, JOB_UID);
    struct job_mail mail;
    uint32_t sent = 0, next[2] = {0, 0}, switches = 0, last = 0;

    (void)state;
    while (parked() < 4)
        notify(&first, sent++);
    for (uint32_t i = 0; i < 4; i++)
        notify(&second, i);
    assert_int_equal(parked(), 8);
    for (uint32_t i = 0; i < sent + 4; i++) {
        host_until(job_mail(&stage.job, &mail));
        uint32_t who = strcmp(mail.from, "127.0.0.1:1/sender2") == 0;

        assert_int_equal(number_of(&mail), next[who]++);
        switches += who != last;
        last = who;
    }
    assert_int_equal(next[0], sent);
    assert_int_equal(next[1], 4);
    assert_true(switches >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_credit_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_than_credit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_would_fit_does_not_overtake, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parked_senders_take_turns, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
