/* The command line of `tesup serve`: values arrive, wrong usage is told. */
#include "tests/unit/supervisor/options/options_fixture.h"

static void test_values_arrive(void **state)
{
    struct serve_options o;

    (void)state;
    assert_int_equal(PARSE(&o, "--foreground", "--listen", "[fe80::1%eth0]:65535", "--slice=1M",
                           "--fabric", "local", "--idle=sleep", "--connect-timeout=1500ms",
                           "--allow-uids=*", "--runtime-dir", "rel/dir"),
                     0);
    assert_true(o.foreground);
    assert_string_equal(o.listen_host, "fe80::1%eth0");
    assert_int_equal(o.listen_port, 65535);
    assert_string_equal(o.advertise, "fe80::1%eth0");
    assert_int_equal(o.slice_bytes, 1024 * 1024);
    assert_int_equal(o.fabric, OPTION_FABRIC_LOCAL);
    assert_int_equal(o.idle, OPTION_IDLE_SLEEP);
    assert_int_equal(o.connect_ms, 1500);
    assert_true(o.allow_uids.all);
    assert_int_equal(o.runtime_dir[0], '/');
    assert_non_null(strstr(o.runtime_dir, "/rel/dir"));

    assert_int_equal(PARSE(&o, "--allow-uids", "5 6,7"), 0);
    assert_int_equal(o.allow_uids.count, 3);
    assert_int_equal(o.allow_uids.uid[2], 7);
    assert_int_equal(PARSE(&o, "--allow-uids", "4294967295"), 2); /* (uid_t)-1 */
    assert_int_equal(PARSE(&o, "--allow-uids", " , "), 2);
    assert_int_equal(PARSE(&o, "--advertise", "[2001:db8::1]"), 0);
    assert_string_equal(o.advertise, "2001:db8::1");
}

static void test_wildcard_is_not_advertised(void **state)
{
    struct serve_options o;

    (void)state;
    assert_int_equal(PARSE(&o, "--listen", "0.0.0.0:0"), 0);
    assert_string_not_equal(o.advertise, "0.0.0.0");
    assert_int_not_equal(o.advertise[0], '\0');
    assert_int_equal(PARSE(&o, "--listen", "[::]:7400", "--advertise", "n1"), 0);
    assert_string_equal(o.advertise, "n1");
}

static void test_usage(void **state)
{
    struct serve_options o;

    (void)state;
    assert_int_equal(PARSE(&o, "--no-such"), 2);
    assert_printed("--no-such");
    assert_int_equal(PARSE(&o, "word"), 2);
    assert_printed("unexpected argument 'word'");
    assert_int_equal(PARSE(&o, "--slots"), 2);
    assert_printed("requires an argument");
    assert_int_equal(PARSE(&o, "--peer-auth=none"), 2); /* only in the config file */
    assert_int_equal(PARSE(&o, "--listen", "h:65536"), 2);
    assert_int_equal(PARSE(&o, "--listen", "h h:1"), 2);
    assert_int_equal(PARSE(&o, "--listen", ":1"), 2);
    assert_int_equal(PARSE(&o, "--listen", "[::g]:1"), 2);
    assert_int_equal(PARSE(&o, "--name", ".hidden"), 2);
    assert_int_equal(PARSE(&o, "--name", "n23456789012345678901234567890123"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(test_values_arrive),
        OPTION_TEST(test_wildcard_is_not_advertised),
        OPTION_TEST(test_usage),
    };

    return cmocka_run_group_tests(tests, NULL, printed_free);
}
