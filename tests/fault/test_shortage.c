/* Channels that cannot be had: job, worker or supervisor has too little memory, address space, file
 * size or descriptors.  Who asked is told the limit, the need and the remedy; nobody dies, and the
 * sessions that are there go on. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/process.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define MIB       (UINT64_C(1) << 20)
#define TRIES_MAX 200

static struct daemon host;
static pid_t worker;
static struct party honest; /* attached before anything is short */

static int test_setup(void **state)
{
    (void)state;
    daemon_start(&host, "short", "--fabric tcp --sessions-per-uid 256 --channels-per-session 64");
    worker = status_worker_ready(&host, 0);
    party_attach(&honest, &host, "honest");
    return 0;
}

static int test_teardown(void **state)
{
    job_kill_all();
    return daemon_test_teardown(state);
}

/* The honest job's session works, by the worker that it began with. */
static void test_end(void)
{
    const struct tesup_request nop = {.op = TESUP_OP_NOP};

    party_check(party_do(honest.channel, &nop).status, "NOP");
    assert_int_equal(status_worker_ready(&host, 0), worker);
    party_detach(&honest);
    daemon_stop(&host);
}

/* The soft limit only: it can be raised again without any right. */
static void limit_set(pid_t pid, int resource, rlim_t value)
{
    struct rlimit limit;

    assert_int_equal(prlimit(pid, (__rlimit_resource_t)resource, NULL, &limit), 0);
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    assert_int_equal(prlimit(pid, (__rlimit_resource_t)resource, &limit, NULL), 0);
}

static void sentence_expect(const char *part)
{
    if (!strstr(tesup_last_error(), part))
        fail_msg("'%s' is not in: %s", part, tesup_last_error());
}

/* Attaches and opens channels until one is refused; it must be refused with `expected` and a
 * sentence that has `part`.  At least `least` are had before. */
static void channels_until_refused(int expected, const char *part, int least)
{
    static struct tesup_session *sessions[TRIES_MAX];
    const struct tesup_options options = {.socket = host.socket, .timeout_ms = 5000};
    struct tesup_channel *channel;
    int count = 0, had = 0, code = TESUP_OK;

    while (code == TESUP_OK && count < TRIES_MAX) {
        code = tesup_attach(&options, &sessions[count]);
        if (code != TESUP_OK)
            break;
        count++;
        for (int i = 0; i < 8 && (code = tesup_channel_open(sessions[count - 1], &channel)) == 0;
             i++)
            had++;
    }
    party_expect(code, expected);
    sentence_expect(part);
    if (had + count < least)
        fail_msg("refused after %d channels and %d sessions", had, count);
    while (count > 0)
        tesup_detach(sessions[--count]);
}

/* ---- the supervisor is short of something ---- */

static void test_supervisor_space(void **state)
{
    (void)state;
    for (uint64_t more = 0; more < 3; more++) {
        limit_set(host.pid, RLIMIT_AS, process_space(host.pid) + more * 64 * 1024);
        channels_until_refused(TESUP_ERR_NO_MEMORY, "RLIMIT_AS", 0);
        limit_set(host.pid, RLIMIT_AS, RLIM_INFINITY);
    }
    test_end();
}

static void test_supervisor_file_size(void **state)
{
    (void)state;
    limit_set(host.pid, RLIMIT_FSIZE, 64 * 1024);
    channels_until_refused(TESUP_ERR_LIMIT, "RLIMIT_FSIZE", 0);
    sentence_expect("ulimit -f unlimited");
    limit_set(host.pid, RLIMIT_FSIZE, RLIM_INFINITY);
    test_end();
}

static void test_supervisor_files(void **state)
{
    (void)state;
    for (rlim_t more = 0; more < 12; more++) {
        limit_set(host.pid, RLIMIT_NOFILE, process_fd_count(host.pid) + more);
        channels_until_refused(TESUP_ERR_LIMIT, "RLIMIT_NOFILE", 0);
        limit_set(host.pid, RLIMIT_NOFILE, 1024);
    }
    test_end();
}

/* ---- the worker is ---- */

static void test_worker_space(void **state)
{
    (void)state;
    limit_set(worker, RLIMIT_AS, process_space(worker) + 2 * MIB);
    channels_until_refused(TESUP_ERR_NO_MEMORY, "RLIMIT_AS", 1);
    limit_set(worker, RLIMIT_AS, RLIM_INFINITY);
    test_end();
}

static void test_worker_files(void **state)
{
    (void)state;
    for (rlim_t more = 0; more < 6; more++) {
        limit_set(worker, RLIMIT_NOFILE, process_fd_count(worker) + more);
        channels_until_refused(TESUP_ERR_LIMIT, "RLIMIT_NOFILE", 0);
        limit_set(worker, RLIMIT_NOFILE, 1024);
    }
    test_end();
}

/* ---- the job is ---- */

static void job_space_run(void *argument)
{
    (void)argument;
    limit_set(0, RLIMIT_AS, process_space(getpid()) + 4 * MIB);
    channels_until_refused(TESUP_ERR_NO_MEMORY, "RLIMIT_AS", 1);
    limit_set(0, RLIMIT_AS, process_space(getpid()));
    channels_until_refused(TESUP_ERR_NO_MEMORY, "RLIMIT_AS", 0);
}

static void job_files_run(void *argument)
{
    (void)argument;
    for (rlim_t more = 0; more < 12; more++) {
        limit_set(0, RLIMIT_NOFILE, 64); /* to look it up */
        limit_set(0, RLIMIT_NOFILE, process_fd_count(getpid()) + more);
        channels_until_refused(TESUP_ERR_LIMIT, "RLIMIT_NOFILE", 0);
    }
}

static void test_job(void **state)
{
    struct job job;

    (void)state;
    job_start(&job, "job with little space", job_space_run, NULL);
    job_expect_success(&job, WAIT_MS);
    job_start(&job, "job with few files", job_files_run, NULL);
    job_expect_success(&job, WAIT_MS);
    test_end();
}

/* ---- not even the supervisor can start ---- */

static void serve_expect(const char *limit, const char *part, const char *remedy)
{
    static struct command command; /* large */
    char words[512];

    snprintf(words, sizeof(words),
             "prlimit %s " TESUP_BIN_DIR "/tesup serve --foreground --name tiny --workers 1 "
             "--listen 127.0.0.1:0 --runtime-dir %s --peer-key %s/peer.key",
             limit, daemon_directory(), daemon_directory());
    command_run(&command, words);
    command_expect_code(&command, 1);
    command_expect_text(command.err, part);
    command_expect_text(command.err, remedy);
}

static void test_start(void **state)
{
    (void)state;
    serve_expect("--nofile=63:63", "RLIMIT_NOFILE is 63", "LimitNOFILE=");
    serve_expect("--fsize=65536:65536", "RLIMIT_FSIZE of the supervisor is 64 KiB",
                 "ulimit -f unlimited");
    if (!TEST_SANITIZED)
        serve_expect("--as=10485760:10485760", "RLIMIT_AS is 10240 KiB", "ulimit -v unlimited");
}

#define SHORT(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest plain[] = {
        SHORT(test_supervisor_file_size),
        SHORT(test_supervisor_files),
        SHORT(test_worker_files),
        cmocka_unit_test(test_start),
    };
    /* A sanitizer needs all of the address space. */
    const struct CMUnitTest space[] = {
        SHORT(test_supervisor_space),
        SHORT(test_worker_space),
        SHORT(test_job),
    };
    int failed = cmocka_run_group_tests_name("short of files", plain, daemon_group_setup,
                                             daemon_group_teardown);

    if (TEST_SANITIZED)
        return failed;
    return failed + cmocka_run_group_tests_name("short of address space", space, daemon_group_setup,
                                                daemon_group_teardown);
}
