/* The supervisor dies and a successor comes: nothing is answered twice, nothing is forgotten. */
#include "client/internal.h"

#include "tests/unit/client/attached_fixture.h"

#include "shm/clock.h"
#include "tests/harness/wait.h"

static struct fake_channel *newest(void)
{
    return &fake.channels[fake.channel_count - 1];
}

static int submit(struct tesup_channel *where, const struct tesup_request *request)
{
    uint32_t accepted;

    return tesup_submit(where, request, 1, NULL, &accepted);
}

static void test_in_flight_becomes_uncertain_once(void **state)
{
    struct tesup_request requests[4] = {{.cookie = 1}, {.cookie = 2}, {.cookie = 4}, {.cookie = 8}};
    struct tesup_completion completions[8];
    uint64_t cookies = 0, begun;
    uint32_t accepted;

    (void)state;
    assert_int_equal(tesup_submit(channel, requests, 4, NULL, &accepted), TESUP_OK);
    fake_serve(&fake.channels[0], TS_OK); /* answered before, read after the death */
    fake_stop(&fake);
    begun = clock_now();
    assert_int_equal(tesup_wait(channel, 5000), TESUP_OK);
    assert_int_equal(tesup_poll(channel, completions, 8), 1);
    assert_int_equal(completions[0].cookie, 1);
    assert_int_equal(completions[0].status, TESUP_OK);
    while (cookies != 14) { /* its worker had a moment to answer; then we answer ourselves */
        int count;

        assert_int_equal(tesup_wait(channel, 5000), TESUP_OK);
        count = tesup_poll(channel, completions, 2);
        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            assert_int_equal(completions[i].status, TESUP_ERR_UNCERTAIN);
            assert_int_equal(completions[i].bytes, 0);
            cookies += completions[i].cookie;
        }
    }
    assert_true(clock_now() - begun < 3 * CLOCK_NS_PER_S);
    assert_int_equal(tesup_wait(channel, 5000), TESUP_ERR_GONE);
    assert_sentence("tesup serve");
    assert_int_equal(tesup_poll(channel, completions, 8), TESUP_ERR_GONE);
    assert_int_equal(submit(channel, &requests[0]), TESUP_ERR_NO_DAEMON);
    assert_sentence(fake.path);
    fake_start(&fake);
}

/* The leaving worker may still finish: then its answer counts. */
static void test_leaving_worker_still_answers(void **state)
{
    struct tesup_request request = {.cookie = 5};
    struct tesup_completion completion;

    (void)state;
    assert_int_equal(submit(channel, &request), TESUP_OK);
    fake_stop(&fake);
    assert_int_equal(tesup_wait(channel, 50), TESUP_ERR_TIMEOUT);
    assert_int_equal(submit(channel, &request), TESUP_AGAIN);
    fake_serve(&fake.channels[0], TS_OK);
    assert_int_equal(tesup_wait(channel, 1000), TESUP_OK);
    assert_int_equal(tesup_poll(channel, &completion, 1), 1);
    assert_int_equal(completion.status, TESUP_OK);
    fake_start(&fake);
}

static void come_back(void)
{
    struct wait wait = wait_begin("the successor takes the session", WAIT_MS);

    while (tesup_wait(channel, 0) == TESUP_ERR_GONE)
        wait_step(&wait);
}

static void restart(void)
{
    fake_stop(&fake);
    assert_int_equal(tesup_wait(channel, 1000), TESUP_ERR_GONE);
    fake_start(&fake);
}

static void test_successor_gets_everything_again(void **state)
{
    static uint8_t memory[64];
    struct tesup_request request = {.op = TESUP_OP_WRITE, .remote_region = 9, .length = 1};
    struct tesup_completion completion;
    struct tesup_channel *second;
    tesup_region_t gone, shared, private;
    tesup_remote_t remote;
    const char *name = tesup_segment_name(session);
    void *address;
    struct sqe sqe;

    (void)state;
    assert_int_equal(tesup_channel_open(session, &second), TESUP_OK);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &gone), TESUP_OK);
    assert_int_equal(tesup_mem_alloc(session, 8192, 1, &address, &shared), TESUP_OK);
    assert_int_equal(tesup_mem_register(session, memory, 64, 2, &private), TESUP_OK);
    assert_int_equal(tesup_segment_open(session, "h:1/kv", &remote), TESUP_OK);
    assert_int_equal(tesup_mem_free(session, gone), TESUP_OK);
    fake_stop(&fake);
    fake_set(next_handle, 3u << 14); /* the successor counts from elsewhere */
    fake_set(name, "127.0.0.1:7500/job");
    assert_int_equal(tesup_wait(channel, 1000), TESUP_ERR_GONE);
    fake_start(&fake);
    come_back();

    assert_string_equal(fake.last[WIRE_HELLO].body.hello.segment, "job");
    assert_string_equal(tesup_segment_name(session), "127.0.0.1:7500/job");
    assert_string_equal(name, FAKE_NAME); /* the old pointer lives on */
    assert_int_equal(fake_seen(&fake, WIRE_REGION_ADD), 5);
    assert_int_equal(fake.shared_size, 8192);
    assert_int_equal(fake.last[WIRE_REGION_ADD].body.region.base, (uintptr_t)memory);

    request.remote = remote;
    request.local_region = shared;
    struct wait wait = wait_begin("the remote is opened again", WAIT_MS);
    while (submit(channel, &request) == TESUP_AGAIN) {
        tesup_wait(channel, 10);
        wait_step(&wait);
    }
    sqe = fake_serve(newest(), TS_OK);
    assert_int_equal(sqe.local_region, 3u << 14);
    assert_int_equal(sqe.remote, (3u << 14) + 2);
    assert_int_equal(sqe.remote_region, 9); /* the owner's: not ours to translate */
    assert_int_equal(tesup_poll(channel, &completion, 1), 1);

    request.local_region = private;
    assert_int_equal(submit(second, &request), TESUP_OK);
    assert_int_equal(fake_seen(&fake, WIRE_CHANNEL_OPEN), 2);
    assert_int_equal(fake_serve(newest(), TS_OK).local_region, (3u << 14) + 1);
    assert_int_equal(tesup_poll(second, &completion, 1), 1);

    request.local_region = gone;
    assert_int_equal(submit(channel, &request), TESUP_ERR_GONE);
    assert_int_equal(tesup_mem_unregister(session, private), TESUP_OK);
    assert_int_equal(fake.last[WIRE_REGION_DEL].body.handle.handle, (3u << 14) + 1);
    assert_int_equal(tesup_segment_close(session, remote), TESUP_OK);
    assert_int_equal(fake.last[WIRE_REMOTE_CLOSE].body.handle.handle, (3u << 14) + 2);
}

/* A new region must not get the number of an old one: peers use these numbers. */
static void test_new_handles_do_not_meet_old_ones(void **state)
{
    struct wait wait = wait_begin("the remote is opened again", WAIT_MS);
    tesup_region_t old[3], fresh;
    tesup_remote_t remote, other;
    void *address;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &old[i]), TESUP_OK);
    assert_int_equal(tesup_segment_open(session, "h:1/kv", &remote), TESUP_OK);
    fake_set(next_handle, old[1] - 3); /* new numbers end right before old[1] */
    restart();
    come_back();
    while (fake_seen(&fake, WIRE_REMOTE_OPEN) < 2) /* takes a number too */
        wait_step(&wait);
    fake_set(next_handle, old[1]);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &fresh), TESUP_OK);
    assert_int_equal(fresh, old[2] + 1); /* old[1] and old[2] were refused and returned */
    fake_set(next_handle, remote);
    assert_int_equal(tesup_segment_open(session, "h:1/kw", &other), TESUP_OK);
    /* Returned without waiting for answers, so they are counted after a call that does wait. */
    assert_int_equal(fake_seen(&fake, WIRE_REGION_DEL), 2);
    assert_int_not_equal(other, remote);
}

static void test_unread_notifications_survive(void **state)
{
    struct wait wait = wait_begin("the successor is greeted", WAIT_MS);
    struct tesup_notification notification;

    (void)state;
    fake_deliver(&fake.channels[0], NOTIFY_KIND_MESSAGE, "h:1/p", "one", "", 0, TS_OK);
    fake_deliver(&fake.channels[0], NOTIFY_KIND_MESSAGE, "h:1/p", "two", "", 0, TS_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    fake_stop(&fake);
    fake_start(&fake);
    while (fake_seen(&fake, WIRE_HELLO) < 2) {
        struct tesup_completion completion;

        tesup_poll(channel, &completion, 1);
        tesup_arm(channel);
        wait_step(&wait);
    }
    assert_int_equal(fake_seen(&fake, WIRE_HELLO), 2);
    fake_deliver(newest(), NOTIFY_KIND_MESSAGE, "h:1/p", "three", "", 0, TS_OK);
    assert_memory_equal(notification.name, "one", 3); /* peeked before: still there */
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_memory_equal(notification.name, "two", 3);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_memory_equal(notification.name, "three", 5);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_AGAIN);
}

/* A watched segment that is gone when we come back is an event; one that is there is watched on. */
static void test_watches_survive(void **state)
{
    struct tesup_notification notification;
    tesup_remote_t remote;

    (void)state;
    assert_int_equal(tesup_segment_open(session, "h:1/kv", &remote), TESUP_OK);
    assert_int_equal(tesup_segment_watch(session, remote), TESUP_OK);
    fake_set(next_handle, 5u << 14);
    restart();
    come_back();
    struct wait wait = wait_begin("the remote is watched again", WAIT_MS);
    while (fake_seen(&fake, WIRE_REMOTE_WATCH) < 2) {
        tesup_wait(channel, 10);
        wait_step(&wait);
    }
    assert_int_equal(fake.last[WIRE_REMOTE_WATCH].body.handle.handle, 5u << 14);
    fake_deliver(newest(), NOTIFY_KIND_EVENT, "h:1/kv", "", "", 5u << 14, TS_ERR_GONE);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_int_equal(notification.remote, remote);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);

    assert_int_equal(tesup_segment_watch(session, remote), TESUP_OK);
    fake_set(refuse[WIRE_REMOTE_OPEN], TESUP_ERR_NOT_FOUND);
    restart();
    come_back();
    wait = wait_begin("the remote's end", WAIT_MS);
    while (tesup_notify_peek(channel, &notification) == TESUP_AGAIN) {
        tesup_wait(channel, 10);
        wait_step(&wait);
    }
    assert_int_equal(notification.kind, TESUP_NOTIFICATION_EVENT);
    assert_int_equal(notification.remote, remote);
    assert_int_equal(notification.status, TESUP_ERR_NOT_FOUND);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_AGAIN);
}

static void test_control_calls_come_back_too(void **state)
{
    tesup_region_t region, other;
    void *address;

    (void)state;
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &region), TESUP_OK);
    fake_stop(&fake);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &other), TESUP_ERR_NO_DAEMON);
    assert_sentence(fake.path);
    assert_int_equal(tesup_mem_free(session, region), TESUP_OK); /* it went with the workers */
    fake_start(&fake);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &other), TESUP_OK);
    fake_set(hang_up[WIRE_REGION_ADD], true);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &region), TESUP_ERR_NO_DAEMON);
    assert_sentence("went away during the call");
    fake_set(hang_up[WIRE_REGION_ADD], false);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &region), TESUP_OK);
}

static void test_successor_that_refuses(void **state)
{
    struct wait wait = wait_begin("the successor is asked again", WAIT_MS);
    struct tesup_request request = {0};
    uint64_t begun;
    uint32_t asked;
    int rc;

    (void)state;
    fake_set(refuse[WIRE_HELLO], TESUP_ERR_EXISTS);
    fake_stop(&fake);
    fake_start(&fake);
    assert_int_equal(tesup_wait(channel, 1000), TESUP_ERR_GONE);
    assert_sentence("the fake refuses");
    do { /* until two calls follow each other at once */
        asked = fake_seen(&fake, WIRE_HELLO);
        begun = clock_now();
        assert_int_equal(submit(channel, &request), TESUP_ERR_NO_DAEMON);
        assert_int_equal(submit(channel, &request), TESUP_ERR_NO_DAEMON);
    } while (clock_now() - begun >= SESSION_RETRY_MS * CLOCK_NS_PER_MS);
    assert_true(fake_seen(&fake, WIRE_HELLO) <= asked + 1);
    fake_set(refuse[WIRE_HELLO], TESUP_OK);
    while ((rc = submit(channel, &request)) == TESUP_ERR_NO_DAEMON)
        wait_step(&wait);
    assert_int_equal(rc, TESUP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED_TEST(test_in_flight_becomes_uncertain_once),
        ATTACHED_TEST(test_leaving_worker_still_answers),
        ATTACHED_TEST(test_successor_gets_everything_again),
        ATTACHED_TEST(test_new_handles_do_not_meet_old_ones),
        ATTACHED_TEST(test_unread_notifications_survive),
        ATTACHED_TEST(test_watches_survive),
        ATTACHED_TEST(test_control_calls_come_back_too),
        ATTACHED_TEST(test_successor_that_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
