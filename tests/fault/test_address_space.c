/* Address space that runs out, of the job or of its worker: the limit is named and both go on.  Not
 * in a sanitizer's build, which reserves all of it. */
#include "tests/fault/limit_fixture.h"

#include <unistd.h>

#include "tests/harness/process.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

static void small_space_run(void *argument)
{
    const struct daemon *daemon = argument;
    struct tesup_session *session;
    tesup_region_t region;
    void *address;

    party_check(attach(daemon, &session), "attach");
    limit_set(0, RLIMIT_AS, process_space(getpid()) + 32 * MIB);
    error_expect(tesup_mem_alloc(session, 256 * MIB, 0, &address, &region), TESUP_ERR_NO_MEMORY,
                 "RLIMIT_AS");
    party_check(tesup_mem_alloc(session, MIB, 0, &address, &region), "1 MiB");
    session_expect_alive(session);
    tesup_detach(session);
}

static void test_address_space(void **state)
{
    struct tesup_session *session;
    struct daemon daemon;
    tesup_region_t region;
    struct job job;
    void *address;
    pid_t worker;

    (void)state;
    daemon_start(&daemon, "space", "--fabric tcp");
    worker = status_worker_ready(&daemon, 0);
    job_start(&job, "job with little space", small_space_run, &daemon);
    job_expect_success(&job, WAIT_MS);
    party_check(attach(&daemon, &session), "attach");
    limit_set(worker, RLIMIT_AS, process_space(worker) + 32 * MIB);
    error_expect(tesup_mem_alloc(session, 256 * MIB, 0, &address, &region), TESUP_ERR_NO_MEMORY,
                 "RLIMIT_AS");
    party_check(tesup_mem_alloc(session, MIB, 0, &address, &region), "1 MiB");
    session_expect_alive(session);
    tesup_detach(session);
    assert_int_equal(status_worker_ready(&daemon, 0), worker);
    daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_address_space, daemon_test_teardown),
    };

    return cmocka_run_group_tests_name("address space", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
