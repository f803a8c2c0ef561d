/* A job that is killed and started anew at once, under the same name: it gets the name as soon as
 * the worker has let go of what is left of the one before, and a process that lives keeps it. */
#include "tests/harness/test.h"

#include <signal.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define NAME   "phoenix"
#define ROUNDS 40

/* What the jobs say. */
struct board {
    _Atomic uint64_t answered; /* how many attaches had an answer */
    int code;
    char sentence[512];
};

static struct daemon here;
static struct board *board;

static int test_setup(void **state)
{
    (void)state;
    board = job_board_create(sizeof(*board));
    daemon_start(&here, "here", "--fabric tcp --sessions-per-uid 2");
    return 0;
}

static int test_teardown(void **state)
{
    job_board_free(board, sizeof(*board));
    return daemon_test_teardown(state);
}

/* Attaches, says how that went, and stays until it is killed. */
static void named_job(void *argument)
{
    const struct tesup_options options = {.socket = here.socket, .segment = NAME};
    struct tesup_session *session = NULL;

    (void)argument;
    board->code = tesup_attach(&options, &session);
    strncpy(board->sentence, tesup_last_error(), sizeof(board->sentence) - 1);
    atomic_fetch_add(&board->answered, 1); /* pairs with wait_word; two may answer at once */
    for (;;)
        wait_sleep_ms(1000);
}

static void answer_expect(uint64_t number, int code, const char *part)
{
    wait_word(&board->answered, number, "the answer to an attach");
    if (board->code != code || !strstr(board->sentence, part))
        fail_msg("%s: %s", tesup_strerror(board->code), board->sentence);
}

static void at_once_and_often(void **state)
{
    struct job job;

    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        job_start(&job, NAME, named_job, NULL);
        answer_expect(round, TESUP_OK, "");
        job_kill(&job);
    }
    daemon_stop(&here);
}

/* The holder is killed while its worker cannot answer, and the next one has asked. */
static pid_t stopped_worker_begin(struct job *next)
{
    pid_t worker = status_worker_ready(&here, 0);
    struct job holder;

    job_start(&holder, "holder", named_job, NULL);
    answer_expect(1, TESUP_OK, "");
    assert_int_equal(kill(worker, SIGSTOP), 0);
    job_kill(&holder);
    job_start(next, "next", named_job, NULL);
    wait_sleep_ms(200);
    assert_int_equal(atomic_observe(&board->answered), 1);
    return worker;
}

static void when_the_worker_has_let_go(void **state)
{
    struct job next, other;
    pid_t worker = stopped_worker_begin(&next);

    (void)state;
    job_start(&other, "the one after that", named_job, NULL);
    wait_sleep_ms(200);
    assert_int_equal(kill(worker, SIGCONT), 0);
    wait_word(&board->answered, 3, "an answer to both"); /* one of them is told of the other */
    assert_int_equal(status_sessions(&here), 1);
    job_kill(&next);
    job_kill(&other);
    daemon_stop(&here);
}

static void when_the_worker_ends(void **state)
{
    struct job next;
    pid_t worker = stopped_worker_begin(&next);

    (void)state;
    assert_int_equal(kill(worker, SIGKILL), 0);
    answer_expect(2, TESUP_OK, "");
    job_kill(&next);
    daemon_stop(&here);
}

static void not_for_ever(void **state)
{
    struct job next;
    pid_t worker = stopped_worker_begin(&next);

    (void)state;
    answer_expect(2, TESUP_ERR_EXISTS, "its worker did not let go of it");
    assert_int_equal(kill(worker, SIGCONT), 0);
    job_kill(&next);
    daemon_stop(&here);
}

/* Who waited and is gone, too, is in nobody's way. */
static void waiting_one_is_killed(void **state)
{
    struct job next;
    pid_t worker = stopped_worker_begin(&next);

    (void)state;
    job_kill(&next);
    job_start(&next, "a third", named_job, NULL);
    wait_sleep_ms(100);
    assert_int_equal(kill(worker, SIGCONT), 0);
    answer_expect(2, TESUP_OK, "");
    job_kill(&next);
    daemon_stop(&here);
}

static void supervisor_leaves(void **state)
{
    struct job next;
    pid_t worker = stopped_worker_begin(&next);

    (void)state;
    assert_int_equal(kill(here.pid, SIGTERM), 0);
    answer_expect(2, TESUP_ERR_UNREACHABLE, "leaving");
    assert_int_equal(kill(worker, SIGCONT), 0);
    job_kill(&next);
    daemon_stop(&here);
}

static void living_one_keeps_it(void **state)
{
    struct job holder, next;

    (void)state;
    job_start(&holder, "holder", named_job, NULL);
    answer_expect(1, TESUP_OK, "");
    job_start(&next, "next", named_job, NULL);
    answer_expect(2, TESUP_ERR_EXISTS, "is offered by another process already: pid");
    job_kill(&holder);
    job_kill(&next);
    daemon_stop(&here);
}

#define WITH_DAEMON(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DAEMON(at_once_and_often),     WITH_DAEMON(when_the_worker_has_let_go),
        WITH_DAEMON(when_the_worker_ends),  WITH_DAEMON(not_for_ever),
        WITH_DAEMON(waiting_one_is_killed), WITH_DAEMON(supervisor_leaves),
        WITH_DAEMON(living_one_keeps_it),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
