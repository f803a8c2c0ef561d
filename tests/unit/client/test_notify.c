/* The mailbox: what arrived is seen as it was sent, kept until released, and never trusted. */
#include "tests/unit/client/attached_fixture.h"

static void test_empty(void **state)
{
    struct tesup_notification notification;

    (void)state;
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_AGAIN);
    assert_int_equal(tesup_notify_peek(channel, NULL), TESUP_ERR_INVALID);
    assert_int_equal(tesup_notify_release(channel), TESUP_ERR_INVALID);
    assert_sentence("tesup_notify_peek");
}

static void test_message(void **state)
{
    struct tesup_notification notification, again;

    (void)state;
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "host:1/peer", "block", "seventeen", 0,
                 TS_ERR_CANCELLED);
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "host:1/other", "", "", 0, TS_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_int_equal(notification.kind, TESUP_NOTIFICATION_MESSAGE);
    assert_int_equal(notification.status, TESUP_ERR_CANCELLED);
    assert_int_equal(notification.from_len, 11);
    assert_memory_equal(notification.from, "host:1/peer", 11);
    assert_int_equal(notification.name_len, 5);
    assert_memory_equal(notification.name, "block", 5);
    assert_int_equal(notification.msg_len, 9);
    assert_memory_equal(notification.msg, "seventeen", 9);
    assert_int_equal(tesup_notify_peek(channel, &again), TESUP_OK);
    assert_ptr_equal(again.msg, notification.msg);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(tesup_notify_peek(channel, &again), TESUP_OK);
    assert_memory_equal(again.from, "host:1/other", 12);
    assert_int_equal(again.name_len + again.msg_len, 0);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(tesup_notify_release(channel), TESUP_ERR_INVALID);
    assert_int_equal(tesup_notify_peek(channel, &again), TESUP_AGAIN);
}

static void test_event(void **state)
{
    struct tesup_notification notification;

    (void)state;
    fake_deliver(worker, NOTIFY_KIND_EVENT, "host:1/peer", "", "", 0x4001, TS_ERR_GONE);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_int_equal(notification.kind, TESUP_NOTIFICATION_EVENT);
    assert_int_equal(notification.remote, 0x4001);
    assert_int_equal(notification.status, TESUP_ERR_GONE);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
}

/* The header that peek copied counts, not what the other side makes of it afterwards. */
static void test_header_is_read_once(void **state)
{
    struct tesup_notification notification;
    struct notify_record *record;

    (void)state;
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "h:1/p", "name", "message", 0, TS_OK);
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "h:1/p", "second", "", 0, TS_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    record = (struct notify_record *)(void *)worker->nrx.bytes;
    record->size = 8;
    record->msg_len = UINT32_MAX;
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_int_equal(notification.msg_len, 7);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_memory_equal(notification.name, "second", 6);
}

static void test_forged_record(void **state)
{
    struct tesup_notification notification;
    struct tesup_request request = {0};
    struct notify_record *record;
    uint32_t accepted;

    (void)state;
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "h:1/p", "name", "message", 0, TS_OK);
    record = (struct notify_record *)(void *)worker->nrx.bytes;
    record->msg_len = 1 << 30;
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_ERR_PROTOCOL);
    assert_sentence("arrived notifications");
    assert_int_equal(tesup_submit(channel, &request, 1, NULL, &accepted), TESUP_ERR_PROTOCOL);
}

/* A worker that waits for room hears of each release, and of none when it does not wait. */
static void test_release_rings_for_room(void **state)
{
    struct tesup_notification notification;
    struct doorbell room = {.word = &worker->map.header->nrx_room, .fd = worker->worker_bell.fd};
    struct pollfd bell = {.fd = room.fd, .events = POLLIN};

    (void)state;
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "h:1/p", "1", "", 0, TS_OK);
    fake_deliver(worker, NOTIFY_KIND_MESSAGE, "h:1/p", "2", "", 0, TS_OK);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(poll(&bell, 1, 0), 0);
    doorbell_arm(&room);
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
    assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    assert_int_equal(poll(&bell, 1, 0), 1);
    assert_int_equal(atomic_peek(&worker->map.header->nrx_words.head),
                     atomic_peek(&worker->map.header->nrx_words.tail));
}

/* Many laps of the ring, records of all sizes, pads included. */
static void test_many_laps(void **state)
{
    static char bytes[9001];

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    for (int i = 0; i < 3000; i++) {
        struct tesup_notification notification;
        size_t length = (size_t)(i * 131) % 9000;
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        bytes[length] = '\0';
        fake_deliver(worker, NOTIFY_KIND_MESSAGE, "h:1/p", name, bytes, 0, TS_OK);
        bytes[length] = 'x';
        assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_OK);
        assert_int_equal(notification.msg_len, length);
        assert_memory_equal(notification.name, name, strlen(name));
        assert_memory_equal(notification.msg, bytes, length);
        assert_int_equal(tesup_notify_release(channel), TESUP_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED_TEST(test_empty),         ATTACHED_TEST(test_message),
        ATTACHED_TEST(test_event),         ATTACHED_TEST(test_header_is_read_once),
        ATTACHED_TEST(test_forged_record), ATTACHED_TEST(test_release_rings_for_room),
        ATTACHED_TEST(test_many_laps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
