/* The config file: lines that are right, lines that are not, and what goes over what. */
#include "tests/unit/supervisor/options/options_fixture.h"

static void test_config_good(void **state)
{
    struct serve_options o;

    (void)state;
    assert_int_equal(config("# comment\n; another\n\n[peer]\n  auth = none ; why\nlisten=h:1\r\n"
                            "[limits]\nallow_uids = 1, 2\n[notify]\noob_fallback: true",
                            &o),
                     0);
    assert_int_equal(o.peer_auth, OPTION_PEER_AUTH_NONE);
    assert_string_equal(o.listen, "h:1");
    assert_int_equal(o.allow_uids.count, 2);
    assert_true(o.notify_oob_fallback);
}

static void test_config_errors(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"[peer]\nlisten = h:1\nlisten = h:2\n", "x.conf:3: listen is set twice; first on line 2"},
        {"[peer]\n\nlisen = h:1\n", "x.conf:3: unknown key 'lisen' (did you mean 'listen'?)"},
        {"[peer]\nzzzzzzzzzz = 1\n", "keys of [peer]: listen, advertise, key, auth"},
        {"[pear]\nlisten = h:1\n", "x.conf:2: unknown section [pear]; sections: daemon, peer"},
        {"listen = h:1\n", "x.conf:1: key 'listen' stands before any [section]"},
        {"[peer]\nlisten h\n[peer]\n", "x.conf:2: this is neither"},
        {"[peer\nlisten = h:1\n", "x.conf:1: this is neither"},
        {"[daemon]\nforeground = 1\n", "unknown key 'foreground'"},
        {"[peer]\nconnect_timeout = 5\n", "connect_timeout: '5' has no unit: write 5s or 5ms"},
        {"[worker]\nslice = 1T\n", "'1T' is not a size"},
        {"[peer]\nauth =\n", "x.conf:2: auth: '' is not possible; allowed: none or psk"},
    };
    struct serve_options o;
    char wide[1000];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (config(cases[i].text, &o) != -1)
            fail_msg("taken: %s", cases[i].text);
        assert_printed(cases[i].message);
    }
    assert_int_equal(config_text("[peer]\nkey = \0\n", 15, &o), -1);
    assert_printed("x.conf:2: this is not a text file");
    snprintf(wide, sizeof(wide), "[peer]\nkey = %0900d", 7);
    assert_int_equal(config(wide, &o), -1);
    assert_printed("x.conf:2: the line is longer than");
}

static char *config_file(const char *text)
{
    static char path[64];
    int fd;

    snprintf(path, sizeof(path), "/tmp/tesup-test-options-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void test_precedence(void **state)
{
    struct serve_options o;
    char *path = config_file("[notify]\nnative = 0\noob_fallback = 1\n[worker]\nspin_us = 7\n");

    (void)state;
    assert_int_equal(PARSE(&o, "--config", path), 0);
    assert_false(o.notify_native);
    assert_true(o.notify_oob_fallback);
    assert_int_equal(o.spin_us, 7);
    assert_string_equal(o.config, path);

    setenv("MC_RDMA_NOTIFY_ENABLED", "1", 1);
    assert_int_equal(PARSE(&o, "--config", path), 0);
    assert_true(o.notify_native);

    assert_int_equal(PARSE(&o, "--config", path, "--notify-native=false", "--spin-us=9"), 0);
    assert_false(o.notify_native);
    assert_int_equal(o.spin_us, 9);

    /* A wrong value is refused also where a better one goes over it. */
    setenv("MC_RDMA_NOTIFY_ENABLED", "on", 1);
    assert_int_equal(PARSE(&o, "--notify-native=1"), 2);
    assert_printed("environment variable MC_RDMA_NOTIFY_ENABLED: 'on'");
    assert_printed("0, 1, true or false");
    setenv("MC_RDMA_NOTIFY_ENABLED", "", 1);
    assert_int_equal(PARSE(&o), 2);
    unlink(path);
}

static void test_config_file_errors(void **state)
{
    struct serve_options o;
    char expected[128];
    char *path = config_file("[worker]\nfabric = carrier\n");

    (void)state;
    assert_int_equal(PARSE(&o, "--config", path), 2);
    snprintf(expected, sizeof(expected),
             "%s:2: fabric: 'carrier' is not possible; allowed: auto, tcp, local or verbs", path);
    assert_printed(expected);
    unlink(path);
    assert_int_equal(PARSE(&o, "--config", "/tmp"), 2);
    assert_printed("Is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(test_config_good),
        OPTION_TEST(test_config_errors),
        OPTION_TEST(test_precedence),
        OPTION_TEST(test_config_file_errors),
    };

    return cmocka_run_group_tests(tests, NULL, printed_free);
}
