/* The table of options: every row, in both places where it can be given, and its default. */
#include "tests/unit/supervisor/options/options_fixture.h"

static void test_defaults(void **state)
{
    struct serve_options o;

    (void)state;
    assert_int_equal(PARSE(&o), 0);
    assert_string_equal(o.name, "default");
    assert_string_equal(o.listen, "127.0.0.1:7400");
    assert_string_equal(o.listen_host, "127.0.0.1");
    assert_int_equal(o.listen_port, 7400);
    assert_string_equal(o.advertise, "127.0.0.1");
    assert_int_equal(o.fabric, OPTION_FABRIC_AUTO);
    assert_int_equal(o.idle, OPTION_IDLE_ADAPTIVE);
    assert_int_equal(o.peer_auth, OPTION_PEER_AUTH_PSK);
    assert_int_equal(o.workers, 0);
    assert_int_equal(o.spin_us, 50);
    assert_int_equal(o.slots, 1024);
    assert_int_equal(o.slice_bytes, 256 * 1024);
    assert_true(o.notify_native);
    assert_false(o.notify_oob_fallback);
    assert_int_equal(o.endpoint_max, 1024);
    assert_int_equal(o.connect_ms, 5000);
    assert_int_equal(o.request_ms, 60000);
    assert_int_equal(o.handshake_ms, 2000);
    assert_int_equal(o.drain_ms, 5000);
    assert_int_equal(o.restart_window_ms, 60000);
    assert_int_equal(o.restart_max_deaths, 5);
    assert_int_equal(o.restart_backoff_max_ms, 10000);
    assert_int_equal(o.sessions_max, 256);
    assert_int_equal(o.sessions_per_uid, 128);
    assert_int_equal(o.channels_per_session, 64);
    assert_int_equal(o.regions_per_session, 4096);
    assert_int_equal(o.shm_counter_start, 0);
    assert_string_equal(o.config, "");
    assert_string_equal(o.topology, "");
    assert_false(o.foreground);
    assert_false(o.allow_uids.all);
    assert_int_equal(o.allow_uids.uid[0], geteuid());
    assert_int_equal(o.allow_uids.uid[o.allow_uids.count - 1], 0);
}

/* For each option a value that is taken and one that is refused with the phrase. */
struct sample {
    const char *option; /* flag, or the config key of one without a flag */
    const char *good;
    const char *bad;
    const char *phrase;
};

static const struct sample samples[] = {
    {"config", "/dev/null", "/nowhere/x.conf", "No such file"},
    {"foreground", NULL, NULL, NULL},
    {"name", "prefill-0", "a/b", "letters, digits"},
    {"runtime-dir", "/tmp/x", "", "empty"},
    {"topology", "/x.xml", "", "empty"},
    {"drain-timeout", "0s", "2h", "ms or s"},
    {"exit-when-idle", "2s", "2", "2s or 2ms"},
    {"listen", "[::1]:0", "::1:7400", "brackets"},
    {"advertise", "node-7.example", "node-7:7400", "no port"},
    {"peer-key", "/k", "", "empty"},
    {"peer.auth", "none", "off", "none or psk"},
    {"connect-timeout", "200ms", "200", "200s or 200ms"},
    {"handshake-timeout", "10ms", "9ms", "10ms..3600s"},
    {"endpoint-max", "65535", "0", "1..65535"},
    {"workers", "64", "65", "0..64"},
    {"exclude", "mlx5_3, 0000:44:00.0", "", "empty"},
    {"reserved-cpus", "0-3,8", "3-1", "numbers and ranges with commas"},
    {"fabric", "tcp", "TCP", "auto, tcp, local or verbs"},
    {"idle", "busy", "lazy", "adaptive, busy or sleep"},
    {"spin-us", "0", "50us", "microseconds"},
    {"slice", "16M", "4097M", "4K..16M"},
    {"tcp-window", "64K", "63K", "64K..1G"},
    {"request-timeout", "0s", "-1s", "ms or s"},
    {"gid-index", "3", "256", "0..255"},
    {"rdma.mtu", "1024", "1500", "powers of two, 256..4096 bytes"},
    {"rdma.data_qps", "16", "17", "1..16"},
    {"rdma.timeout", "14", "23", "8..22"},
    {"rdma.retries", "0", "7", "0..6"},
    {"rdma.rnr_retries", "7", "8", "0..7"},
    {"rdma.traffic_class", "106", "256", "0..255"},
    {"rdma.trust_uids", "1000,1001", "root", "numbers with commas"},
    {"notify.fused_max", "0", "17M", "0..16M"},
    {"notify-native", "false", "yes", "0, 1, true or false"},
    {"notify-oob-fallback", "true", "2", "0, 1, true or false"},
    {"restart-window", "1s", "999ms", "1s..86400s"},
    {"restart-max-deaths", "1", "0", "1..1000"},
    {"restart-backoff-max", "100ms", "99ms", "100ms..3600s"},
    {"sessions-max", "1", "257", "1..256"},
    {"sessions-per-uid", "256", "many", "1..256"},
    {"channels-per-session", "1", "1025", "1..1024"},
    {"regions-per-session", "65535", "65536", "1..65535"},
    {"allow-uids", "0, 1000,7", "root", "numbers with commas"},
    {"slots", "4096", "1000", "powers of two, 16..4096"},
    {"shm.counter_start", "18446744073709551615", "18446744073709551616", "whole number"},
};

static const struct serve_option *option_find(const char *name)
{
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const char *own = options_table[i].flag ? options_table[i].flag : options_table[i].config;

        if (strcmp(own, name) == 0)
            return &options_table[i];
    }
    fail_msg("no option %s", name);
    return NULL;
}

static void sample_on_command_line(const struct sample *sample)
{
    struct serve_options o;
    char argument[128];

    snprintf(argument, sizeof(argument), "--%s=%s", sample->option, sample->good);
    if (PARSE(&o, argument) != 0)
        fail_msg("%s: %s", argument, printed);
    snprintf(argument, sizeof(argument), "--%s=%s", sample->option, sample->bad);
    if (PARSE(&o, argument) != 2)
        fail_msg("%s was taken", argument);
    assert_printed(sample->phrase);
}

static void sample_in_config(const struct serve_option *option, const struct sample *sample)
{
    struct serve_options o;
    char text[256];
    int section = (int)strcspn(option->config, ".");

    snprintf(text, sizeof(text), "\n[%.*s]\n%s = %s\n", section, option->config, option_key(option),
             sample->good);
    if (config(text, &o) != 0)
        fail_msg("%s: %s", text, printed);
    snprintf(text, sizeof(text), "\n[%.*s]\n%s = %s\n", section, option->config, option_key(option),
             sample->bad);
    if (config(text, &o) != -1)
        fail_msg("%s was taken", text);
    assert_printed(sample->phrase);
    assert_printed("x.conf:3: ");
    assert_printed(option_key(option));
}

static void test_every_option(void **state)
{
    (void)state;
    assert_int_equal(sizeof(samples) / sizeof(samples[0]), OPTIONS_COUNT);
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct serve_option *option = option_find(samples[i].option);

        if (option->kind == OPTION_FLAG)
            continue;
        if (option->flag)
            sample_on_command_line(&samples[i]);
        if (option->config)
            sample_in_config(option, &samples[i]);
    }
}

static void test_table_is_sound(void **state)
{
    char why[512];
    struct serve_options o = {0};

    (void)state;
    assert_string_equal(options_table[OPTIONS_TABLE_CONFIG].flag, "config");
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct serve_option *option = &options_table[i];

        assert_true(option->flag || option->config);
        assert_non_null(option->help);
        assert_true(option->initial || option->initial_words);
        if (option->initial && option_set(option, option->initial, &o, why, sizeof(why)))
            fail_msg("default of %s: %s", option->flag, why);
        size_t sections = 0;
        for (size_t s = 0; s < options_section_count; s++)
            sections += option_in_section(option, options_sections[s].name);
        assert_int_equal(sections, option->config ? 1 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(test_defaults),
        OPTION_TEST(test_every_option),
        OPTION_TEST(test_table_is_sound),
    };

    return cmocka_run_group_tests(tests, NULL, printed_free);
}
