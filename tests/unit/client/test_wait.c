/* Sleeping and being woken: by completions, by notifications, through the pollable descriptor. */
#include "tests/unit/client/fake_peer.h"

#include <signal.h>
#include <time.h>

#include "shm/clock.h"

static struct fake fake;
static struct tesup_session *session;
static struct tesup_channel *channel;
static struct fake_channel *worker;

static int setup(void **state)
{
    (void)state;
    fake_init(&fake);
    session = fake_attach(&fake);
    channel = tesup_channel_main(session);
    worker = &fake.channels[0];
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tesup_detach(session);
    fake_fini(&fake);
    return 0;
}

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
    pthread_t target;
};

static void *later_run(void *argument)
{
    const struct later *later = argument;

    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
    if (later->what == LATER_COMPLETE)
        fake_serve(worker, TS_OK);
    else if (later->what == LATER_DELIVER)
        fake_deliver(worker, NOTIFY_KIND_MESSAGE, "me", "a", "b", 0, TS_OK);
    else
        pthread_kill(later->target, SIGUSR1);
    return NULL;
}

static void later(struct later *what, pthread_t *thread)
{
    what->target = pthread_self();
    assert_int_equal(pthread_create(thread, NULL, later_run, what), 0);
}

static void test_completion_wakes(void **state)
{
    struct later what = {.what = LATER_COMPLETE};
    pthread_t thread;

    (void)state;
    submit_nop();
    later(&what, &thread);
    assert_int_equal(tesup_wait(channel, 5000), TESUP_OK);
    pthread_join(thread, NULL);
}

static void test_notification_wakes(void **state)
{
    struct later what = {.what = LATER_DELIVER};
    pthread_t thread;

    (void)state;
    later(&what, &thread);
    assert_int_equal(tesup_wait(channel, -1), TESUP_OK);
    pthread_join(thread, NULL);
    assert_false(readable(worker->job_bell.fd)); /* drained */
}

static void on_signal(int number)
{
    (void)number;
}

static void test_signal_does_not_end_the_wait(void **state)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct later what = {.what = LATER_SIGNAL};
    uint64_t begun = clock_now();
    pthread_t thread;

    (void)state;
    sigaction(SIGUSR1, &action, NULL);
    later(&what, &thread);
    assert_int_equal(tesup_wait(channel, 80), TESUP_ERR_TIMEOUT);
    assert_true(clock_now() - begun >= 80 * CLOCK_NS_PER_MS);
    pthread_join(thread, NULL);
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
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_timeout),
        TEST(test_work_is_seen_at_once),
        TEST(test_completion_wakes),
        TEST(test_notification_wakes),
        TEST(test_signal_does_not_end_the_wait),
        TEST(test_descriptor_tells),
        TEST(test_lost_supervisor_is_noticed_by_polling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
