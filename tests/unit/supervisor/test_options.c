/* Options of `tesup serve`: every row of the table, units, config lines, precedence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/options.h"
#include "supervisor/options_table.h"
#include "supervisor/units.h"

#define ARGS_MAX 16

static char *printed; /* what the last parse() wrote to stderr */

/* args: argv[0], the arguments, NULL. */
static int parse_args(const char *const *args, struct serve_options *o)
{
    char *argv[ARGS_MAX] = {NULL};
    int argc = 0;
    size_t size;
    FILE *real = stderr;

    for (; args[argc]; argc++)
        argv[argc] = (char *)args[argc];
    free(printed);
    stderr = open_memstream(&printed, &size);
    int rc = options_parse(argc, argv, o);
    fclose(stderr);
    stderr = real;
    return rc;
}
#define PARSE(o, ...) parse_args((const char *const[]){"serve", ##__VA_ARGS__, NULL}, o)

#define assert_printed(part)                                \
    do {                                                    \
        if (!strstr(printed, part))                         \
            fail_msg("'%s' is not in '%s'", part, printed); \
    } while (0)

/* Parses `text` as a config file named x.conf over the defaults. */
static int config_text(const char *text, size_t length, struct serve_options *o)
{
    static char message[OPTIONS_TEXT_MAX];
    FILE *file = fmemopen((void *)text, length, "r");

    message[0] = '\0';
    options_defaults(o);
    int rc = options_config_read(file, "x.conf", o, message, sizeof(message));
    fclose(file);
    free(printed);
    printed = strdup(message);
    return rc;
}

static int config(const char *text, struct serve_options *o)
{
    return config_text(text, strlen(text), o);
}

static int environment_clean(void **state)
{
    (void)state;
    unsetenv("MC_RDMA_NOTIFY_ENABLED");
    unsetenv("MC_RDMA_NOTIFY_OOB_FALLBACK");
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("XDG_CONFIG_HOME", "/home/x/.config", 1);
    return 0;
}

static int printed_free(void **state)
{
    (void)state;
    free(printed);
    printed = NULL;
    return 0;
}

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
    {"fabric", "tcp", "TCP", "auto, tcp or local"},
    {"idle", "busy", "lazy", "adaptive, busy or sleep"},
    {"spin-us", "0", "50us", "microseconds"},
    {"slice", "16M", "4097M", "4K..16M"},
    {"request-timeout", "0s", "-1s", "ms or s"},
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

static void test_units(void **state)
{
    uint64_t value;
    char text[64];
    static const char *const bad_sizes[] = {
        "", "K", "1k", "1 K", "-1", "0x10", "1.5K", "1KB", "18446744073709551615K"};
    static const char *const bad_times[] = {"",    "s",    "5",   "5m",
                                            "5 s", "1.5s", "+5s", "18446744073709551615s"};

    (void)state;
    assert_int_equal(units_size_parse("0", &value, text, sizeof(text)), 0);
    assert_int_equal(units_size_parse("3G", &value, text, sizeof(text)), 0);
    assert_true(value == UINT64_C(3) << 30);
    assert_int_equal(units_size_parse("4KiB", &value, text, sizeof(text)), 0);
    assert_int_equal(value, 4096);
    assert_int_equal(units_duration_parse("2s", &value, text, sizeof(text)), 0);
    assert_int_equal(value, 2000);
    for (size_t i = 0; i < sizeof(bad_sizes) / sizeof(bad_sizes[0]); i++)
        assert_int_equal(units_size_parse(bad_sizes[i], &value, text, sizeof(text)), -1);
    for (size_t i = 0; i < sizeof(bad_times) / sizeof(bad_times[0]); i++)
        assert_int_equal(units_duration_parse(bad_times[i], &value, text, sizeof(text)), -1);

    units_size_format(256 * 1024, text, sizeof(text));
    assert_string_equal(text, "256K");
    units_size_format(1500, text, sizeof(text));
    assert_string_equal(text, "1500");
    units_duration_format(1500, text, sizeof(text));
    assert_string_equal(text, "1500ms");
    units_duration_format(60000, text, sizeof(text));
    assert_string_equal(text, "60s");
}

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
    char *path = config_file("[worker]\nfabric = verbs\n");

    (void)state;
    assert_int_equal(PARSE(&o, "--config", path), 2);
    snprintf(expected, sizeof(expected),
             "%s:2: fabric: 'verbs' is not possible; allowed: auto, tcp or local", path);
    assert_printed(expected);
    unlink(path);
    assert_int_equal(PARSE(&o, "--config", "/tmp"), 2);
    assert_printed("Is a directory");
}

/* The reference is a config file; with its comment marks taken away it gives the defaults. */
static void test_reference_parses(void **state)
{
    struct serve_options from_reference;
    struct serve_options defaults;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    options_reference_print(out);
    fclose(out);
    for (char *at = text; (at = strstr(at, "\n;")) != NULL;) {
        const char *end = strchr(at + 1, '\n');

        /* Defaults that the system gives have no value there. */
        if (end[-1] != '=')
            at[1] = ' ';
        at++;
    }
    options_defaults(&defaults);
    if (config_text(text, size, &from_reference))
        fail_msg("%s", printed);
    assert_string_equal(from_reference.rules.file, "x.conf");
    memset(from_reference.rules.file, 0, sizeof(from_reference.rules.file));
    assert_memory_equal(&from_reference, &defaults, sizeof(defaults));
    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        if (options_table[i].config)
            assert_non_null(strstr(text, option_key(&options_table[i])));
    free(text);
}

/* Runs `tesup serve ARGUMENT` in a child that must exit(0); what it printed, to be freed. */
static char *printed_by_child(const char *argument)
{
    struct serve_options o;
    FILE *out = tmpfile();
    int wait_status;

    assert_non_null(out);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        PARSE(&o, argument);
        _exit(100); /* it returned */
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    assert_int_equal(WEXITSTATUS(wait_status), 0);

    long size = ftell(out);
    char *text = calloc(1, (size_t)size + 1);
    rewind(out);
    assert_int_equal(fread(text, 1, (size_t)size, out), size);
    fclose(out);
    return text;
}

/* What operators read is what the program takes. */
static void test_reference_in_the_manual(void **state)
{
    FILE *manual = fopen(TESUP_FIXTURES "/../../docs/operations.md", "re");
    char *reference = printed_by_child("--help-config");
    static char text[128 * 1024];

    (void)state;
    assert_non_null(manual);
    size_t size = fread(text, 1, sizeof(text) - 1, manual);
    assert_true(size < sizeof(text) - 1);
    text[size] = '\0';
    fclose(manual);
    if (!strstr(text, reference))
        fail_msg("docs/operations.md does not hold what `tesup serve --help-config` prints now");
    free(reference);
}

static void test_paths(void **state)
{
    struct options_paths paths;
    char text[512];
    char longer[200];

    (void)state;
    assert_int_equal(options_paths_default("n", "/r", &paths, text, sizeof(text)), 0);
    assert_string_equal(paths.socket, "/r/n.sock");
    assert_string_equal(paths.lock, "/r/n.lock");
    assert_int_equal(options_paths_default(NULL, NULL, &paths, text, sizeof(text)), 0);
    assert_string_equal(paths.socket, geteuid() == 0 ? "/run/tesup/default.sock"
                                                     : "/run/user/7/tesup/default.sock");
    assert_int_equal(options_paths_default("../x", "/r", &paths, text, sizeof(text)), -1);
    memset(longer, 'r', sizeof(longer));
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(options_paths_default("n", longer, &paths, text, sizeof(text)), -1);
    assert_non_null(strstr(text, "--runtime-dir"));
}

/* Runs `check` as a user who is not root; its failures are seen by the exit code. */
static void as_plain_user(int (*check)(void))
{
    int wait_status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534))
            _exit(100);
        _exit(check());
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    assert_int_equal(WEXITSTATUS(wait_status), 0);
}

static int check_plain_user(void)
{
    struct serve_options o;

    if (PARSE(&o) != 0 || strcmp(o.runtime_dir, "/run/user/7/tesup") != 0)
        return 1;
    if (strcmp(o.peer_key, "/home/x/.config/tesup/peer.key") != 0)
        return 2;
    if (o.allow_uids.count != 2 || o.allow_uids.uid[1] != 0)
        return 3;
    unsetenv("XDG_CONFIG_HOME");
    setenv("HOME", "/home/y", 1);
    if (PARSE(&o) != 0 || strcmp(o.peer_key, "/home/y/.config/tesup/peer.key") != 0)
        return 4;
    unsetenv("HOME");
    if (PARSE(&o) != 2 || !strstr(printed, "--peer-key"))
        return 5;
    unsetenv("XDG_RUNTIME_DIR");
    if (PARSE(&o, "--peer-key=/k") != 2 || !strstr(printed, "XDG_RUNTIME_DIR is not set"))
        return 6;
    if (PARSE(&o, "--peer-key=/k", "--runtime-dir=/r") != 0)
        return 7;
    free(printed);
    return 0;
}

static void test_plain_user(void **state)
{
    (void)state;
    as_plain_user(check_plain_user);
}

static void test_help_names_every_flag(void **state)
{
    char *help = printed_by_child("--help");
    char *reference = printed_by_child("--help-config");
    char flag[64];

    (void)state;
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        if (!options_table[i].flag)
            continue;
        snprintf(flag, sizeof(flag), "--%s", options_table[i].flag);
        if (!strstr(help, flag))
            fail_msg("%s is not in --help", flag);
    }
    assert_non_null(strstr(help, "MC_RDMA_NOTIFY_ENABLED"));
    assert_non_null(strstr(help, "4K..16M"));
    assert_non_null(strstr(reference, "[limits]"));
    free(help);
    free(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, environment_clean),
        cmocka_unit_test_setup(test_every_option, environment_clean),
        cmocka_unit_test(test_table_is_sound),
        cmocka_unit_test_setup(test_values_arrive, environment_clean),
        cmocka_unit_test_setup(test_wildcard_is_not_advertised, environment_clean),
        cmocka_unit_test_setup(test_usage, environment_clean),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_config_good),
        cmocka_unit_test(test_config_errors),
        cmocka_unit_test_setup(test_precedence, environment_clean),
        cmocka_unit_test_setup(test_config_file_errors, environment_clean),
        cmocka_unit_test(test_reference_parses),
        cmocka_unit_test_setup(test_help_names_every_flag, environment_clean),
        cmocka_unit_test_setup(test_reference_in_the_manual, environment_clean),
        cmocka_unit_test_setup(test_paths, environment_clean),
        cmocka_unit_test_setup(test_plain_user, environment_clean),
    };

    return cmocka_run_group_tests(tests, NULL, printed_free);
}
