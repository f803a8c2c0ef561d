/* Channels, and supervisor, worker or job short of address space.  Not in a sanitizer's build,
 * which reserves all of it. */
#include "tests/fault/channel_fixture.h"

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

static void test_worker_space(void **state)
{
    (void)state;
    limit_set(worker, RLIMIT_AS, process_space(worker) + 2 * MIB);
    channels_until_refused(TESUP_ERR_NO_MEMORY, "RLIMIT_AS", 1);
    limit_set(worker, RLIMIT_AS, RLIM_INFINITY);
    test_end();
}

static void job_space_run(void *argument)
{
    (void)argument;
    limit_set(0, RLIMIT_AS, process_space(getpid()) + 4 * MIB);
    channels_until_refused(TESUP_ERR_NO_MEMORY, "RLIMIT_AS", 1);
    limit_set(0, RLIMIT_AS, process_space(getpid()));
    channels_until_refused(TESUP_ERR_NO_MEMORY, "RLIMIT_AS", 0);
}

static void test_job(void **state)
{
    struct job job;

    (void)state;
    job_start(&job, "job with little space", job_space_run, NULL);
    job_expect_success(&job, WAIT_MS);
    test_end();
}

static void test_start(void **state)
{
    (void)state;
    serve_expect("--as=10485760:10485760", "RLIMIT_AS is 10240 KiB", "ulimit -v unlimited");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHORT(test_supervisor_space),
        SHORT(test_worker_space),
        SHORT(test_job),
        cmocka_unit_test(test_start),
    };

    return cmocka_run_group_tests_name("channels and address space", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
