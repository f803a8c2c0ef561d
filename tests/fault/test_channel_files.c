/* Channels, and supervisor, worker or job short of descriptors or file size. */
#include "tests/fault/channel_fixture.h"

static void test_supervisor_file_size(void **state)
{
    (void)state;
    limit_set(host.pid, RLIMIT_FSIZE, 64 * 1024);
    channels_until_refused(TESUP_ERR_LIMIT, "RLIMIT_FSIZE", 0);
    assert_non_null(strstr(tesup_last_error(), "ulimit -f unlimited"));
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
    job_start(&job, "job with few files", job_files_run, NULL);
    job_expect_success(&job, WAIT_MS);
    test_end();
}

static void test_start(void **state)
{
    (void)state;
    serve_expect("--nofile=63:63", "RLIMIT_NOFILE is 63", "LimitNOFILE=");
    serve_expect("--fsize=65536:65536", "RLIMIT_FSIZE of the supervisor is 64 KiB",
                 "ulimit -f unlimited");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHORT(test_supervisor_file_size), SHORT(test_supervisor_files),
        SHORT(test_worker_files),         SHORT(test_job),
        cmocka_unit_test(test_start),
    };

    return cmocka_run_group_tests_name("channels and files", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
