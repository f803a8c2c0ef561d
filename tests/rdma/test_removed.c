/* A device that is removed under running workers: the kernel lets those who have it open go on and
 * nobody else begin; when they have left it is gone, and one that comes back serves again. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/harness/command.h"
#include "tests/rdma/rdma_fixture.h"

#define ATTACH_MS 5000u

static void works(const struct ends *ends)
{
    struct tesup_request request = ends_request(ends, TESUP_OP_WRITE, 4096, "block");
    struct tesup_notification note;

    party_check(party_do(ends->left.channel, &request).status, "WRITE");
    note = party_next(ends->right.channel);
    assert_true(party_name_is(&note, "block"));
    party_check(tesup_notify_release(ends->right.channel), "release");
}

/* In the kernel's list: sysfs shows it until its last user has left. */
static void device_wait(bool there)
{
    struct wait wait = wait_begin(there ? "a device that comes" : "a device that goes", WAIT_MS);
    static struct command list; /* large */

    for (;;) {
        command_run(&list, "rdma link");
        command_expect_code(&list, 0);
        if ((strstr(list.out, "rxe1/") != NULL) == there)
            return;
        wait_step(&wait);
    }
}

/* Not an endless wait for a worker that cannot start: a sentence. */
static void attach_expect_refusal(const struct daemon *daemon)
{
    struct tesup_options options = {.socket = daemon->socket, .timeout_ms = ATTACH_MS};
    struct wait wait = wait_begin("the worker is given up", WAIT_MS);
    struct tesup_session *session;
    int code;

    while ((code = tesup_attach(&options, &session)) == TESUP_ERR_TIMEOUT)
        wait_step(&wait);
    party_expect(code, TESUP_ERR_UNREACHABLE);
    assert_non_null(strstr(tesup_last_error(), "has failed"));
}

static void removed_and_back(void **state)
{
    static struct command removal; /* large */
    struct daemon late;
    struct ends ends;

    (void)state;
    rdma_setup(NULL);
    ends_begin(&ends, 4096);
    works(&ends);
    command_start(&removal, "rdma link delete rxe1"); /* returns when nobody has it open */
    device_wait(false);
    works(&ends);
    daemon_start(&late, "late", "--fabric verbs --exclude rxe0 --restart-max-deaths 2");
    attach_expect_refusal(&late);
    daemon_stop(&late);
    works(&ends);
    ends_end(&ends);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
    command_end(&removal);
    command_expect_code(&removal, 0);

    rdma_run("rdma link add rxe1 type rxe netdev %s", rdma_netdev(RDMA_RIGHT));
    device_wait(true);
    rdma_start(&rdma_daemon[RDMA_RIGHT], "right", RDMA_RIGHT, "");
    ends_begin(&ends, 4096);
    works(&ends);
    ends_end(&ends);
    daemon_stop(&rdma_daemon[RDMA_LEFT]);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
}

static int scratch_setup(void **state)
{
    return rdma_vm_setup(state) < 0 ? -1 : command_scratch_create(state);
}

static int scratch_teardown(void **state)
{
    command_scratch_remove(state);
    return rdma_vm_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(removed_and_back, rdma_teardown),
    };

    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
