/* Workers that never become ready: each is ended at its deadline or noticed when it exits, tried
 * again after a growing pause, and given up; status and log say why. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define READY_MS   10000u              /* a worker has this long */
#define SLACK_MS   8000u               /* a slow machine, too */
#define ATTACH_MS  5000u               /* an attach waits this long for a worker */
#define PAUSES_MIN (75u + 150u + 300u) /* 100, 200, 400 ms, less a quarter */

/* A `tesup` of our own: it starts the worker program that lies next to it. */
static char place[] = "/tmp/tesup-start-XXXXXX";
static char program[64], worker_program[64];

static void program_copy(const char *from, const char *to)
{
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);

    assert_true(in >= 0 && out >= 0);
    assert_int_equal(fstat(in, &st), 0);
    for (off_t left = st.st_size; left > 0;) {
        ssize_t done = sendfile(out, in, NULL, (size_t)left);

        assert_true(done > 0);
        left -= done;
    }
    close(in);
    close(out);
}

static int group_setup(void **state)
{
    if (daemon_group_setup(state) < 0 || !mkdtemp(place))
        return -1;
    snprintf(program, sizeof(program), "%s/tesup", place);
    snprintf(worker_program, sizeof(worker_program), "%s/tesup-worker", place);
    program_copy(TESUP_BIN_DIR "/tesup", program);
    return 0;
}

static int group_teardown(void **state)
{
    unlink(program);
    unlink(worker_program);
    if (rmdir(place) < 0)
        return -1;
    return daemon_group_teardown(state);
}

static void worker_is(const char *script)
{
    FILE *file;

    unlink(worker_program);
    file = fopen(worker_program, "we");
    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    assert_int_equal(chmod(worker_program, 0700), 0);
}

static void log_expect(const struct daemon *daemon, const char *part)
{
    if (daemon_log_count(daemon, part) == 0)
        fail_msg("'%s' is not in the log", part);
}

/* Table and JSON say that the worker failed, and why. */
static void status_expect_failed(const struct daemon *daemon, const char *why)
{
    static struct command command; /* large */
    const char *const forms[] = {"--json", ""};

    for (int i = 0; i < 2; i++) {
        char words[512];

        snprintf(words, sizeof(words), TESUP_BIN_DIR "/tesup status %s --name %s --runtime-dir %s",
                 forms[i], daemon->name, daemon_directory());
        command_run(&command, words);
        command_expect_code(&command, 1);
        command_expect_text(command.out, "failed");
        command_expect_text(command.out, why);
    }
}

static void attach_expect_unreachable(const struct daemon *daemon, const char *part)
{
    const struct tesup_options options = {.socket = daemon->socket};
    uint64_t began = wait_now_ms();
    struct tesup_session *session;

    party_expect(tesup_attach(&options, &session), TESUP_ERR_UNREACHABLE);
    if (!strstr(tesup_last_error(), part))
        fail_msg("'%s' is not in: %s", part, tesup_last_error());
    assert_true(wait_now_ms() - began < ATTACH_MS + SLACK_MS);
}

static void test_hangs(void **state)
{
    struct daemon daemon;
    pid_t pids[DAEMON_WORKERS];
    uint64_t began = wait_now_ms(), took;
    struct wait wait = wait_begin("the first worker", WAIT_MS);
    int output;

    (void)state;
    worker_is("#!/bin/sh\nexec sleep 1000\n");
    output = daemon_spawn(&daemon, program, "hangs", "--restart-max-deaths 2 --restart-window 60s");
    while (daemon_workers(&daemon, pids) == 0)
        wait_step(&wait);
    status_worker_state_wait(&daemon, "starting", SLACK_MS);
    attach_expect_unreachable(&daemon, "was not ready within 5 s");
    wait_pid_gone(pids[0], READY_MS + SLACK_MS);
    took = wait_now_ms() - began;
    if (took < READY_MS - 500)
        fail_msg("a starting worker was ended after %llu ms", (unsigned long long)took);
    status_worker_state_wait(&daemon, "failed", READY_MS + SLACK_MS);
    took = wait_now_ms() - began;
    if (took < 2 * READY_MS - 500)
        fail_msg("it failed after %llu ms", (unsigned long long)took);
    daemon_listens(&daemon, output, SLACK_MS);
    status_expect_failed(&daemon, "it was not ready 10 s after its start");
    log_expect(&daemon, "is killed: it was not ready 10 s after its start");
    log_expect(&daemon, "died 2 times within 60000 ms and is given up");
    attach_expect_unreachable(&daemon, "failed");
    daemon_stop(&daemon);
}

/* Starts a supervisor whose worker dies at once; it fails after three pauses. */
static void early_death_try(const char *name, const char *why)
{
    struct daemon daemon;
    uint64_t began = wait_now_ms(), took;
    int output =
        daemon_spawn(&daemon, program, name, "--restart-max-deaths 4 --restart-window 60s");

    daemon_listens(&daemon, output, WAIT_MS);
    took = wait_now_ms() - began;
    status_expect_failed(&daemon, why);
    log_expect(&daemon, why);
    log_expect(&daemon, "died 4 times within 60000 ms and is given up");
    if (took < PAUSES_MIN)
        fail_msg("four starts within %llu ms: there were no pauses", (unsigned long long)took);
    attach_expect_unreachable(&daemon, "failed");
    daemon_stop(&daemon);
}

static void test_exits(void **state)
{
    (void)state;
    worker_is("#!/bin/sh\nexit 3\n");
    early_death_try("exits", "exit 3");
}

static void test_is_killed(void **state)
{
    (void)state;
    worker_is("#!/bin/sh\nkill -SEGV $$\n");
    early_death_try("killed", "killed by SIGSEGV");
}

static void test_is_no_program(void **state)
{
    (void)state;
    worker_is("no program at all\n");
    early_death_try("no-program", "cannot be executed");
}

/* A pause ends early when the supervisor is to leave. */
static void test_leaves_while_starting(void **state)
{
    struct daemon daemon;
    struct wait wait = wait_begin("the worker", WAIT_MS);
    pid_t pids[DAEMON_WORKERS];
    uint64_t began;

    (void)state;
    worker_is("#!/bin/sh\nexec sleep 1000\n");
    close(daemon_spawn(&daemon, program, "leaves", "--drain-timeout 1s"));
    while (daemon_workers(&daemon, pids) == 0)
        wait_step(&wait);
    status_worker_state_wait(&daemon, "starting", SLACK_MS);
    began = wait_now_ms();
    daemon_stop(&daemon);
    assert_true(wait_now_ms() - began < 1000 + SLACK_MS);
}

#define TEST(test) cmocka_unit_test_teardown(test, daemon_test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exits),         TEST(test_is_killed),
        TEST(test_is_no_program), TEST(test_leaves_while_starting),
        TEST(test_hangs),
    };

    return cmocka_run_group_tests_name("workers that never start", tests, group_setup,
                                       group_teardown);
}
