/* What a job had opened before its worker died is open at the next worker, and stays so. */
#include "tests/harness/test.h"

#include <signal.h>
#include <string.h>

#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define OPEN_MS 300u /* how long the opening itself was allowed to take */

static struct daemon left, right;
static struct party source, target;
static struct tesup_request hello = {.op = TESUP_OP_NOTIFY, .name = "hello", .name_len = 5};

static void opened(void)
{
    const struct tesup_options options = {.socket = left.socket, .timeout_ms = OPEN_MS};

    party_attach(&target, &right, NULL);
    party_check(tesup_attach(&options, &source.session), "attach");
    source.channel = tesup_channel_main(source.session);
    hello.remote = party_open(&source, tesup_segment_name(target.session));
    party_check(party_do(source.channel, &hello).status, "hello");
    party_next(target.channel);
    party_check(tesup_notify_release(target.channel), "release");
}

static void closed(void)
{
    party_detach(&source);
    party_detach(&target);
    daemon_stop(&left);
    daemon_stop(&right);
}

static void source_worker_replace(void)
{
    pid_t pid = status_worker_ready(&left, 0);

    assert_int_equal(kill(pid, SIGKILL), 0);
    status_worker_ready(&left, pid);
}

/* The time that the job gave for opening was over long ago. */
static void test_stays_open(void **state)
{
    (void)state;
    daemon_start(&left, "left", "");
    daemon_start(&right, "right", "");
    opened();
    source_worker_replace();
    for (uint64_t until = wait_now_ms() + 3ull * OPEN_MS; wait_now_ms() < until;) {
        party_check(party_do(source.channel, &hello).status, "hello from the next worker");
        party_next(target.channel);
        party_check(tesup_notify_release(target.channel), "release");
    }
    closed();
}

/* The peer does not answer when the next worker begins, then it does. */
static void test_comes_back(void **state)
{
    const char *const quick = "--fabric tcp --connect-timeout 100ms";
    struct wait wait = wait_begin("the segment is reached again", WAIT_MS);
    struct tesup_notification event;
    pid_t peer;
    int status;

    (void)state;
    daemon_start(&left, "left", quick);
    daemon_start(&right, "right", quick);
    opened();
    party_check(tesup_segment_watch(source.session, hello.remote), "watch");
    peer = status_worker_ready(&right, 0);
    assert_int_equal(kill(peer, SIGSTOP), 0);
    source_worker_replace();
    event = party_next(source.channel);
    assert_int_equal(event.kind, TESUP_NOTIFICATION_EVENT);
    party_expect(event.status, TESUP_ERR_UNREACHABLE);
    party_check(tesup_notify_release(source.channel), "release");
    party_expect(party_do(source.channel, &hello).status, TESUP_ERR_UNREACHABLE);
    assert_int_equal(kill(peer, SIGCONT), 0);
    while ((status = party_do(source.channel, &hello).status) == TESUP_ERR_UNREACHABLE)
        wait_step(&wait);
    party_check(status, "hello after it came back");
    closed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_stays_open, daemon_test_teardown),
        cmocka_unit_test_teardown(test_comes_back, daemon_test_teardown),
    };

    return cmocka_run_group_tests_name("replay", tests, daemon_group_setup, daemon_group_teardown);
}
