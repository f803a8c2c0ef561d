/* A worker and a supervisor die under an engine: what is in flight ends as failed, and later
 * transfers of the same engine work. */
#include "tests/compat/agent.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define LENGTH  (TEST_SANITIZED ? 8 * MIB : 64 * MIB)
#define LONG_MS 30000

static struct daemon left, right;
static struct agent sender, receiver;
static int target;

static int test_setup(void **state)
{
    const char *options = *state;

    daemon_start(&left, "left", options);
    daemon_start(&right, "right", options);
    agent_begin(&sender, &left, LENGTH);
    agent_begin(&receiver, &right, LENGTH);
    target = agent_open(&sender, receiver.name);
    return 0;
}

static int test_teardown(void **state)
{
    agent_end(&sender);
    agent_end(&receiver);
    daemon_stop(&left);
    daemon_stop(&right);
    return daemon_test_teardown(state);
}

static int attempt(const char *msg)
{
    return agent_do(&sender, OPCODE_WRITE, target, (uint64_t)(uintptr_t)receiver.bytes, 64 * KIB, 4,
                    msg);
}

/* Both ends are looked at, as programs do: only who calls sees a successor. */
static void expect_recovery(const char *msg)
{
    struct wait wait = wait_begin("a transfer after the death works", LONG_MS);
    notify_msg_t *notes;
    int count;

    party_fill(sender.bytes, 64 * KIB, (uint64_t)(uintptr_t)msg);
    while (attempt(msg) != STATUS_COMPLETED) {
        notes = getNotifsFromEngine(receiver.engine, &count);
        freeNotifsMsgBuf(notes, count);
        wait_step(&wait);
    }
    party_verify(receiver.bytes, 64 * KIB, (uint64_t)(uintptr_t)msg, msg);
    /* Earlier tries may have moved all and failed all the same; the last one is the last. */
    for (bool found = false; !found;) {
        notes = getNotifsFromEngine(receiver.engine, &count);
        for (int i = 0; i < count; i++)
            found = strcmp(notes[i].msg, msg) == 0;
        freeNotifsMsgBuf(notes, count);
        if (!found)
            wait_step(&wait);
    }
}

static void worker_dies(const struct daemon *daemon, const char *msg)
{
    pid_t pid = status_worker_ready(daemon, 0);
    batch_id_t batch =
        agent_submit(&sender, OPCODE_WRITE, target, (uint64_t)(uintptr_t)receiver.bytes, LENGTH, 64,
                     "of a dead worker");

    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)agent_finish(&sender, batch, 64, LENGTH); /* each task ends, one way or the other */
    assert_int_equal(freeBatchID(sender.engine, batch), 0);
    status_worker_ready(daemon, pid);
    expect_recovery(msg);
}

static void test_workers(void **state)
{
    (void)state;
    expect_recovery("before");
    worker_dies(&left, "after the sender's worker");
    worker_dies(&right, "after the receiver's worker");
}

static void supervisor_dies(struct daemon *daemon, const char *name, const char *options,
                            const char *msg)
{
    batch_id_t batch =
        agent_submit(&sender, OPCODE_WRITE, target, (uint64_t)(uintptr_t)receiver.bytes, LENGTH, 64,
                     "of a dead supervisor");

    daemon_kill(daemon);
    daemon_start(daemon, name, options);
    (void)agent_finish(&sender, batch, 64, LENGTH);
    assert_int_equal(freeBatchID(sender.engine, batch), 0);
    expect_recovery(msg);
}

static void test_supervisors(void **state)
{
    const char *options = *state;

    supervisor_dies(&left, "left", options, "after the sender's supervisor");
    supervisor_dies(&right, "right", options, "after the receiver's supervisor");
}

/* Without a successor every call is refused, and none hangs. */
static void test_no_successor(void **state)
{
    const char *options = *state;
    notify_msg_t note = {.name = (char[]){"n"}, .msg = (char[]){"m"}};

    daemon_kill(&left);
    assert_int_equal(attempt("into the void"), STATUS_FAILED);
    assert_int_equal(genNotifyInEngine(sender.engine, (uint64_t)target, note), -201);
    assert_true(registerLocalMemory(sender.engine, &note, sizeof(note), "*", 1) < 0);
    daemon_start(&left, "left", options);
    expect_recovery("after the void");
}

int main(void)
{
    static char tcp[] = "--fabric tcp --restart-max-deaths 1000";
    static char automatic[] = "--fabric auto --restart-max-deaths 1000";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(test_workers, test_setup, test_teardown, tcp),
        cmocka_unit_test_prestate_setup_teardown(test_workers, test_setup, test_teardown,
                                                 automatic),
        cmocka_unit_test_prestate_setup_teardown(test_supervisors, test_setup, test_teardown, tcp),
        cmocka_unit_test_prestate_setup_teardown(test_no_successor, test_setup, test_teardown,
                                                 automatic),
    };

    return cmocka_run_group_tests_name("deaths", tests, daemon_group_setup, daemon_group_teardown);
}
