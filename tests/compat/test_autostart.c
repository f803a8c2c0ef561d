/* No supervisor runs: a private one is started, one for all processes, and goes with the last. */
#include "tests/compat/agent.h"
#include "tests/compat/stderr_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "tests/harness/command.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define JOBS    4
#define LONG_MS 60000u

struct crowd {
    _Atomic uint64_t ready, leave;
    char name[JOBS][AGENT_NAME];
    uint64_t address[JOBS];
};

struct member {
    struct crowd *crowd;
    unsigned index;
};

static void private_path(char path[256], const char *file)
{
    snprintf(path, 256, "%s/tesup-private-%u%s", command_scratch(), (unsigned)geteuid(), file);
}

static pid_t private_pid(void)
{
    char path[256], line[64] = "";
    FILE *file;

    private_path(path, "/default.lock");
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    return (pid_t)strtol(line, NULL, 10);
}

static void wait_private_gone(void)
{
    struct wait wait = wait_begin("the private supervisor's end", WAIT_MS);
    struct stat st;
    char path[256];

    private_path(path, "/default.lock");
    while (stat(path, &st) == 0)
        wait_step(&wait);
    private_path(path, "");
    rmdir(path); /* who made it was killed, perhaps */
    /* The key stays for later starts; root's is not here. */
    snprintf(path, sizeof(path), "%s/tesup/peer.key", command_scratch());
    unlink(path);
    snprintf(path, sizeof(path), "%s/tesup", command_scratch());
    rmdir(path);
    command_expect_nothing_left();
}

static void expect_transfer(struct agent *agent, const char *name, uint64_t address)
{
    int target = agent_open(agent, name);

    memset(agent->bytes, 0x77, 4096);
    assert_int_equal(agent_do(agent, OPCODE_WRITE, target, address, 4096, 1, NULL),
                     STATUS_COMPLETED);
}

/* ---- several at once ---- */

static void member_run(void *argument)
{
    const struct member *member = argument;
    struct crowd *crowd = member->crowd;
    struct agent agent;
    unsigned next = (member->index + 1) % JOBS;

    agent_begin(&agent, NULL, 8192);
    memcpy(crowd->name[member->index], agent.name, AGENT_NAME);
    crowd->address[member->index] = (uint64_t)(uintptr_t)agent.bytes + 4096;
    atomic_fetch_add(&crowd->ready, 1);
    wait_word(&crowd->ready, JOBS, "all agents");
    expect_transfer(&agent, crowd->name[next], crowd->address[next]);
    atomic_fetch_add(&crowd->leave, 1);
    wait_word(&crowd->leave, JOBS, "all transfers");
    party_verify_byte(agent.bytes + 4096, 4096, 0x77, "of the agent before");
    agent_end(&agent);
}

static void test_one_for_all(void **state)
{
    struct crowd *crowd = job_board_create(sizeof(*crowd));
    struct member members[JOBS];
    struct job jobs[JOBS];

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        members[i] = (struct member){crowd, i};
        job_start(&jobs[i], "agent", member_run, &members[i]);
    }
    for (unsigned i = 0; i < JOBS; i++)
        job_expect_success(&jobs[i], LONG_MS);
    job_board_free(crowd, sizeof(*crowd));
    wait_private_gone();
}

/* ---- said once, forbidden, killed ---- */

static void alone_run(void *argument)
{
    struct stderr_catch caught;
    struct agent agent, second;

    (void)argument;
    stderr_catch_begin(&caught);
    agent_begin(&agent, NULL, 8192);
    agent_begin(&second, NULL, 8192);
    stderr_catch_end(&caught);
    const char *said = strstr(caught.text, "a private one was started");
    assert_non_null(said);
    assert_null(strstr(said + 1, "a private one was started"));
    expect_transfer(&agent, second.name, (uint64_t)(uintptr_t)second.bytes);
    agent_end(&second);
    agent_end(&agent);
}

static void test_said_once(void **state)
{
    struct job job;

    (void)state;
    job_start(&job, "agent", alone_run, NULL);
    job_expect_success(&job, LONG_MS);
    wait_private_gone();
}

static void forbidden_run(void *argument)
{
    (void)argument;
    setenv("TESUP_AUTOSTART", "0", 1);
    assert_null(createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 1));
}

static void test_forbidden(void **state)
{
    struct job job;

    (void)state;
    job_start(&job, "agent", forbidden_run, NULL);
    job_expect_success(&job, LONG_MS);
    command_expect_nothing_left();
}

/* A directory that somebody else may write to is not trusted. */
static void strange_run(void *argument)
{
    (void)argument;
    assert_null(createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 1));
}

static void test_strange_directory(void **state)
{
    struct job job;
    char path[256];

    (void)state;
    private_path(path, "");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    job_start(&job, "agent", strange_run, NULL);
    job_expect_success(&job, LONG_MS);
    assert_int_equal(rmdir(path), 0);
    command_expect_nothing_left();
}

static void killed_run(void *argument)
{
    struct wait wait;
    struct agent agent;
    pid_t pid;

    (void)argument;
    agent_begin(&agent, NULL, 8192);
    pid = private_pid();
    assert_int_equal(kill(pid, SIGKILL), 0);
    wait_pid_gone(pid, WAIT_MS);
    wait = wait_begin("a transfer by the next private supervisor", LONG_MS);
    while (agent_do(&agent, OPCODE_WRITE, LOCAL_SEGMENT, (uint64_t)(uintptr_t)agent.bytes + 4096,
                    4096, 1, "again") != STATUS_COMPLETED)
        wait_step(&wait);
    assert_int_not_equal(private_pid(), pid);
    agent_expect_note(&agent, agent.name, "again");
    agent_end(&agent);
}

static void test_killed(void **state)
{
    struct job job;

    (void)state;
    job_start(&job, "agent", killed_run, NULL);
    job_expect_success(&job, LONG_MS);
    wait_private_gone();
}

static int group_setup(void **state)
{
    if (command_scratch_create(state) != 0)
        return -1;
    unsetenv("TESUP_SOCKET");
    setenv("TESUP_SOCKET", "/nowhere/tesup.sock", 1); /* not that of whoever runs the tests */
    setenv("XDG_RUNTIME_DIR", command_scratch(), 1);
    setenv("XDG_CONFIG_HOME", command_scratch(), 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_one_for_all, job_test_teardown),
        cmocka_unit_test_teardown(test_said_once, job_test_teardown),
        cmocka_unit_test_teardown(test_forbidden, job_test_teardown),
        cmocka_unit_test_teardown(test_strange_directory, job_test_teardown),
        cmocka_unit_test_teardown(test_killed, job_test_teardown),
    };

    return cmocka_run_group_tests_name("autostart", tests, group_setup, command_scratch_remove);
}
