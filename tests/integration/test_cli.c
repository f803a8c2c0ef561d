/* The command line on real processes: serve, status, topology, run; and what they leave: nothing.
 */
#include "tests/harness/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/daemon.h"
#include "tests/harness/namespace.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define TESUP TESUP_BIN_DIR "/tesup "

static struct command command; /* large */

/* `tesup WORDS` in the directory of this program's daemons. */
static void tesup(const char *words)
{
    char line[1000];

    snprintf(line, sizeof(line), TESUP "%.700s --runtime-dir %s", words, daemon_directory());
    command_run(&command, line);
}

static void serve_refused(const char *words)
{
    char line[700];

    snprintf(line, sizeof(line), "serve --foreground --peer-key %s/peer.key %s", daemon_directory(),
             words);
    tesup(line);
}

/* Refused is not the same as degraded: status reads counters, so wait until it sees `code`. */
static void status_wait(int code, unsigned ms)
{
    struct wait wait = wait_begin("the exit code of tesup status", ms);

    for (;;) {
        tesup("status --name cli");
        if (command.code == code)
            return;
        wait_step(&wait);
    }
}

static void sentence_expect(const char *part)
{
    command_expect_text(tesup_last_error(), part);
}

/* ---- serve ---- */

static void second_daemon_is_refused(void **state)
{
    struct daemon daemon;
    char pid[32];

    (void)state;
    daemon_start(&daemon, "cli", "");
    serve_refused("--name cli --listen 127.0.0.1:0");
    command_expect_code(&command, 1);
    command_expect_text(command.err, "cli");
    snprintf(pid, sizeof(pid), "pid %d", (int)daemon.pid);
    command_expect_text(command.err, pid);
    tesup("status --name cli");
    command_expect_code(&command, 0);
    daemon_stop(&daemon);
}

static void taken_port_is_named(void **state)
{
    struct daemon daemon;
    char words[320];

    (void)state;
    daemon_start(&daemon, "cli", "");
    snprintf(words, sizeof(words), "--name other --listen %s", daemon.address);
    serve_refused(words);
    command_expect_code(&command, 1);
    command_expect_text(command.err, daemon.address);
    daemon_stop(&daemon);
}

/* Attaches, and reaches its own segment by the name that the listen address made. */
static void serve_expect_reachable(const char *listen, const char *prefix)
{
    char options[64], name[400];
    struct tesup_request hello = {.op = TESUP_OP_NOTIFY, .name = "hello", .name_len = 5};
    struct daemon left, right;
    struct party a, b;

    snprintf(options, sizeof(options), "--listen %s --fabric tcp", listen);
    daemon_start(&left, "left", options);
    daemon_start(&right, "right", options);
    party_attach(&a, &left, NULL);
    party_attach(&b, &right, NULL);
    snprintf(name, sizeof(name), "%s", tesup_segment_name(b.session));
    assert_memory_equal(name, prefix, strlen(prefix));
    hello.remote = party_open(&a, name);
    party_check(party_do(a.channel, &hello).status, "hello");
    struct tesup_notification note = party_next(b.channel);
    assert_true(party_name_is(&note, "hello"));
    party_detach(&a);
    party_detach(&b);
    daemon_stop(&left);
    daemon_stop(&right);
}

static bool host_has_ipv6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    if (fd >= 0)
        close(fd);
    return has;
}

static void ipv6_literal_works(void **state)
{
    (void)state;
    if (!host_has_ipv6())
        namespace_enter_loopback();
    if (!host_has_ipv6())
        fail_msg("this kernel has no IPv6: boot it without ipv6.disable=1");
    serve_expect_reachable("[::1]:0", "[::1]:");
}

static void host_name_works(void **state)
{
    (void)state;
    serve_expect_reachable("localhost:0", "localhost:");
}

static void stale_socket_is_replaced(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct daemon daemon;
    struct party party;

    (void)state;
    snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/cli.sock", daemon_directory());
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd); /* the file stays, as after a SIGKILL */
    daemon_start(&daemon, "cli", "");
    party_attach(&party, &daemon, NULL);
    party_detach(&party);
    daemon_stop(&daemon);
}

/* daemon_stop looks at processes and files; this is about jobs that are attached. */
static void sigterm_ends_sessions(void **state)
{
    struct tesup_request request = {.op = TESUP_OP_NOP};
    struct tesup_completion done;
    struct daemon daemon;
    struct party party;
    uint32_t accepted;

    (void)state;
    daemon_start(&daemon, "cli", "--workers 2");
    pid_t workers[DAEMON_WORKERS];
    assert_int_equal(daemon_workers(&daemon, workers), 2);
    party_attach(&party, &daemon, NULL);
    party_check(party_do(party.channel, &request).status, "NOP");
    daemon_stop(&daemon);
    /* Not seen yet by this channel, it may still take a request: then that ends, and not well. */
    int code = tesup_submit(party.channel, &request, 1, NULL, &accepted);
    if (code == TESUP_OK) {
        done = party_complete(party.channel);
        assert_true(done.status < 0);
    }
    assert_true(tesup_poll(party.channel, &done, 1) <= 0);
    party_expect(tesup_wait(party.channel, 2000), TESUP_ERR_GONE);
    sentence_expect(daemon.socket);
    party_detach(&party);
}

static pid_t lock_holder(const char *path)
{
    char line[64] = "";
    FILE *file = fopen(path, "re");

    assert_non_null(file);
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    fclose(file);
    return (pid_t)strtol(line, NULL, 10);
}

/* command_run reads until nobody holds its pipes: neither the daemon nor its workers may. */
static void background_daemon_lets_go(void **state)
{
    char line[600];

    (void)state;
    snprintf(line, sizeof(line), "serve --name back --listen 127.0.0.1:0 --peer-key %s/peer.key",
             daemon_directory());
    tesup(line);
    command_expect_code(&command, 0);
    command_expect_text(command.out, "listening on 127.0.0.1:");
    tesup("status --name back");
    command_expect_code(&command, 0);
}

/* Also where the test above failed. */
static int background_teardown(void **state)
{
    char lock[DAEMON_PATH];
    pid_t pid;

    (void)state;
    snprintf(lock, sizeof(lock), "%s/back.lock", daemon_directory());
    if (access(lock, F_OK) < 0)
        return 0;
    pid = lock_holder(lock);
    if (pid <= 0 || kill(pid, SIGTERM) < 0)
        return -1;
    wait_pid_gone(pid, 10000);
    return access(lock, F_OK) < 0 ? 0 : -1;
}

static void bad_config_names_its_line(void **state)
{
    static const char *const files[][2] = {
        {"[peer]\nlisten = 127.0.0.1:0\nlisen = x\n", ":3: unknown key 'lisen'"},
        {"[worker]\ncount = many\n", ":2: "},
        {"[peer]\nconnect_timeout = 5\n", ":2: connect_timeout: '5' has no unit"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char words[320];
        snprintf(words, sizeof(words), "--name bad %s", daemon_config(files[i][0]));
        serve_refused(words);
        command_expect_code(&command, 2);
        command_expect_text(command.err, files[i][1]);
    }
    setenv("MC_RDMA_NOTIFY_ENABLED", "on", 1);
    serve_refused("--name bad");
    unsetenv("MC_RDMA_NOTIFY_ENABLED");
    command_expect_code(&command, 2);
    command_expect_text(command.err, "MC_RDMA_NOTIFY_ENABLED");
    command_expect_text(command.err, "0, 1, true or false");
}

/* ---- status ---- */

static json_t *json_of(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);

    if (!json)
        fail_msg("line %d: %s", error.line, error.text);
    return json;
}

static void status_tells_who_is_there(void **state)
{
    const char *health, *comm_segment, *worker_state;
    int supervisor_pid, worker_pid, session_pid;
    pid_t workers[DAEMON_WORKERS];
    struct daemon daemon;
    struct party party;

    (void)state;
    tesup("status --name cli");
    command_expect_code(&command, 2);
    command_expect_text(command.err, "tesup serve");
    daemon_start(&daemon, "cli", "");
    party_attach(&party, &daemon, "seen");
    status_wait(0, WAIT_MS);
    command_expect_text(command.out, "ready");
    tesup("status --json --name cli");
    command_expect_code(&command, 0);
    json_t *json = json_of(command.out);
    assert_int_equal(json_unpack(json, "{s:{s:i}, s:s, s:[{s:{s:i, s:s}}], s:[{s:i, s:s}]}",
                                 "supervisor", "pid", &supervisor_pid, "health", &health, "pairs",
                                 "worker", "pid", &worker_pid, "state", &worker_state, "sessions",
                                 "pid", &session_pid, "segment", &comm_segment),
                     0);
    assert_int_equal(daemon_workers(&daemon, workers), 1);
    assert_int_equal(supervisor_pid, daemon.pid);
    assert_int_equal(worker_pid, workers[0]);
    assert_int_equal(session_pid, getpid());
    assert_string_equal(health, "ok");
    assert_string_equal(worker_state, "ready");
    assert_non_null(strstr(comm_segment, "seen"));
    json_decref(json);
    party_detach(&party);
    daemon_stop(&daemon);
}

static void stopped_worker_is_degraded(void **state)
{
    pid_t workers[DAEMON_WORKERS];
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "cli", "");
    status_wait(0, WAIT_MS);
    assert_int_equal(daemon_workers(&daemon, workers), 1);
    kill(workers[0], SIGSTOP);
    status_wait(1, 3000);
    command_expect_text(command.out, "does not move");
    kill(workers[0], SIGCONT);
    status_wait(0, 3000);
    daemon_stop(&daemon);
}

static void stopped_supervisor_is_degraded(void **state)
{
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "cli", "");
    status_wait(0, WAIT_MS);
    kill(daemon.pid, SIGSTOP);
    status_wait(1, 3000);
    kill(daemon.pid, SIGCONT);
    status_wait(0, 3000);
    daemon_stop(&daemon);
}

/* Two deaths within the window, and it is given up; the other worker and the daemon stay. */
static void failed_worker_is_shown(void **state)
{
    pid_t workers[DAEMON_WORKERS];
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "cli", "--workers 2 --restart-max-deaths 2 --restart-backoff-max 100ms");
    status_wait(0, WAIT_MS);
    struct wait wait = wait_begin("the state failed", WAIT_MS);
    pid_t victim = 0;
    for (;;) {
        tesup("status --json --name cli");
        json_t *json = json_of(command.out);
        json_t *worker =
            json_object_get(json_array_get(json_object_get(json, "pairs"), 0), "worker");
        const char *now = json_string_value(json_object_get(worker, "state"));
        pid_t pid = (pid_t)json_integer_value(json_object_get(worker, "pid"));
        bool failed = strcmp(now, "failed") == 0;
        bool ready = strcmp(now, "ready") == 0;
        json_decref(json);
        if (failed)
            break;
        if (ready && pid != victim) {
            kill(pid, SIGKILL);
            victim = pid;
        }
        wait_step(&wait);
    }
    command_expect_code(&command, 1);
    command_expect_text(command.out, "killed by SIGKILL");
    assert_int_equal(daemon_workers(&daemon, workers), 1);
    daemon_stop(&daemon);
}

/* ---- topology ---- */

static void topology_as_json(void **state)
{
    (void)state;
    command_run(&command, TESUP "topology --json");
    command_expect_code(&command, 0);
    json_t *json = json_of(command.out);
    assert_true(json_is_object(json));
    assert_true(json_object_size(json) > 0);
    json_decref(json);
    command_run(&command, TESUP "topology");
    command_expect_code(&command, 0);
    command_expect_text(command.out, "tcp@node");
}

/* ---- run ---- */

static void run_returns_the_exit_code(void **state)
{
    (void)state;
    command_run(&command, TESUP "run --private -- true");
    command_expect_code(&command, 0);
    command_run(&command, TESUP "run --private -- sh -c exit\t7");
    command_expect_code(&command, 7);
    command_run(&command, TESUP "run --private -- sh -c kill\t-9\t$$");
    command_expect_code(&command, 128 + SIGKILL);
    command_run(&command, TESUP "run --private -- tesup-no-such-command");
    command_expect_code(&command, 127);
    command_run(&command, TESUP "run --private -- printenv TESUP_SOCKET");
    command_expect_code(&command, 0);
    command_expect_text(command.out, ".sock");
    command_run(&command, TESUP "run");
    command_expect_code(&command, 2);
    command_expect_nothing_left();
}

static void run_uses_the_daemon_that_is_there(void **state)
{
    char line[400];
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "cli", "");
    snprintf(line, sizeof(line), TESUP "run --name cli --runtime-dir %s -- printenv TESUP_SOCKET",
             daemon_directory());
    command_run(&command, line);
    command_expect_code(&command, 0);
    command_expect_text(command.out, daemon.socket);
    daemon_stop(&daemon);
}

static void run_forwards_signals(void **state)
{
    char rest[64];

    (void)state;
    command_start(&command,
                  TESUP "run --private -- sh -c "
                        "trap\t'exit\t9'\tTERM;echo\tready;while\t:;do\tsleep\t0.05;done");
    command_line_wait(&command, "ready", rest, sizeof(rest));
    kill(command.pid, SIGTERM);
    command_end(&command);
    command_expect_code(&command, 9);
    command_expect_nothing_left();
}

/* The job lives on, as its own master; the private daemon goes with it. */
static void run_that_is_killed_leaves_nothing(void **state)
{
    char rest[64];

    (void)state;
    command_start(&command, TESUP "run --private -- sh -c echo\tready;exec\tsleep\t2");
    command_line_wait(&command, "ready", rest, sizeof(rest));
    kill(command.pid, SIGKILL);
    command_end(&command);
    command_expect_code(&command, 128 + SIGKILL);
    command_expect_nothing_left();
}

static int group_setup(void **state)
{
    return daemon_group_setup(state) < 0 ? -1 : command_scratch_create(state);
}

static int group_teardown(void **state)
{
    int left = daemon_group_teardown(state);

    return command_scratch_remove(state) < 0 ? -1 : left;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(second_daemon_is_refused, daemon_test_teardown),
        cmocka_unit_test_teardown(taken_port_is_named, daemon_test_teardown),
        cmocka_unit_test_teardown(ipv6_literal_works, daemon_test_teardown),
        cmocka_unit_test_teardown(host_name_works, daemon_test_teardown),
        cmocka_unit_test_teardown(stale_socket_is_replaced, daemon_test_teardown),
        cmocka_unit_test_teardown(sigterm_ends_sessions, daemon_test_teardown),
        cmocka_unit_test_teardown(background_daemon_lets_go, background_teardown),
        cmocka_unit_test(bad_config_names_its_line),
        cmocka_unit_test_teardown(status_tells_who_is_there, daemon_test_teardown),
        cmocka_unit_test_teardown(stopped_worker_is_degraded, daemon_test_teardown),
        cmocka_unit_test_teardown(stopped_supervisor_is_degraded, daemon_test_teardown),
        cmocka_unit_test_teardown(failed_worker_is_shown, daemon_test_teardown),
        cmocka_unit_test(topology_as_json),
        cmocka_unit_test(run_returns_the_exit_code),
        cmocka_unit_test_teardown(run_uses_the_daemon_that_is_there, daemon_test_teardown),
        cmocka_unit_test(run_forwards_signals),
        cmocka_unit_test(run_that_is_killed_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
