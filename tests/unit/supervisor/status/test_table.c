/* `tesup status` as people see it, from a segment made by hand: at 80 and at 200 columns no line is
 * too long, no number is cut, and everything that there is to say is there. */
#include "tests/unit/supervisor/status/status_fixture.h"

#include <ctype.h>
#include <inttypes.h>
#include <locale.h>

#include "supervisor/status/live.h"
#include "supervisor/status/rows.h"
#include "supervisor/status/table.h"
#include "supervisor/status/wrap.h"

typedef int printer(const struct status *status, const struct status_screen *screen);

static int live_print(const struct status *status, const struct status_screen *screen)
{
    static struct status_rates rates;

    status_rates_make(NULL, status, &rates);
    rates.seconds = 1;
    for (size_t i = 0; i < COUNTERS_WORKERS; i++)
        rates.pair[i] = (struct status_rate){1e18, 1e18, 123456789, 1, 0.3, 99999.4, 1e19, 1e19};
    return status_live_print(status, &rates, screen);
}

static char *print(struct fixture *f, printer *print_it, unsigned width, bool colour)
{
    struct status_screen screen = {.width = width, .colour = colour};
    char *text;
    size_t size;

    screen.out = open_memstream(&text, &size);
    take(f);
    assert_int_equal(print_it(&f->status, &screen), 0);
    fclose(screen.out);
    return text;
}

/* Every byte that could be one gets the largest value; names are as long as they can be. */
static void worker_fill_wide(struct counters_worker *worker)
{
    for (size_t i = 0; i < counters_worker_field_count; i++) {
        void *word = (char *)&worker->stats + counters_worker_fields[i].offset;

        atomic_set(word, UINT64_C(12345678901234567));
    }
    memset(worker->life.death, 'd', COUNTERS_TEXT);
    memset(worker->life.bind, 'b', COUNTERS_TEXT);
    atomic_set(&worker->life.death_ns, 1);
    atomic_set(&worker->life.restarts, UINT64_C(12345678901234567));
    atomic_set(&worker->life.pid, 4194304);
    worker->life.numa_node = 255;
}

/* A machine with a NIC, a GPU, jobs, peers in every state, and errors. */
static void machine_fill(struct fixture *f)
{
    struct counters_worker *worker = &f->live->worker[0];
    struct counters_worker_life *life = &worker->life;

    snprintf(life->name, sizeof(life->name), "mlx5_0+0000:44:00.0");
    snprintf(life->nic, sizeof(life->nic), "mlx5_0");
    snprintf(life->port, sizeof(life->port), "active, 400 Gb/s");
    snprintf(life->gpu, sizeof(life->gpu), "0000:44:00.0");
    snprintf(life->distance, sizeof(life->distance), "PIX");
    snprintf(life->reason, sizeof(life->reason), "nearest active NIC: same PCIe switch");
    snprintf(life->death, sizeof(life->death), "killed by SIGSEGV");
    atomic_set(&life->death_ns, WALL - 192 * CLOCK_NS_PER_S);
    atomic_set(&life->restarts, 3);
    atomic_set(&worker->stats.notify_cq_used, 12);
    atomic_set(&worker->stats.notify_cq_capacity, 4096);
    atomic_set(&worker->stats.turn_max_ns, 3100 * CLOCK_NS_PER_US);
    atomic_set(&worker->stats.in_flight, 77);
    atomic_set(&worker->stats.notify_parked, 5);
    atomic_set(&worker->stats.writes, 123456);
    atomic_set(&worker->stats.bytes_written, UINT64_C(987654321098));
    for (uint64_t i = 0; i < ENDPOINT_STATE_COUNT; i++) {
        struct counters_endpoint *endpoint = &worker->endpoint[i];

        snprintf(endpoint->peer, sizeof(endpoint->peer), "10.20.30.%" PRIu64 ":7400", 100 + i);
        snprintf(endpoint->peer_worker, sizeof(endpoint->peer_worker), "tcp@node0");
        snprintf(endpoint->fabric, sizeof(endpoint->fabric), i % 2 ? "tcp" : "local");
        snprintf(endpoint->notify, sizeof(endpoint->notify), i % 2 ? "tcp" : "local");
        atomic_set(&endpoint->state, i);
        atomic_set(&endpoint->since_ns, WALL - 3723 * CLOCK_NS_PER_S);
        atomic_set(&endpoint->bytes_out, UINT64_C(1288490189));
        atomic_set(&endpoint->used, 1);
    }
    for (uint64_t i = 0; i < 3; i++) {
        struct counters_session *session = &f->live->session[i];

        snprintf(session->comm, sizeof(session->comm), "vllm-worker");
        snprintf(session->segment, sizeof(session->segment), "10.20.30.1:7400/prefill-%" PRIu64, i);
        atomic_set(&session->pid, 271820 + i);
        atomic_set(&session->uid, 65534);
        atomic_set(&session->since_ns, WALL - 60 * CLOCK_NS_PER_S);
        atomic_set(&session->used, 1);
    }
    counters_error_add(worker->error,
                       "endpoint to 10.20.30.101:7400 lost: Connection reset by peer");
}

/* ---- properties of every screen ---- */

/* Columns on a terminal: colours take none, a character of UTF-8 takes one. */
static size_t columns_of(const char *line, size_t length)
{
    size_t columns = 0;

    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\033')
            while (line[i] != 'm')
                i++;
        else
            columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return columns;
}

static void expect_lines_fit(const char *text, unsigned width)
{
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");

        if (columns_of(line, length) > width)
            fail_msg("%zu columns: %.*s", columns_of(line, length), (int)length, line);
    }
}

/* The whole word, with what is no part of a number on both sides. */
static void expect_whole(const char *text, const char *word)
{
    for (const char *at = text; (at = strstr(at, word)); at++) {
        unsigned char before = (unsigned char)(at == text ? ' ' : at[-1]);
        unsigned char after = (unsigned char)at[strlen(word)];

        if (!isalnum(before) && !isalnum(after))
            return;
    }
    fail_msg("'%s' is not, or not whole, in:\n%s", word, text);
}

static void test_nothing_is_cut(void **state)
{
    static const char *const words[] = {
        "mlx5_0",
        "0000:44:00.0",
        "PIX",
        "400",
        "3m12s",
        "SIGSEGV",
        "12 of 4096",
        "3.1ms",
        "77",
        "123K",
        "920G",
        "1h02m",
        "1.2G",
        "271820",
        "271821",
        "271822",
        "65534",
        "prefill-0",
        "prefill-2",
        "10.20.30.100:7400",
        "10.20.30.107:7400",
        "restarts 3",
        "parked 5",
    };
    static const unsigned widths[] = {80, 100, 119, 120, 200};
    struct fixture *f = *state;

    machine_fill(f);
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        char *text = print(f, status_table_print, widths[i], false);

        expect_lines_fit(text, widths[i]);
        for (size_t j = 0; j < sizeof(words) / sizeof(words[0]); j++)
            expect_whole(text, words[j]);
        for (uint64_t j = 0; j < ENDPOINT_STATE_COUNT; j++)
            expect_whole(text, endpoint_state_name(j));
        free(text);
    }
}

/* A row of the wide screen is one line: what was a paragraph at 80 columns. */
static void test_wide_is_not_wrapped(void **state)
{
    struct fixture *f = *state;
    char *text;

    machine_fill(f);
    text = print(f, status_table_print, 200, false);
    assert_non_null(strstr(text, "10.20.30.105:7400 tcp@node0: draining for 1h02m over tcp, "
                                 "notifications by tcp (this fabric has no native way); out 1.2G, "
                                 "in 0, reconnects 0\n"));
    assert_non_null(strstr(text, "3m12s ago: killed by SIGSEGV\n"));
    assert_non_null(strstr(text, "DISTANCE"));
    free(text);
    text = print(f, status_table_print, 80, false);
    assert_null(strstr(text, "DISTANCE"));
    free(text);
}

static void test_worst_values_fit(void **state)
{
    static printer *const printers[] = {status_table_print, status_errors_print, live_print};
    static const unsigned widths[] = {80, 200};
    struct fixture *f = *state;
    char text[COUNTERS_TEXT];

    machine_fill(f);
    for (size_t i = 0; i < COUNTERS_WORKERS; i++) {
        worker_fill(&f->live->worker[i], "", (pid_t)(100 + i));
        worker_fill_wide(&f->live->worker[i]);
        memset(f->live->worker[i].life.name, 'n', COUNTERS_LABEL);
        memset(f->live->worker[i].life.nic, 'i', COUNTERS_LABEL);
        memset(f->live->worker[i].life.gpu, 'g', COUNTERS_LABEL);
        memset(f->live->worker[i].life.cpus, '9', COUNTERS_LABEL);
        for (unsigned j = 0; j < COUNTERS_ERRORS; j++) {
            memset(text, 'e', sizeof(text));
            snprintf(text, 8, "%u", j);
            text[strlen(text)] = 'e';
            text[sizeof(text) - 1] = '\0';
            counters_error_add(f->live->worker[i].error, text);
        }
    }
    memset(f->live->session[0].comm, '\xff', sizeof(f->live->session[0].comm));
    memset(f->live->session[0].segment, 's', sizeof(f->live->session[0].segment));
    memset(f->live->worker[0].endpoint[0].peer, 'p', LAYOUT_NAME_MAX);
    for (size_t i = 0; i < sizeof(printers) / sizeof(printers[0]); i++) {
        for (size_t j = 0; j < sizeof(widths) / sizeof(widths[0]); j++) {
            char *screen = print(f, printers[i], widths[j], false);

            expect_lines_fit(screen, widths[j]);
            free(screen);
        }
    }
}

/* ---- what it says ---- */

static void test_says_who_this_is(void **state)
{
    struct fixture *f = *state;
    char *text;

    counters_error_add(f->live->worker[0].error, "peer refused");
    text = print(f, status_table_print, 80, false);
    assert_non_null(strstr(text, "tesup default: ok\n"));
    assert_non_null(strstr(text, "listen 127.0.0.1:7400, fabric auto, peer auth psk"));
    assert_non_null(strstr(text, "native 1, oob_fallback 0, carried by local, tcp"));
    assert_non_null(strstr(text, "tcp@node1"));
    assert_non_null(strstr(text, "Errors counted: 1; `tesup status --errors`"));
    assert_null(strstr(text, "peer refused"));
    assert_null(strstr(text, "notify cq")); /* there is none */
    free(text);
}

static void test_says_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    char *text;

    atomic_set(&f->live->worker[5].stats.heartbeat_ns, 1);
    fixture_process.state = 'T';
    snprintf(f->live->worker[0].life.bind, COUNTERS_TEXT, "memory policy: Operation not permitted");
    text = print(f, status_table_print, 80, false);
    assert_non_null(strstr(text, "tesup default: degraded\n  ! worker tcp@node1"));
    assert_non_null(strstr(text, "tcp@node1 stopped"));
    assert_non_null(strstr(text, "kill -CONT 42"));
    assert_non_null(strstr(text, "memory policy: Operation not permitted"));
    free(text);
}

/* What carries is what is connected, not what was asked for. */
static void test_says_what_carries(void **state)
{
    struct fixture *f = *state;
    struct counters_endpoint *endpoint = f->live->worker[0].endpoint;
    static const char *const ways[][2] = {{"self", "local"},
                                          {"-", "-"},
                                          {"tcp", "tcp"},
                                          {"verbs", "native"},
                                          {"verbs", "tcp: no SRQ"}};
    char *text;

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        snprintf(endpoint[i].fabric, sizeof(endpoint[i].fabric), "%s", ways[i][0]);
        snprintf(endpoint[i].notify, sizeof(endpoint[i].notify), "%s", ways[i][1]);
        atomic_set(&endpoint[i].used, 1);
    }
    text = print(f, status_table_print, 120, false);
    assert_non_null(strstr(text, "carried by tcp, native\n"));
    assert_non_null(strstr(text, "tcp+verbs"));
    assert_non_null(strstr(text, "notifications by native;"));
    assert_non_null(strstr(text, "notifications by tcp: no SRQ;"));
    assert_non_null(strstr(text, "notifications by tcp (this fabric has no native way);"));
    free(text);
    snprintf(f->live->supervisor.notify_native, sizeof(f->live->supervisor.notify_native), "0");
    text = print(f, status_table_print, 120, false);
    assert_non_null(strstr(text, "notifications by tcp (native is switched off);"));
    free(text);
}

static void test_queue_pairs_are_numbered(void **state)
{
    struct fixture *f = *state;
    struct counters_endpoint *endpoint = f->live->worker[0].endpoint;
    char *text;

    snprintf(endpoint->fabric, sizeof(endpoint->fabric), "verbs");
    snprintf(endpoint->notify, sizeof(endpoint->notify), "native");
    endpoint->data_queues = 4;
    for (uint32_t i = 0; i < 4; i++)
        endpoint->data_queue[i] = (struct counters_queue){.own = 17 + i, .peer = 21 + i};
    endpoint->notify_queue = (struct counters_queue){.own = 30, .peer = 40};
    atomic_set(&endpoint->used, 1);
    text = print(f, status_table_print, 200, false);
    assert_non_null(strstr(text, "by native; QPs 17-21, 18-22 and 2 more, notification QP 30-40;"));
    free(text);
    endpoint->data_queues = 1;
    endpoint->notify_queue.own = 0;
    text = print(f, status_table_print, 200, false);
    assert_non_null(strstr(text, "by native; QPs 17-21; out"));
    free(text);
}

static void test_more_endpoints_than_lines(void **state)
{
    struct fixture *f = *state;
    struct counters_worker *worker = &f->live->worker[0];
    char *text;

    for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++)
        atomic_set(&worker->endpoint[i].used, 1);
    atomic_set(&worker->stats.endpoints, 1000);
    text = print(f, status_table_print, 80, false);
    assert_non_null(strstr(text, "872 more, which are counted and not listed"));
    free(text);
}

static void error_put(struct counters_error *error, const char *text, uint64_t count,
                      uint64_t first_s, uint64_t last_s)
{
    snprintf(error->text, sizeof(error->text), "%s", text);
    atomic_set(&error->count, count);
    atomic_set(&error->first_ns, WALL - first_s * CLOCK_NS_PER_S);
    atomic_set(&error->last_ns, WALL - last_s * CLOCK_NS_PER_S);
}

static void test_errors(void **state)
{
    struct fixture *f = *state;
    char *text = print(f, status_errors_print, 80, false);

    assert_non_null(strstr(text, "No error since the supervisor started."));
    free(text);
    error_put(&f->live->worker[5].error[0], "the older one", 3, 7200, 192);
    error_put(&f->live->supervisor.error[9], "the newer one", 1, 50, 50);
    text = print(f, status_errors_print, 80, false);
    expect_lines_fit(text, 80);
    assert_non_null(strstr(text, "    1   50s   50s supervisor the newer one\n"
                                 "    3 2h00m 3m12s tcp@node1  the older one\n"));
    free(text);
    text = print(f, status_errors_print, 200, false);
    assert_non_null(strstr(text, "2025-12-31 22:00:00Z 2025-12-31 23:56:48Z tcp@node1  the older"));
    free(text);
}

static void test_live(void **state)
{
    struct fixture *f = *state;
    char *text;

    machine_fill(f);
    text = print(f, live_print, 80, false);
    expect_lines_fit(text, 80);
    assert_non_null(strstr(text, "  at 2026-01-01T00:00:00.000Z\n"));
    assert_non_null(
        strstr(text, "mlx5_0+0000:44:00.0 mlx5_0   888P 123M    0.3   888P  1.0  99999"));
    assert_non_null(strstr(text, "\nNICS, per second\n"));
    assert_non_null(strstr(text, "3.1ms 12/4096\n"));
    assert_null(strstr(text, "0/0"));
    expect_whole(text, "3.1ms");
    free(text);
}

static void test_live_without_nic_and_cq(void **state)
{
    struct fixture *f = *state;
    char *text = print(f, live_print, 80, false);

    assert_null(strstr(text, "NICS"));
    assert_null(strstr(text, "CQ"));
    free(text);
}

/* ---- how it looks ---- */

static void test_colours(void **state)
{
    struct fixture *f = *state;
    char *text = print(f, status_table_print, 80, false);

    assert_null(strchr(text, '\033'));
    free(text);
    machine_fill(f);
    atomic_set(&f->live->worker[5].life.state, WORKER_STATE_FAILED);
    text = print(f, status_table_print, 80, true);
    expect_lines_fit(text, 80);
    assert_non_null(strstr(text, "\033[31mdegraded\033[0m"));
    assert_non_null(strstr(text, "\033[31mfailed"));
    assert_non_null(strstr(text, "\033[32mready"));
    free(text);
}

/* A file is no terminal, whatever the environment says. */
static void test_screen_of_a_file(void **state)
{
    struct status_screen screen;
    FILE *file = tmpfile();

    (void)state;
    assert_non_null(file);
    setenv("TERM", "xterm-256color", 1);
    unsetenv("COLUMNS");
    status_screen_detect(&screen, file);
    assert_false(screen.colour);
    assert_int_equal(screen.width, 80);
    setenv("COLUMNS", "200", 1);
    status_screen_detect(&screen, file);
    assert_int_equal(screen.width, 200);
    setenv("COLUMNS", "7", 1);
    status_screen_detect(&screen, file);
    assert_int_equal(screen.width, 80);
    setenv("COLUMNS", "99999999", 1);
    status_screen_detect(&screen, file);
    assert_int_equal(screen.width, 1000);
    unsetenv("COLUMNS");
    fclose(file);
}

static void test_tree_of_utf8(void **state)
{
    struct fixture *f = *state;
    char *text;

    machine_fill(f);
    text = print(f, status_tree_print, 80, false);
    assert_non_null(strstr(text, "\n`-peer"));
    free(text);
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        fail_msg("the locale C.UTF-8, which belongs to the C library, is missing");
    text = print(f, status_tree_print, 80, false);
    setlocale(LC_CTYPE, "C");
    expect_lines_fit(text, 80);
    assert_non_null(strstr(text, "\n└─peer"));
    free(text);
}

static void test_untrusted_names(void **state)
{
    struct fixture *f = *state;
    struct counters_session *session = &f->live->session[0];
    char *text;

    memcpy(session->comm,
           "a\033]0;x\a\xff\xfe\x9b"
           "31m\n..",
           sizeof(session->comm));
    snprintf(session->segment, sizeof(session->segment),
             "127.0.0.1:7400/\xc2\x9b"
             "2J");
    snprintf(f->live->worker[0].endpoint[0].peer, LAYOUT_NAME_MAX, "\033[2J:7400");
    atomic_set(&f->live->worker[0].endpoint[0].used, 1);
    atomic_set(&session->used, 1);
    counters_error_add(f->live->worker[0].error, "\033c");
    text = print(f, status_table_print, 80, false);
    for (const char *byte = text; *byte; byte++)
        assert_true(*byte == '\n' || (*byte >= ' ' && *byte <= '~'));
    assert_non_null(strstr(text, "a\\x1b]0;x\\x07\\xff\\xfe\\x9b31m\\x0a"));
    assert_non_null(strstr(text, "\\x1b[2J:7400"));
    free(text);
    text = print(f, status_errors_print, 80, false);
    assert_null(strchr(text, '\033'));
    free(text);
}

/* ---- layout ---- */

static void wrapped(const char *text, size_t width, const char *expected)
{
    char lines[256];

    status_wrap(text, width, lines, sizeof(lines));
    assert_string_equal(lines, expected);
}

static void test_wrap(void **state)
{
    (void)state;
    wrapped("", 5, "");
    wrapped("one two three", 80, "one two three");
    wrapped("one two three", 7, "one two\nthree");
    wrapped("one two three", 6, "one\ntwo\nthree");
    wrapped("  blanks  inside  ", 80, "blanks  inside");
    wrapped("abcdefghij", 4, "abcd\nefgh\nij");
    wrapped("mlx5_0+0000:44:00.0", 14, "mlx5_0+\n0000:44:00.0");
    wrapped("a abcdefgh", 4, "a\nabcd\nefgh");
}

static void test_widths(void **state)
{
    struct status_width columns[] = {
        {.natural = 10},
        {.natural = 30, .wrap = true, .least = 8},
        {.natural = 6, .wrap = true, .least = 8},
        {.natural = 90, .wrap = true, .least = 8},
    };

    (void)state;
    status_width_share(columns, 4, 200);
    assert_int_equal(columns[1].width, 30);
    assert_int_equal(columns[2].width, 6);
    assert_int_equal(columns[3].width, 90);
    status_width_share(columns, 4, 80); /* 30 is less than its part of what is left */
    assert_int_equal(columns[0].width, 10);
    assert_int_equal(columns[1].width, 30);
    assert_int_equal(columns[2].width, 6);
    assert_int_equal(columns[3].width, 34);
    status_width_share(columns, 4, 60); /* the long ones get the same */
    assert_int_equal(columns[1].width, 22);
    assert_int_equal(columns[3].width, 22);
    status_width_share(columns, 4, 20); /* more than there is, but readable */
    assert_int_equal(columns[1].width, 8);
    assert_int_equal(columns[3].width, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_cut),
        TEST(test_wide_is_not_wrapped),
        TEST(test_worst_values_fit),
        TEST(test_says_who_this_is),
        TEST(test_says_what_is_wrong),
        TEST(test_says_what_carries),
        TEST(test_queue_pairs_are_numbered),
        TEST(test_more_endpoints_than_lines),
        TEST(test_errors),
        TEST(test_live),
        TEST(test_live_without_nic_and_cq),
        TEST(test_colours),
        cmocka_unit_test(test_screen_of_a_file),
        TEST(test_tree_of_utf8),
        TEST(test_untrusted_names),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_widths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
