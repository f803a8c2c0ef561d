/* Private memory of a job under each of Yama's scopes, for a supervisor without privileges.
 *
 * Runs in the test VM, whose kernel has Yama (scripts/rdma-vm).  A process of its own for each
 * scope: it gives up root, and Yama remembers whom a process let in. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/yama.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define NOBODY   65534
#define SIZE     (3u << 20)
#define SCOPE_MS 60000u

static void scope_set(int scope)
{
    char digit = (char)('0' + scope);
    int fd = open(YAMA_SCOPE_PATH, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, &digit, 1) != 1)
        fail_msg("cannot set " YAMA_SCOPE_PATH ": this needs the test VM, scripts/rdma-vm");
    close(fd);
}

/* The folders on the way to the programs may be root's alone; in the VM they can be opened. */
static void programs_open(void)
{
    char path[] = TESUP_BIN_DIR;

    for (char *slash; (slash = strrchr(path, '/')) != NULL; *slash = '\0')
        if (slash != path)
            assert_int_equal(chmod(path, 0755), 0);
}

static void become_nobody(void)
{
    assert_int_equal(setresgid(NOBODY, NOBODY, NOBODY), 0);
    assert_int_equal(setresuid(NOBODY, NOBODY, NOBODY), 0);
    /* As a program that a user has started: the change of uid has taken it away. */
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
}

static void memory_moves(const struct party *party, tesup_region_t region, uint8_t *bytes)
{
    struct party_region shared;
    struct tesup_request request = {.remote_region = region, .length = SIZE};

    party_region_create(party, PARTY_MEMORY_ALLOC, SIZE, TESUP_ACCESS_LOCAL, &shared);
    request.remote = party_open(party, tesup_segment_name(party->session));
    request.local_region = shared.handle;
    party_fill(shared.bytes, SIZE, 1);
    request.op = TESUP_OP_WRITE;
    party_check(party_do(party->channel, &request).status, "WRITE to private memory");
    party_verify(bytes, SIZE, 1, "what was written");
    party_fill(bytes, SIZE, 2);
    request.op = TESUP_OP_READ;
    party_check(party_do(party->channel, &request).status, "READ of private memory");
    party_verify(shared.bytes, SIZE, 2, "what was read");
}

static void private_memory(void **state)
{
    static const char *const remedies[] = {"", "", "ptrace_scope=1 or 0", "/etc/sysctl.d"};
    int scope = *(int *)*state;
    uint8_t *bytes = malloc(SIZE);
    struct daemon daemon;
    struct party party;
    tesup_region_t region;
    int code;

    daemon_start(&daemon, "plain", "");
    party_attach(&party, &daemon, NULL);
    memset(bytes, 0, SIZE);
    code = tesup_mem_register(party.session, bytes, SIZE,
                              TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE, &region);
    if (scope < 2) {
        party_check(code, "private memory");
        memory_moves(&party, region, bytes);
        party_check(tesup_mem_unregister(party.session, region), "unregister");
    } else {
        party_expect(code, TESUP_ERR_UNSUPPORTED);
        if (strstr(tesup_last_error(), remedies[scope]) == NULL)
            fail_msg("no remedy for scope %d: %s", scope, tesup_last_error());
    }
    party_detach(&party);
    daemon_stop(&daemon);
    free(bytes);
}

static int scope_run(int scope)
{
    const struct CMUnitTest tests[] = {
        {"private_memory", private_memory, NULL, daemon_test_teardown, &scope},
    };

    become_nobody();
    return cmocka_run_group_tests_name("private memory", tests, daemon_group_setup,
                                       daemon_group_teardown);
}

static void scope_test(void **state)
{
    int scope = *(int *)*state;
    pid_t pid;

    scope_set(scope);
    pid = fork();
    if (pid == 0)
        _exit(scope_run(scope) != 0);
    assert_int_equal(wait_child(pid, SCOPE_MS, "the supervisor and job of this scope"), 0);
}

static int group_setup(void **state)
{
    (void)state;
    programs_open();
    return 0;
}

int main(void)
{
    /* Upwards: the kernel lets nobody leave the last one. */
    static int scopes[] = {0, 1, 2, 3};
    const struct CMUnitTest tests[] = {
        {"scope 0: as without Yama", scope_test, NULL, NULL, &scopes[0]},
        {"scope 1: named processes", scope_test, NULL, NULL, &scopes[1]},
        {"scope 2: privileged ones", scope_test, NULL, NULL, &scopes[2]},
        {"scope 3: nobody", scope_test, NULL, NULL, &scopes[3]},
    };

    return cmocka_run_group_tests(tests, group_setup, NULL);
}
