/* `tesup status`: the copy and JSON of a segment made by hand, and how it is found. */
#include "tests/unit/supervisor/status/status_fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>

#include "shm/process.h"
#include "supervisor/command/locate.h"
#include "supervisor/status/format.h"
#include "supervisor/status/json.h"

static json_t *document_make(struct fixture *f)
{
    take(f);
    json_t *document = status_json_make(&f->status, NULL);
    assert_non_null(document);
    return document;
}

/* The member at a path like "pairs/0/worker/pid". */
static json_t *at(json_t *value, const char *path)
{
    char copy[128];
    char *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *part = strtok_r(copy, "/", &rest); part; part = strtok_r(NULL, "/", &rest))
        value = json_is_array(value) ? json_array_get(value, strtoul(part, NULL, 10))
                                     : json_object_get(value, part);
    if (!value)
        fail_msg("there is no %s", path);
    return value;
}

static void assert_text(json_t *document, const char *path, const char *expected)
{
    if (!json_is_string(at(document, path)))
        fail_msg("%s is no string", path);
    assert_string_equal(json_string_value(at(document, path)), expected);
}

static void assert_number(json_t *document, const char *path, int64_t expected)
{
    if (!json_is_integer(at(document, path)))
        fail_msg("%s is no number", path);
    assert_int_equal(json_integer_value(at(document, path)), expected);
}

static void test_healthy(void **state)
{
    struct fixture *f = *state;
    json_t *document = document_make(f);

    assert_text(document, "health", "ok");
    assert_int_equal(json_array_size(at(document, "reasons")), 0);
    assert_text(document, "supervisor/name", "default");
    assert_number(document, "supervisor/pid", 40);
    assert_text(document, "supervisor/version", "9.8.7");
    assert_text(document, "supervisor/listen", "127.0.0.1:7400");
    assert_text(document, "supervisor/socket", "/r/default.sock");
    assert_text(document, "supervisor/fabric", "auto");
    assert_text(document, "supervisor/peer_auth", "psk");
    assert_true(json_is_true(at(document, "supervisor/notify/native")));
    assert_true(json_is_false(at(document, "supervisor/notify/oob_fallback")));
    assert_text(document, "supervisor/notify/carried_by", "local, tcp"); /* what may */
    assert_true(json_is_null(at(document, "supervisor/stuck")));
    assert_number(document, "supervisor/heartbeat_age_ms", 250);
    assert_text(document, "supervisor/started", "2025-12-31T23:00:00.000Z");

    assert_int_equal(json_array_size(at(document, "pairs")), 2);
    assert_text(document, "pairs/1/name", "tcp@node1");
    assert_true(json_is_null(at(document, "pairs/0/nic")));
    assert_true(json_is_null(at(document, "pairs/0/gpu")));
    assert_true(json_is_null(at(document, "pairs/0/port")));
    assert_true(json_is_null(at(document, "pairs/0/distance")));
    assert_number(document, "pairs/0/numa_node", 0);
    assert_text(document, "pairs/0/cpus", "2");
    assert_text(document, "pairs/0/fabric", "tcp");
    assert_text(document, "pairs/0/fabric_in_use", "tcp");
    assert_text(document, "pairs/0/reason", "one per NUMA node");
    assert_number(document, "pairs/0/worker/pid", 41);
    assert_text(document, "pairs/0/worker/state", "ready");
    assert_true(json_is_null(at(document, "pairs/0/worker/stuck")));
    assert_text(document, "pairs/0/worker/ready_since", "2025-12-31T23:59:00.000Z");
    assert_number(document, "pairs/0/worker/heartbeat_age_ms", 1000);
    assert_true(json_is_null(at(document, "pairs/0/worker/last_exit")));
    assert_int_equal(json_array_size(at(document, "sessions")), 0);
    json_decref(document);
}

static void test_every_counter_is_there(void **state)
{
    struct fixture *f = *state;
    struct counters_worker_stats *stats = &f->live->worker[0].stats;
    char path[96];

    for (size_t i = 0; i < counters_worker_field_count; i++) {
        void *word = (char *)stats + counters_worker_fields[i].offset;

        atomic_set(word, 100 + i);
    }
    atomic_set(&stats->turn_max_ns, UINT64_MAX); /* more than JSON readers can hold */
    json_t *document = document_make(f);
    assert_int_equal(json_object_size(at(document, "pairs/0/worker/counters")),
                     counters_worker_field_count);
    for (size_t i = 0; i < counters_worker_field_count; i++) {
        const char *name = counters_worker_fields[i].name;

        snprintf(path, sizeof(path), "pairs/0/worker/counters/%s", name);
        assert_number(document, path,
                      strcmp(name, "turn_max_ns") == 0 ? INT64_MAX : (int64_t)(100 + i));
    }
    json_decref(document);
}

static void test_lists(void **state)
{
    struct fixture *f = *state;
    struct counters_session *session = &f->live->session[200];
    struct counters_endpoint *endpoint = &f->live->worker[5].endpoint[127];

    snprintf(session->comm, sizeof(session->comm), "vllm");
    snprintf(session->segment, sizeof(session->segment), "127.0.0.1:7400/prefill");
    atomic_set(&session->pid, 77);
    atomic_set(&session->uid, 1000);
    atomic_set(&session->worker, 5);
    atomic_set(&session->channels, 3);
    atomic_set(&session->used, 1);
    snprintf(endpoint->peer, sizeof(endpoint->peer), "[::1]:7400");
    snprintf(endpoint->peer_worker, sizeof(endpoint->peer_worker), "tcp@node0");
    snprintf(endpoint->fabric, sizeof(endpoint->fabric), "local");
    snprintf(endpoint->notify, sizeof(endpoint->notify), "local");
    endpoint->notify_queue = (struct counters_queue){.own = 19, .peer = 23};
    endpoint->data_queues = 2;
    endpoint->data_queue[1] = (struct counters_queue){.own = 18, .peer = 22};
    atomic_set(&endpoint->state, ENDPOINT_READY);
    atomic_set(&endpoint->since_ns, WALL - 1500 * CLOCK_NS_PER_MS);
    atomic_set(&endpoint->bytes_out, 5);
    atomic_set(&endpoint->used, 1);
    snprintf(f->live->worker[5].life.death, COUNTERS_TEXT, "killed by SIGKILL");
    atomic_set(&f->live->worker[5].life.death_ns, WALL);
    atomic_set(&f->live->worker[5].life.restarts, 2);
    counters_error_add(f->live->worker[5].error, "peer refused");
    counters_error_add(f->live->worker[5].error, "peer refused");
    counters_error_add(f->live->supervisor.error, "port scan");

    json_t *document = document_make(f);
    assert_text(document, "health", "ok"); /* what happened once is no illness now */
    assert_int_equal(json_array_size(at(document, "sessions")), 1);
    assert_text(document, "sessions/0/command", "vllm");
    assert_text(document, "sessions/0/segment", "127.0.0.1:7400/prefill");
    assert_text(document, "sessions/0/pair", "tcp@node1");
    assert_number(document, "sessions/0/pid", 77);
    assert_number(document, "sessions/0/uid", 1000);
    assert_number(document, "sessions/0/channels", 3);
    assert_int_equal(json_array_size(at(document, "pairs/1/endpoints")), 1);
    assert_text(document, "pairs/1/endpoints/0/peer", "[::1]:7400");
    assert_text(document, "pairs/1/endpoints/0/state", "ready");
    assert_number(document, "pairs/1/endpoints/0/bytes_out", 5);
    assert_number(document, "pairs/1/endpoints/0/state_age_ms", 1500);
    assert_int_equal(json_array_size(at(document, "pairs/1/endpoints/0/queue_pairs/data")), 2);
    assert_number(document, "pairs/1/endpoints/0/queue_pairs/data/1/own", 18);
    assert_number(document, "pairs/1/endpoints/0/queue_pairs/data/1/peer", 22);
    assert_number(document, "pairs/1/endpoints/0/queue_pairs/notification/own", 19);
    assert_text(document, "pairs/1/fabric_in_use", "local");
    assert_text(document, "pairs/1/fabric", "tcp");
    assert_text(document, "supervisor/notify/carried_by", "local");
    assert_text(document, "pairs/1/worker/last_exit/reason", "killed by SIGKILL");
    assert_text(document, "pairs/1/worker/last_exit/at", "2026-01-01T00:00:00.000Z");
    assert_number(document, "pairs/1/worker/restarts", 2);
    assert_text(document, "pairs/1/errors/0/text", "peer refused");
    assert_number(document, "pairs/1/errors/0/count", 2);
    assert_text(document, "supervisor/errors/0/text", "port scan");
    json_decref(document);
}

static void test_rates_and_stuck(void **state)
{
    struct fixture *f = *state;
    struct status_rates rates = {.seconds = 2, .nic_count = 1};

    rates.pair[5].ops_out = 7.5;
    snprintf(rates.nic[0].nic, sizeof(rates.nic[0].nic), "mlx5_0");
    rates.nic[0].rate.notes_in = 3;
    fixture_process.state = 'T';
    atomic_set(&f->live->worker[5].stats.heartbeat_ns, 1);
    take(f);
    json_t *document = status_json_make(&f->status, &rates);
    assert_text(document, "pairs/1/worker/state", "hung"); /* as ever, for those that read it */
    assert_text(document, "pairs/1/worker/stuck/kind", "stopped");
    assert_non_null(
        strstr(json_string_value(at(document, "pairs/1/worker/stuck/why")), "-CONT 42"));
    assert_float_equal(json_real_value(at(document, "rates/pairs/tcp@node1/ops_out")), 7.5, 1e-9);
    assert_float_equal(json_real_value(at(document, "rates/nics/mlx5_0/notify_in")), 3, 1e-9);
    assert_float_equal(json_real_value(at(document, "rates/seconds")), 2, 1e-9);
    json_decref(document);
}

static void assert_degraded(struct fixture *f, const char *worker_state, const char *reason)
{
    json_t *document = document_make(f);

    assert_text(document, "health", "degraded");
    assert_text(document, "pairs/1/worker/state", worker_state);
    assert_int_equal(json_array_size(at(document, "reasons")), 1);
    if (!strstr(json_string_value(at(document, "reasons/0")), reason))
        fail_msg("'%s' is not in '%s'", reason, json_string_value(at(document, "reasons/0")));
    json_decref(document);
}

static void test_hung_worker(void **state)
{
    struct fixture *f = *state;
    struct counters_worker *worker = &f->live->worker[5];

    atomic_set(&worker->stats.heartbeat_ns, NOW - STATUS_HEARTBEAT_NS);
    take(f);
    assert_int_equal(f->status.reason_count, 0);
    atomic_set(&worker->stats.heartbeat_ns, NOW - STATUS_HEARTBEAT_NS - 1);
    assert_degraded(f, "hung", "tcp@node1 (pid 42) does not move: last heartbeat 2500 ms ago");
    atomic_set(&worker->stats.heartbeat_ns, 0);
    assert_degraded(f, "hung", "no heartbeat yet");
    /* A beat between the look at the clock and the look at the counter is none of the future. */
    atomic_set(&worker->stats.heartbeat_ns, NOW + 1000);
    take(f);
    assert_int_equal(f->status.reason_count, 0);
}

static void test_worker_states(void **state)
{
    static const uint64_t states[] = {WORKER_STATE_DOWN, WORKER_STATE_STARTING, WORKER_STATE_FAILED,
                                      WORKER_STATE_BACKOFF, WORKER_STATE_DRAINING};
    struct fixture *f = *state;

    snprintf(f->live->worker[5].life.death, COUNTERS_TEXT, "exit 3");
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        atomic_set(&f->live->worker[5].life.state, states[i]);
        assert_degraded(f, worker_state_name(states[i]), "last death: exit 3");
    }
    atomic_set(&f->live->worker[5].life.state, 99);
    assert_degraded(f, "unknown", "unknown");
}

static void test_supervisor_health(void **state)
{
    struct fixture *f = *state;

    atomic_set(&f->live->supervisor.heartbeat_ns, NOW - 3 * CLOCK_NS_PER_S);
    assert_degraded(f, "ready", "the supervisor does not move: last heartbeat 3000 ms ago");
    atomic_set(&f->live->supervisor.heartbeat_ns, NOW);
    atomic_set(&f->live->supervisor.draining, 1);
    assert_degraded(f, "ready", "draining");
    atomic_set(&f->live->supervisor.draining, 0);
    atomic_set(&f->live->worker[0].life.used, 0);
    atomic_set(&f->live->worker[5].life.used, 0);
    take(f);
    assert_int_equal(f->status.reason_count, 1);
    assert_string_equal(f->status.reason[0], "there is no worker");
}

/* Every worker ill and the supervisor too: all reasons have room. */
static void test_all_ill(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNTERS_WORKERS; i++) {
        memset(f->live->worker[i].life.name, 'w', COUNTERS_LABEL); /* no end */
        memset(f->live->worker[i].life.death, 'd', COUNTERS_TEXT);
        atomic_set(&f->live->worker[i].life.state, WORKER_STATE_FAILED);
        atomic_set(&f->live->worker[i].life.used, 1);
    }
    atomic_set(&f->live->supervisor.heartbeat_ns, 0);
    atomic_set(&f->live->supervisor.draining, 1);
    take(f);
    assert_int_equal(f->status.reason_count, STATUS_REASONS_MAX);
}

static void test_untrusted_names(void **state)
{
    struct fixture *f = *state;
    struct counters_session *session = &f->live->session[0];

    memcpy(session->comm,
           "a\033]0;x\a\xff\xfe\x9b"
           "31m\n..",
           sizeof(session->comm));
    snprintf(session->segment, sizeof(session->segment),
             "127.0.0.1:7400/\xc2\x9b"
             "2J");
    atomic_set(&session->worker, UINT64_MAX);
    atomic_set(&session->used, 1);
    json_t *document = document_make(f);
    assert_text(document, "sessions/0/segment",
                "127.0.0.1:7400/\xc2\x9b"
                "2J");
    assert_non_null(strstr(json_string_value(at(document, "sessions/0/command")), "\\x9b31m"));
    assert_true(json_is_null(at(document, "sessions/0/pair")));
    char *dump = json_dumps(document, JSON_ENSURE_ASCII | JSON_INDENT(2));
    for (const char *byte = dump; *byte; byte++)
        assert_true(*byte == '\n' || (*byte >= ' ' && *byte <= '~'));
    free(dump);
    json_decref(document);
}

static void test_format(void **state)
{
    static const struct {
        uint64_t seconds;
        const char *age;
    } ages[] = {{0, "0s"},        {59, "59s"},       {192, "3m12s"},
                {18180, "5h03m"}, {187200, "2d04h"}, {8640000, "100d"}};
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        status_format_age(WALL - ages[i].seconds * CLOCK_NS_PER_S, WALL, text, sizeof(text));
        assert_string_equal(text, ages[i].age);
    }
    status_format_age(0, WALL, text, sizeof(text));
    assert_string_equal(text, "-");
    status_format_age(WALL + 5 * CLOCK_NS_PER_S, WALL, text, sizeof(text)); /* the clock was set */
    assert_string_equal(text, "0s");
    status_format_bytes(1023, text, sizeof(text));
    assert_string_equal(text, "1023");
    status_format_bytes(1536, text, sizeof(text));
    assert_string_equal(text, "1.5K");
    status_format_bytes(UINT64_MAX, text, sizeof(text));
    assert_string_equal(text, "16.0E");
    status_format_bytes(UINT64_C(1048575), text, sizeof(text));
    assert_string_equal(text, "1024K");
    status_format_count(99999, text, sizeof(text));
    assert_string_equal(text, "99999");
    status_format_count(123456, text, sizeof(text));
    assert_string_equal(text, "123K");
    status_format_count(UINT64_MAX, text, sizeof(text));
    assert_string_equal(text, "18.4E");
    status_format_rate(0.25, text, sizeof(text));
    assert_string_equal(text, "0.2");
    status_format_rate(312.4, text, sizeof(text));
    assert_string_equal(text, "312");
    status_format_duration(0, text, sizeof(text));
    assert_string_equal(text, "0");
    status_format_duration(3140 * CLOCK_NS_PER_US, text, sizeof(text));
    assert_string_equal(text, "3.1ms");
    status_format_duration(120 * CLOCK_NS_PER_S, text, sizeof(text));
    assert_string_equal(text, "120s");
    status_format_safe("\x01\x01\x01\x01\x01\x01\x01\x01", text, 10);
    assert_string_equal(text, "\\x01\\x01");
    status_format_safe("a\\x", text, sizeof(text));
    assert_string_equal(text, "a\\x5cx");
}

static void test_lock_line(void **state)
{
    static const char *const bad[] = {"",          "\n",       "1 2\n",           "1 2 3",
                                      "0 2 3\n",   "-1 2 3\n", "1 0 3\n",         "1 2 -3\n",
                                      "1 2 3 4\n", "x 2 3\n",  "9999999999 2 3\n"};
    struct located found;

    (void)state;
    assert_int_equal(locate_line_parse("12 345 6\n", &found), 0);
    assert_int_equal(found.pid, 12);
    assert_int_equal(found.start_time, 345);
    assert_int_equal(found.counters_fd, 6);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (locate_line_parse(bad[i], &found) == 0)
            fail_msg("taken: %s", bad[i]);
}

static void lock_file_write(const struct options_paths *paths, uint64_t start, int fd)
{
    FILE *file = fopen(paths->lock, "w");

    assert_non_null(file);
    fprintf(file, "%d %" PRIu64 " %d\n", (int)getpid(), start, fd);
    fclose(file);
}

/* This process plays the supervisor: with and without its lock, and as one whose pid was reused. */
static void test_read_by_lock_file(void **state)
{
    struct fixture *f = *state;
    char directory[] = "/tmp/tesup-test-status-XXXXXX";
    struct options_paths paths;
    char text[512];
    uint64_t start = process_start_time(getpid());

    assert_non_null(mkdtemp(directory));
    assert_int_equal(options_paths_default("n", directory, &paths, text, sizeof(text)), 0);
    assert_int_equal(status_read(&paths, &f->status, text, sizeof(text)), STATUS_NOBODY);
    assert_non_null(strstr(text, paths.lock));

    lock_file_write(&paths, start, f->fd);
    assert_int_equal(status_read(&paths, &f->status, text, sizeof(text)), STATUS_NOBODY);
    assert_non_null(strstr(text, "left over"));

    int lock = open(paths.lock, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(status_read(&paths, &f->status, text, sizeof(text)), STATUS_READ);
    assert_string_equal(f->status.seen->supervisor.name, "default");

    lock_file_write(&paths, start + 1, f->fd);
    status_free(&f->status);
    assert_int_equal(status_read(&paths, &f->status, text, sizeof(text)), STATUS_NOBODY);

    lock_file_write(&paths, start, lock); /* no counters behind that number */
    assert_int_equal(status_read(&paths, &f->status, text, sizeof(text)), STATUS_UNREADABLE);
    assert_int_equal(truncate(paths.lock, 0), 0);
    assert_int_equal(status_read(&paths, &f->status, text, sizeof(text)), STATUS_NOBODY);
    assert_non_null(strstr(text, "empty"));

    close(lock);
    unlink(paths.lock);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_healthy),
        TEST(test_every_counter_is_there),
        TEST(test_lists),
        TEST(test_rates_and_stuck),
        TEST(test_hung_worker),
        TEST(test_worker_states),
        TEST(test_supervisor_health),
        TEST(test_all_ill),
        TEST(test_untrusted_names),
        TEST(test_read_by_lock_file),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_lock_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
