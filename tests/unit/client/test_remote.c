/* Segments of others: names are checked here, everything else is the supervisor's answer. */
#include "tests/unit/client/attached_fixture.h"

static void test_open_and_close(void **state)
{
    const char *const names[] = {"10.1.2.3:7400/kv", "[::1]:7400/kv", "node17.example:7400/kv"};
    const struct proto_remote *told = &fake.last[WIRE_REMOTE_OPEN].body.remote;
    tesup_remote_t remote = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(tesup_segment_open(session, names[i], &remote), TESUP_OK);
        assert_int_equal(remote, (1u << 14) + i);
        assert_string_equal(told->name, names[i]);
        assert_int_equal(told->timeout_ms, 2000);
    }
    assert_int_equal(tesup_segment_close(session, remote), TESUP_OK);
    assert_int_equal(fake.last[WIRE_REMOTE_CLOSE].body.handle.handle, remote);
    assert_int_equal(tesup_segment_close(session, remote), TESUP_ERR_GONE);
    assert_int_equal(tesup_segment_watch(session, remote), TESUP_ERR_GONE);
}

static void test_names_are_checked(void **state)
{
    const char *const names[] = {"",          "kv",           "host/kv",    "host:x/kv",
                                 "::1:7/kv",  "host:7400",    "host:7400/", ":7400/kv",
                                 "h:99999/k", "h:7400/a b/c", "[::1]/kv"};
    tesup_remote_t remote = 0;
    char longest[400];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(tesup_segment_open(session, names[i], &remote), TESUP_ERR_INVALID);
        assert_sentence("HOST:PORT/SEGMENT");
    }
    memset(longest, 'h', sizeof(longest));
    memcpy(longest + sizeof(longest) - 8, ":1/kv\0", 6);
    assert_int_equal(tesup_segment_open(session, longest, &remote), TESUP_ERR_INVALID);
    assert_int_equal(tesup_segment_open(session, NULL, &remote), TESUP_ERR_INVALID);
    assert_int_equal(fake_seen(&fake, WIRE_REMOTE_OPEN), 0);
}

static void test_refusals(void **state)
{
    const int codes[] = {TESUP_ERR_NOT_FOUND, TESUP_ERR_DENIED, TESUP_ERR_UNREACHABLE,
                         TESUP_ERR_AUTH, TESUP_ERR_TIMEOUT};
    tesup_remote_t remote = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char text[32];

        fake_set(refuse[WIRE_REMOTE_OPEN], codes[i]);
        snprintf(text, sizeof(text), "the fake refuses %d", codes[i]);
        assert_int_equal(tesup_segment_open(session, "h:1/kv", &remote), codes[i]);
        assert_sentence(text);
        assert_sentence("h:1/kv");
    }
    assert_int_equal(remote, 0);
}

static void test_watch(void **state)
{
    tesup_remote_t remote = 0;

    (void)state;
    assert_int_equal(tesup_segment_open(session, "h:1/kv", &remote), TESUP_OK);
    assert_int_equal(tesup_segment_watch(session, remote), TESUP_OK);
    assert_int_equal(fake.last[WIRE_REMOTE_WATCH].body.handle.handle, remote);
    fake_set(refuse[WIRE_REMOTE_WATCH], TESUP_ERR_LIMIT);
    assert_int_equal(tesup_segment_watch(session, remote), TESUP_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED_TEST(test_open_and_close),
        ATTACHED_TEST(test_names_are_checked),
        ATTACHED_TEST(test_refusals),
        ATTACHED_TEST(test_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
