/* Attach and detach: what may go wrong, what is said then, and that nothing is left behind. */
#include "tests/unit/client/fake_peer.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct fake fake;

static int setup(void **state)
{
    (void)state;
    fake_init(&fake);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_fini(&fake);
    return 0;
}

static int attach(struct tesup_options options, struct tesup_session **session)
{
    if (options.socket == NULL)
        options.socket = fake.path;
    if (options.timeout_ms == 0)
        options.timeout_ms = 2000;
    return tesup_attach(&options, session);
}

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void test_attach_tells_what_we_are(void **state)
{
    struct tesup_session *session = NULL;
    const struct proto_hello *hello = &fake.last[WIRE_HELLO].body.hello;

    (void)state;
    assert_int_equal(attach((struct tesup_options){.segment = "job",
                                                   .pair = "mlx5_0+gpu0",
                                                   .slots = 64,
                                                   .flags = TESUP_SHARE_ALL},
                            &session),
                     TESUP_OK);
    assert_int_equal(hello->abi_major, LAYOUT_VERSION_MAJOR);
    assert_int_equal(hello->slots, 64);
    assert_int_equal(hello->flags, PROTO_SHARE_ALL);
    assert_true(hello->cpu >= 0);
    assert_string_equal(hello->segment, "job");
    assert_string_equal(hello->pair, "mlx5_0+gpu0");
    assert_string_equal(tesup_segment_name(session), FAKE_NAME);
    assert_int_equal(tesup_notify_max(session), TESUP_NOTIFY_MAX);
    assert_non_null(tesup_channel_main(session));
    tesup_detach(session);
    assert_int_equal(fake_seen(&fake, WIRE_BYE), 1);
}

static void test_no_daemon_names_path_and_remedy(void **state)
{
    struct tesup_session *session = NULL;

    (void)state;
    assert_int_equal(attach((struct tesup_options){.socket = "/nowhere/else.sock"}, &session),
                     TESUP_ERR_NO_DAEMON);
    assert_null(session);
    assert_sentence("/nowhere/else.sock");
    assert_sentence("tesup serve");
}

static void test_socket_nobody_listens_at(void **state)
{
    struct tesup_session *session = NULL;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)state;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/stale", fake.dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(attach((struct tesup_options){.socket = address.sun_path}, &session),
                     TESUP_ERR_NO_DAEMON);
    assert_sentence("nobody listens");
    close(fd);
    unlink(address.sun_path);
}

static void test_socket_from_environment(void **state)
{
    struct tesup_session *session = NULL;
    struct tesup_options options = {.timeout_ms = 2000};

    (void)state;
    setenv("TESUP_SOCKET", fake.path, 1);
    assert_int_equal(tesup_attach(&options, &session), TESUP_OK);
    tesup_detach(session);
    setenv("TESUP_SOCKET", "/nowhere/env.sock", 1);
    assert_int_equal(tesup_attach(NULL, &session), TESUP_ERR_NO_DAEMON);
    assert_sentence("/nowhere/env.sock");
    unsetenv("TESUP_SOCKET");
}

static void test_options_are_checked(void **state)
{
    struct tesup_session *session = NULL;
    char longest[200];

    (void)state;
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(tesup_attach(NULL, NULL), TESUP_ERR_INVALID);
    assert_int_equal(attach((struct tesup_options){.slots = 3}, &session), TESUP_ERR_INVALID);
    assert_sentence("slots is 3");
    assert_int_equal(attach((struct tesup_options){.slots = 8192}, &session), TESUP_ERR_INVALID);
    assert_sentence("4096");
    assert_int_equal(attach((struct tesup_options){.flags = 8}, &session), TESUP_ERR_INVALID);
    assert_int_equal(attach((struct tesup_options){.segment = "a/b"}, &session), TESUP_ERR_INVALID);
    assert_sentence("a/b");
    assert_int_equal(attach((struct tesup_options){.pair = longest}, &session), TESUP_ERR_INVALID);
    assert_int_equal(attach((struct tesup_options){.socket = longest}, &session),
                     TESUP_ERR_INVALID);
    assert_sentence("longer than");
    setenv("TESUP_SPIN_US", "fast", 1);
    assert_int_equal(attach((struct tesup_options){0}, &session), TESUP_ERR_INVALID);
    assert_sentence("TESUP_SPIN_US");
    unsetenv("TESUP_SPIN_US");
    setenv("TESUP_HUGE_PAGES", "yes", 1);
    assert_int_equal(attach((struct tesup_options){0}, &session), TESUP_ERR_INVALID);
    assert_sentence("TESUP_HUGE_PAGES");
    unsetenv("TESUP_HUGE_PAGES");
    assert_int_equal(fake_seen(&fake, WIRE_HELLO), 0);
}

static void test_refusal_becomes_result(void **state)
{
    const int codes[] = {TESUP_ERR_EXISTS, TESUP_ERR_NOT_FOUND, TESUP_ERR_DENIED, TESUP_ERR_LIMIT,
                         TESUP_ERR_VERSION};
    struct tesup_session *session = NULL;
    int before = count_fds();

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char text[32];

        fake_set(refuse[WIRE_HELLO], codes[i]);
        snprintf(text, sizeof(text), "the fake refuses %d", codes[i]);
        assert_int_equal(attach((struct tesup_options){0}, &session), codes[i]);
        assert_sentence(text);
        assert_sentence(fake.path);
    }
    assert_null(session);
    pthread_mutex_lock(&fake.lock); /* the other end of each connection is the test's too */
    assert_true(count_fds() <= before + fake.client_count);
    pthread_mutex_unlock(&fake.lock);
}

static void test_silence_is_timeout(void **state)
{
    struct tesup_session *session = NULL;

    (void)state;
    fake_set(mute[WIRE_HELLO], true);
    assert_int_equal(attach((struct tesup_options){.timeout_ms = 50}, &session), TESUP_ERR_TIMEOUT);
    assert_sentence("did not answer");
    assert_sentence(fake.path);
}

static void test_hang_up_at_hello(void **state)
{
    struct tesup_session *session = NULL;

    (void)state;
    fake_set(hang_up[WIRE_HELLO], true);
    assert_int_equal(attach((struct tesup_options){0}, &session), TESUP_ERR_NO_DAEMON);
    assert_sentence("hung up");
}

static void test_malformed_welcome(void **state)
{
    struct tesup_session *session = NULL;

    (void)state;
    fake_set(name, "no slash here");
    assert_int_equal(attach((struct tesup_options){0}, &session), TESUP_ERR_PROTOCOL);
    assert_sentence("no slash here");
}

static void test_channels_open_and_close(void **state)
{
    struct tesup_session *session = fake_attach(&fake);
    struct tesup_channel *channel = NULL;
    struct tesup_notification notification;

    (void)state;
    assert_int_equal(tesup_channel_open(session, &channel), TESUP_OK);
    assert_ptr_not_equal(channel, tesup_channel_main(session));
    assert_int_equal(tesup_notify_peek(channel, &notification), TESUP_ERR_INVALID);
    assert_sentence("main channel");
    tesup_channel_close(channel);
    assert_int_equal(fake_seen(&fake, WIRE_CHANNEL_CLOSE), 1);
    assert_int_equal(fake.last[WIRE_CHANNEL_CLOSE].body.handle.handle, 1);
    tesup_channel_close(NULL);
    tesup_channel_close(tesup_channel_main(session)); /* refused, and still usable */
    assert_int_equal(tesup_poll(tesup_channel_main(session), NULL, 0), 0);
    fake_set(refuse[WIRE_CHANNEL_OPEN], TESUP_ERR_LIMIT);
    assert_int_equal(tesup_channel_open(session, &channel), TESUP_ERR_LIMIT);
    tesup_detach(session);
}

static void test_attach_leaves_nothing(void **state)
{
    int before;

    (void)state;
    tesup_detach(fake_attach(&fake));
    before = count_fds();
    for (int i = 0; i < 200; i++) {
        struct tesup_session *session = fake_attach(&fake);
        struct tesup_channel *channel;

        if (i % 2 == 0)
            assert_int_equal(tesup_channel_open(session, &channel), TESUP_OK);
        tesup_detach(session);
    }
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < FAKE_CHANNELS; i++)
        if (fake.channels[i].map.header != NULL)
            before += 3;
    pthread_mutex_unlock(&fake.lock);
    assert_true(count_fds() <= before);
}

static void child_calls(struct tesup_session *session)
{
    struct tesup_channel *channel = tesup_channel_main(session);
    struct tesup_request request = {.op = TESUP_OP_NOP};
    struct tesup_completion completion;
    struct tesup_notification notification;
    tesup_region_t region;
    void *address;
    uint32_t accepted;

    if (tesup_submit(channel, &request, 1, NULL, &accepted) != TESUP_ERR_FORKED)
        _exit(1);
    if (tesup_poll(channel, &completion, 1) != TESUP_ERR_FORKED)
        _exit(2);
    if (tesup_wait(channel, 0) != TESUP_ERR_FORKED || tesup_arm(channel) != TESUP_ERR_FORKED ||
        tesup_fd(channel) != TESUP_ERR_FORKED)
        _exit(3);
    if (tesup_mem_alloc(session, 1, 0, &address, &region) != TESUP_ERR_FORKED)
        _exit(4);
    if (tesup_notify_peek(channel, &notification) != TESUP_ERR_FORKED ||
        tesup_notify_release(channel) != TESUP_ERR_FORKED ||
        tesup_cancel(channel, 0) != TESUP_ERR_FORKED)
        _exit(5);
    if (tesup_segment_open(session, FAKE_NAME, &region) != TESUP_ERR_FORKED ||
        tesup_channel_open(session, &channel) != TESUP_ERR_FORKED)
        _exit(6);
    if (strstr(tesup_last_error(), "parent") == NULL)
        _exit(7);
    tesup_detach(session);
    _exit(0);
}

static void test_fork_harms_nothing(void **state)
{
    struct tesup_session *session = fake_attach(&fake);
    struct tesup_channel *channel = tesup_channel_main(session);
    struct tesup_request request = {.op = TESUP_OP_NOP, .cookie = 7};
    struct tesup_completion completion;
    uint32_t accepted;
    pid_t child;
    int status;

    (void)state;
    child = fork();
    if (child == 0)
        child_calls(session);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(fake_seen(&fake, WIRE_BYE), 0);
    assert_int_equal(tesup_submit(channel, &request, 1, NULL, &accepted), TESUP_OK);
    fake_serve(&fake.channels[0], TS_OK);
    assert_int_equal(tesup_poll(channel, &completion, 1), 1);
    assert_int_equal(completion.cookie, 7);
    tesup_detach(session);
    assert_int_equal(fake_seen(&fake, WIRE_BYE), 1);
}

static void test_out_of_files_is_named(void **state)
{
    struct tesup_session *session = NULL;
    struct rlimit before, none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = attach((struct tesup_options){0}, &session);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, TESUP_ERR_LIMIT);
    assert_sentence("RLIMIT_NOFILE");
}

static void test_null_is_refused(void **state)
{
    (void)state;
    assert_int_equal(tesup_poll(NULL, NULL, 0), TESUP_ERR_INVALID);
    assert_int_equal(tesup_channel_open(NULL, NULL), TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_unregister(NULL, 1), TESUP_ERR_INVALID);
    tesup_detach(NULL);
    assert_string_equal(tesup_segment_name(NULL), "");
    assert_null(tesup_channel_main(NULL));
    assert_string_equal(tesup_strerror(TESUP_ERR_GONE), "gone");
    assert_non_null(tesup_strerror(12345));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_attach_tells_what_we_are), TEST(test_no_daemon_names_path_and_remedy),
        TEST(test_socket_nobody_listens_at), TEST(test_socket_from_environment),
        TEST(test_options_are_checked),      TEST(test_refusal_becomes_result),
        TEST(test_silence_is_timeout),       TEST(test_hang_up_at_hello),
        TEST(test_malformed_welcome),        TEST(test_channels_open_and_close),
        TEST(test_attach_leaves_nothing),    TEST(test_fork_harms_nothing),
        TEST(test_out_of_files_is_named),    TEST(test_null_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
