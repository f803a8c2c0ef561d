/* Memory that is unregistered while its worker stands still: never given back too early, however
 * often the job asks. */
#include "tests/harness/test.h"

#include <signal.h>
#include <unistd.h>

#include "tests/harness/party.h"
#include "tests/harness/wait.h"

static struct daemon daemon_under_test;

static void asking_again_waits_for_the_same_answer(void **state)
{
    struct tesup_options options = {.socket = daemon_under_test.socket, .timeout_ms = 200};
    struct party party;
    struct party_region region;
    pid_t worker[DAEMON_WORKERS];
    struct wait wait;
    int code;

    (void)state;
    party_check(tesup_attach(&options, &party.session), "attach");
    party.channel = tesup_channel_main(party.session);
    party_region_create(&party, PARTY_MEMORY_MEMFD, 4096, TESUP_ACCESS_REMOTE_WRITE, &region);
    assert_int_equal(daemon_workers(&daemon_under_test, worker), 1);
    kill(worker[0], SIGSTOP);
    for (int i = 0; i < 3; i++)
        party_expect(tesup_mem_unregister(party.session, region.handle), TESUP_ERR_TIMEOUT);
    kill(worker[0], SIGCONT);
    wait = wait_begin("the worker's answer to tesup_mem_unregister", WAIT_MS);
    while ((code = tesup_mem_unregister(party.session, region.handle)) == TESUP_ERR_TIMEOUT)
        wait_step(&wait);
    party_check(code, "unregister");
    party_expect(tesup_mem_unregister(party.session, region.handle), TESUP_ERR_GONE);
    close(region.fd);
    party_detach(&party);
}

static int group_setup(void **state)
{
    if (daemon_group_setup(state) != 0)
        return -1;
    daemon_start(&daemon_under_test, "one", "");
    return 0;
}

static int group_teardown(void **state)
{
    pid_t worker[DAEMON_WORKERS];

    if (daemon_workers(&daemon_under_test, worker) == 1)
        kill(worker[0], SIGCONT);
    daemon_stop(&daemon_under_test);
    return daemon_group_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asking_again_waits_for_the_same_answer),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
