/* Sleeping and being woken: by completions, by notifications, through the pollable descriptor. */
#include "tests/unit/client/attached_fixture.h"

#include <signal.h>

#include "shm/clock.h"
#include "tests/harness/wait.h"

static void submit_nop(void)
{
    struct tesup_request request = {.op = TESUP_OP_NOP};
    uint32_t accepted;

    assert_int_equal(tesup_submit(channel, &request, 1, NULL, &accepted), TESUP_OK);
}

static bool readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    return poll(&wait, 1, 0) == 1;
}

static void test_timeout(void **state)
{
    uint64_t begun = clock_now();

    (void)state;
    assert_int_equal(tesup_wait(channel, 0), TESUP_ERR_TIMEOUT);
    assert_int_equal(tesup_wait(channel, 30), TESUP_ERR_TIMEOUT);
    assert_true(clock_now() - begun >= 30 * CLOCK_NS_PER_MS);
    assert_int_equal(worker->job_bell.word->armed, 0); /* nobody sleeps any more */
}

static void test_work_is_seen_at_once(void **state)
{
    struct tesup_completion completion;

    (void)state;
    submit_nop();
    fake_serve(worker, TS_OK);
    assert_int_equal(tesup_wait(channel, -1), TESUP_OK);
    assert_int_equal(tesup_poll(channel, &completion, 1), 1);
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "me", "a", "b", 0, TS_OK);
    assert_int_equal(tesup_wait(channel, -1), TESUP_OK);
}

struct later {
    enum { LATER_COMPLETE, LATER_DELIVER, LATER_SIGNAL } what;
    pthread_t thread, target;
    _Atomic uint64_t signals_end;
};

/* Acts when the target is about to sleep; asserts are for the target's thread only. */
static void *later_run(void *argument)
{
    struct later *later = argument;
    uint64_t until = wait_now_ms() + WAIT_MS;
    bool armed;

    while (!(armed = worker->job_bell.word->armed != 0) && wait_now_ms() < until)
        wait_sleep_ms(1);
    if (later->what == LATER_COMPLETE)
        fake_serve(worker, TS_OK);
    else if (later->what == LATER_DELIVER)
        fake_deliver(worker, NOTIFY_KIND_MESSAGE, "me", "a", "b", 0, TS_OK);
    else
        while (atomic_peek(&later->signals_end) == 0 && wait_now_ms() < until) {
            pthread_kill(later->target, SIGUSR1);
            wait_sleep_ms(1);
        }
    return armed ? later : NULL;
}

static void later_begin(struct later *later)
{
    later->target = pthread_self();
    assert_int_equal(pthread_create(&later->thread, NULL, later_run, later), 0);
}

static void later_end(struct later *later)
{
    void *armed;

    pthread_join(later->thread, &armed);
    assert_non_null(armed);
}

static void test_completion_wakes(void **state)
{
    struct later later = {.what = LATER_COMPLETE};

    (void)state;
    submit_nop();
    later_begin(&later);
    assert_int_equal(tesup_wait(channel, 5000), TESUP_OK);
    later_end(&later);
}

static void test_notification_wakes(void **state)
{
    struct later later = {.what = LATER_DELIVER};

    (void)state;
    later_begin(&later);
    assert_int_equal(tesup_wait(channel, -1), TESUP_OK);
    later_end(&later);
}

/* The bell is read when there is nothing left to do, not on the way of what it announced. */
static void test_old_bell_wakes_nobody(void **state)
{
    struct later later = {.what = LATER_DELIVER};
    struct tesup_notification notification;
    uint64_t begun;

    (void)state;
    later_begin(&later);
    assert_int_equal(tesup_wait(channel, -1), TESUP_OK);
    later_end(&later);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    begun = clock_now();
    assert_int_equal(tesup_wait(channel, 30), TESUP_ERR_TIMEOUT);
    assert_true(clock_now() - begun >= 30 * CLOCK_NS_PER_MS);
    assert_false(readable(worker->job_bell.fd));
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

static void test_signal_does_not_end_the_wait(void **state)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct later later = {.what = LATER_SIGNAL};
    uint64_t begun = clock_now();

    (void)state;
    sigaction(SIGUSR1, &action, NULL);
    later_begin(&later);
    assert_int_equal(tesup_wait(channel, 80), TESUP_ERR_TIMEOUT);
    assert_true(clock_now() - begun >= 80 * CLOCK_NS_PER_MS);
    atomic_set(&later.signals_end, 1);
    later_end(&later);
    assert_true(signals > 0);
}

static void test_descriptor_tells(void **state)
{
    struct tesup_completion completion;
    int fd = tesup_fd(channel);

    (void)state;
    assert_true(fd >= 0);
    submit_nop();
    assert_int_equal(tesup_arm(channel), TESUP_OK);
    assert_false(readable(fd));
    fake_serve(worker, TS_OK);
    assert_true(readable(fd));
    assert_int_equal(tesup_arm(channel), TESUP_AGAIN); /* there is something: do not sleep */
    assert_int_equal(tesup_poll(channel, &completion, 1), 1);
    assert_int_equal(tesup_arm(channel), TESUP_OK);
    assert_false(readable(fd));
}

/* The idle case of busy polling: the supervisor is looked at now and then, not at each poll. */
static void test_lost_supervisor_is_noticed_by_polling(void **state)
{
    struct tesup_completion completion;
    uint64_t deadline = clock_now() + 3 * CLOCK_NS_PER_S;
    int rc = 0;

    (void)state;
    assert_int_equal(tesup_poll(channel, &completion, 1), 0);
    fake_stop(&fake);
    while (rc == 0 && clock_now() < deadline)
        rc = tesup_poll(channel, &completion, 1);
    assert_int_equal(rc, TESUP_ERR_GONE);
    assert_sentence(fake.path);
    fake_start(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED_TEST(test_timeout),
        ATTACHED_TEST(test_work_is_seen_at_once),
        ATTACHED_TEST(test_completion_wakes),
        ATTACHED_TEST(test_notification_wakes),
        ATTACHED_TEST(test_old_bell_wakes_nobody),
        ATTACHED_TEST(test_signal_does_not_end_the_wait),
        ATTACHED_TEST(test_descriptor_tells),
        ATTACHED_TEST(test_lost_supervisor_is_noticed_by_polling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
