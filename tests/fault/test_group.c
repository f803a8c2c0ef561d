/* A worker or a supervisor that dies inside a group (TESUP_MORE): the notification that was still
 * to be submitted must not go without those before it. */
#include "tests/harness/test.h"

#include <signal.h>
#include <string.h>

#include "tests/harness/status.h"
#include "tests/harness/wait.h"
#include "tests/integration/duo_fixture.h"

#define PIECE UINT64_C(4096)

static struct tesup_request piece(const struct duo *duo, uint32_t index)
{
    struct tesup_request request = duo->request;

    request.flags = TESUP_MORE;
    request.cookie = index;
    request.local_offset = request.remote_offset = index * PIECE;
    request.length = PIECE;
    return request;
}

static void note_add(struct tesup_request *request, const char *name)
{
    request->flags = 0;
    request->name = name;
    request->name_len = (uint32_t)strlen(name);
}

static void note_expect(const struct duo *duo, const char *name)
{
    struct tesup_notification note = party_next(duo->right.channel);

    assert_true(party_name_is(&note, name));
    party_expect(note.status, TESUP_OK);
    assert_int_equal(note.bytes, PIECE);
    party_check(tesup_notify_release(duo->right.channel), "release");
}

static struct daemon left, right;
static const struct site own = {"own", &left, &right};

static int test_setup(void **state)
{
    (void)state;
    daemon_start(&left, "own-left", "--fabric tcp");
    daemon_start(&right, "own-right", "--fabric tcp");
    return 0;
}

/* All that was accepted before has ended, and well: only the next worker's look at the journal can
 * know that there was a group. */
static void a_worker_dies_inside(void **state)
{
    struct tesup_request request;
    struct duo duo;
    pid_t worker;

    (void)state;
    duo_begin(&duo, &own, MIB);
    worker = status_worker_ready(&left, 0);
    request = piece(&duo, 0);
    party_check(party_do(duo.left.channel, &request).status, "the member");
    kill(worker, SIGKILL);
    status_worker_ready(&left, worker);
    request = piece(&duo, 1);
    note_add(&request, "never");
    party_expect(party_do(duo.left.channel, &request).status, TESUP_ERR_SKIPPED);
    request = piece(&duo, 2);
    note_add(&request, "the first that arrives");
    party_check(party_do(duo.left.channel, &request).status, "the next");
    note_expect(&duo, "the first that arrives");
    duo_end(&duo);
    daemon_stop(&left);
    daemon_stop(&right);
}

static void a_supervisor_dies_inside(void **state)
{
    struct wait wait = wait_begin("a successor that takes the session", WAIT_MS);
    struct tesup_completion done;
    struct tesup_request request;
    uint32_t accepted;
    struct duo duo;
    int rc;

    (void)state;
    duo_begin(&duo, &own, MIB);
    request = piece(&duo, 0);
    party_check(party_do(duo.left.channel, &request).status, "the member");
    daemon_kill(&left);
    while (tesup_poll(duo.left.channel, &done, 1) >= 0) /* until the library has seen it */
        wait_step(&wait);
    daemon_start(&left, "own-left", "--fabric tcp");
    request = piece(&duo, 1);
    note_add(&request, "never");
    while ((rc = tesup_submit(duo.left.channel, &request, 1, NULL, &accepted)) == TESUP_AGAIN ||
           rc == TESUP_ERR_NO_DAEMON)
        wait_step(&wait);
    party_expect(rc, TESUP_ERR_GONE);
    assert_non_null(strstr(tesup_last_error(), "inside this group"));
    note_add(&request, "the first that arrives");
    party_check(party_do(duo.left.channel, &request).status, "the next");
    note_expect(&duo, "the first that arrives");
    duo_end(&duo);
    daemon_stop(&left);
    daemon_stop(&right);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, test_setup, daemon_test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(a_worker_dies_inside),
        ON(a_supervisor_dies_inside),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
