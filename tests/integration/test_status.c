/* `tesup status` while processes are stopped, traced, starved, hung and dead: it reads the right
 * state each time, asks nobody, and reads health again when the cause is gone. */
#include "tests/harness/test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/daemon.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define HOGS      8 /* a SCHED_IDLE worker among them has its turn every 8 s or more seldom */
#define FAST_MS   50
#define SLOW_MS   1000 /* the sanitizers alone need most of it */
#define MOVING_MS 2500 /* older than this is no heartbeat of one that moves */
#define FOUND_MS  60000

static struct command command; /* large */

/* ---- what status says ---- */

struct view {
    char health[16];
    char state[16]; /* of the first worker */
    char kind[16];  /* why it is stuck, "" when it moves */
    char why[256];
    char last_exit[128];
    char supervisor_kind[16];
    int64_t pid, restarts, heartbeat_age_ms;
};

static void view_text(char *to, size_t size, json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    snprintf(to, size, "%s", text ? text : "");
}

static void view_take(const struct daemon *daemon, struct view *view)
{
    json_t *document = status_document(daemon);
    json_t *worker =
        json_object_get(json_array_get(json_object_get(document, "pairs"), 0), "worker");
    json_t *stuck = json_object_get(worker, "stuck");

    assert_non_null(stuck);
    view_text(view->health, sizeof(view->health), document, "health");
    view_text(view->state, sizeof(view->state), worker, "state");
    view_text(view->kind, sizeof(view->kind), stuck, "kind");
    view_text(view->why, sizeof(view->why), stuck, "why");
    view_text(view->last_exit, sizeof(view->last_exit), json_object_get(worker, "last_exit"),
              "reason");
    view_text(view->supervisor_kind, sizeof(view->supervisor_kind),
              json_object_get(json_object_get(document, "supervisor"), "stuck"), "kind");
    view->pid = json_integer_value(json_object_get(worker, "pid"));
    view->restarts = json_integer_value(json_object_get(worker, "restarts"));
    view->heartbeat_age_ms = json_integer_value(json_object_get(worker, "heartbeat_age_ms"));
    json_decref(document);
}

/* Whatever is seen on the way: a worker that is said to move has a young heartbeat, one that is not
 * is "hung" to those that only know that word, and then the whole is degraded. */
static void view_check(const struct view *view)
{
    if (strcmp(view->state, "ready") == 0) {
        assert_string_equal(view->kind, "");
        assert_true(view->heartbeat_age_ms <= MOVING_MS);
    } else {
        assert_string_equal(view->health, "degraded");
    }
    if (view->kind[0])
        assert_string_equal(view->state, "hung");
}

static void view_wait(const struct daemon *daemon, const char *kind, struct view *view)
{
    struct wait wait = wait_begin(kind[0] ? kind : "a worker that moves", FOUND_MS);

    for (;;) {
        view_take(daemon, view);
        view_check(view);
        if (strcmp(view->kind, kind) == 0 && (kind[0] || strcmp(view->state, "ready") == 0))
            return;
        wait_step(&wait);
    }
}

static void healthy_wait(const struct daemon *daemon)
{
    struct view view;

    view_wait(daemon, "", &view);
}

static pid_t first_worker(const struct daemon *daemon)
{
    pid_t workers[DAEMON_WORKERS];

    assert_true(daemon_workers(daemon, workers) >= 1);
    return workers[0];
}

static void status_run(const struct daemon *daemon, const char *words)
{
    char line[400];

    snprintf(line, sizeof(line), TESUP_BIN_DIR "/tesup status --name %s --runtime-dir %s %s",
             daemon->name, daemon_directory(), words);
    command_run(&command, line);
}

/* Until it ends with `code`: on a busy machine a worker may come late once. */
static void status_expect(const struct daemon *daemon, const char *words, int code)
{
    struct wait wait = wait_begin("the exit code of tesup status", FOUND_MS);

    for (;;) {
        status_run(daemon, words);
        if (command.code == code)
            return;
        wait_step(&wait);
    }
}

/* ---- stopped ---- */

static void stopped_worker_is_told(void **state)
{
    char remedy[64];
    struct daemon daemon;
    struct view view;

    (void)state;
    daemon_start(&daemon, "cli", "");
    healthy_wait(&daemon);
    pid_t worker = first_worker(&daemon);
    kill(worker, SIGSTOP);
    view_wait(&daemon, "stopped", &view);
    snprintf(remedy, sizeof(remedy), "kill -CONT %d", (int)worker);
    command_expect_text(view.why, remedy);
    status_run(&daemon, "");
    command_expect_code(&command, 1);
    command_expect_text(command.out, " stopped ");
    kill(worker, SIGCONT);
    healthy_wait(&daemon);
    status_expect(&daemon, "", 0);
    daemon_stop(&daemon);
}

/* Nobody is left who could answer, so nobody is asked. */
static void everybody_stopped_answers_at_once(void **state)
{
    const uint64_t limit = TEST_SANITIZED ? SLOW_MS : FAST_MS;
    struct wait wait;
    pid_t workers[DAEMON_WORKERS];
    struct daemon daemon;
    struct view view;
    uint64_t begin;

    (void)state;
    daemon_start(&daemon, "cli", "--workers 3");
    healthy_wait(&daemon);
    size_t count = daemon_workers(&daemon, workers);
    assert_int_equal(count, 3);
    kill(daemon.pid, SIGSTOP);
    for (size_t i = 0; i < count; i++)
        kill(workers[i], SIGSTOP);
    view_wait(&daemon, "stopped", &view);
    assert_string_equal(view.supervisor_kind, "stopped");
    /* Other work on the machine may be in its way at one time, but not at every time. */
    wait = wait_begin("an answer within the limit", FOUND_MS);
    for (;;) {
        begin = wait_now_ms();
        status_run(&daemon, "");
        command_expect_code(&command, 1);
        if (wait_now_ms() - begin < limit)
            break;
        wait_step(&wait);
    }
    for (size_t i = 0; i < count; i++)
        kill(workers[i], SIGCONT);
    kill(daemon.pid, SIGCONT);
    healthy_wait(&daemon);
    daemon_stop(&daemon);
}

/* ---- traced and hung ---- */

#if defined(__x86_64__)
#define SPIN_WORD(word) (((word) & ~0xffffL) | 0xfeebL) /* jmp to itself */
#elif defined(__aarch64__)
#define SPIN_WORD(word) (((word) & ~0xffffffffL) | 0x14000000L) /* b to itself */
#else
#error "how does this CPU jump to itself?"
#endif

static long *code_at(pid_t pid)
{
#if defined(__x86_64__)
    long at = ptrace(PTRACE_PEEKUSER, pid, 16 * sizeof(long), NULL); /* rip */
#else
    struct {
        unsigned long x[31], sp, pc, pstate;
    } registers;
    struct iovec part = {.iov_base = &registers, .iov_len = sizeof(registers)};
    assert_int_equal(ptrace(PTRACE_GETREGSET, pid, 1 /* NT_PRSTATUS */, &part), 0);
    long at = (long)registers.pc;
#endif

    return (long *)at;
}

static void trace_begin(pid_t pid)
{
    int status;

    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL))
        fail_msg("ptrace of process %d: %s (Yama scope above 1?)", (int)pid, strerror(errno));
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_true(WIFSTOPPED(status));
}

static void code_put(pid_t pid, long *at, long word)
{
    assert_int_equal(ptrace(PTRACE_POKETEXT, pid, at, (void *)word), 0);
}

static void traced_and_hung_worker_is_told(void **state)
{
    char debugger[64];
    struct daemon daemon;
    struct view view;

    (void)state;
    daemon_start(&daemon, "cli", "");
    healthy_wait(&daemon);
    pid_t worker = first_worker(&daemon);
    trace_begin(worker);
    view_wait(&daemon, "stopped", &view);
    snprintf(debugger, sizeof(debugger), "process %d, a debugger", (int)getpid());
    command_expect_text(view.why, debugger);

    /* A turn that never ends. */
    long *at = code_at(worker);
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, worker, at, NULL);
    assert_int_equal(errno, 0);
    code_put(worker, at, SPIN_WORD(word));
    assert_int_equal(ptrace(PTRACE_DETACH, worker, NULL, NULL), 0);
    view_wait(&daemon, "hung", &view);
    command_expect_text(view.why, "without the end of a turn");
    assert_int_equal(view.pid, worker);

    trace_begin(worker);
    code_put(worker, at, word);
    assert_int_equal(ptrace(PTRACE_DETACH, worker, NULL, NULL), 0);
    healthy_wait(&daemon);
    assert_int_equal(first_worker(&daemon), worker);
    daemon_stop(&daemon);
}

/* ---- starved ---- */

static pid_t hogs[HOGS];

static void hogs_start(const cpu_set_t *cpus)
{
    for (int i = 0; i < HOGS; i++) {
        hogs[i] = fork();
        assert_true(hogs[i] >= 0);
        if (hogs[i] > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sched_setaffinity(0, sizeof(*cpus), cpus))
            _exit(1);
        for (volatile unsigned turn = 0;; turn++)
            ;
    }
}

static void hogs_end(void)
{
    for (int i = 0; i < HOGS; i++) {
        if (hogs[i] <= 0)
            continue;
        kill(hogs[i], SIGKILL);
        waitpid(hogs[i], NULL, 0);
        hogs[i] = 0;
    }
}

static int starved_teardown(void **state)
{
    hogs_end();
    return daemon_test_teardown(state);
}

/* Whoever has the core first, the worker comes last. It never sleeps, so it is always in line. */
static void starved_worker_is_told(void **state)
{
    const struct sched_param none = {0};
    cpu_set_t all, one;
    struct daemon daemon;
    struct view view;
    size_t cpu = 0;

    (void)state;
    daemon_start(&daemon, "cli", "--idle busy");
    healthy_wait(&daemon);
    pid_t worker = first_worker(&daemon);
    assert_int_equal(sched_getaffinity(worker, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(worker, sizeof(one), &one), 0);
    assert_int_equal(sched_setscheduler(worker, SCHED_IDLE, &none), 0);
    hogs_start(&one);
    view_wait(&daemon, "starved", &view);
    command_expect_text(view.why, "others use that core");
    hogs_end();
    healthy_wait(&daemon);
    assert_int_equal(first_worker(&daemon), worker);
    daemon_stop(&daemon);
}

/* ---- dead ---- */

static void unnoticed_death_is_told(void **state)
{
    struct daemon daemon;
    struct view view;

    (void)state;
    daemon_start(&daemon, "cli", "");
    healthy_wait(&daemon);
    pid_t worker = first_worker(&daemon);
    kill(daemon.pid, SIGSTOP);
    kill(worker, SIGKILL);
    view_wait(&daemon, "dead", &view);
    assert_int_equal(view.pid, worker);
    kill(daemon.pid, SIGCONT);
    healthy_wait(&daemon);
    view_take(&daemon, &view);
    assert_true(view.pid != worker);
    assert_int_equal(view.restarts, 1);
    assert_string_equal(view.last_exit, "killed by SIGKILL");
    status_run(&daemon, "");
    command_expect_text(command.out, "ago: killed by SIGKILL; restarts 1");
    status_expect(&daemon, "--errors", 0);
    command_expect_text(command.out, "killed by SIGKILL");
    daemon_stop(&daemon);
}

/* Each death right after the start makes the pause longer, until it is long enough to be seen. */
static void pause_before_a_restart_is_told(void **state)
{
    struct wait wait;
    struct daemon daemon;
    struct view view;

    (void)state;
    daemon_start(&daemon, "cli", "--restart-max-deaths 1000 --restart-backoff-max 5s");
    healthy_wait(&daemon);
    wait = wait_begin("the state backoff", FOUND_MS);
    for (;;) {
        view_take(&daemon, &view);
        if (strcmp(view.state, "backoff") == 0)
            break;
        if (view.pid > 0)
            kill((pid_t)view.pid, SIGKILL);
        wait_step(&wait);
    }
    assert_int_equal(view.pid, 0);
    assert_string_equal(view.health, "degraded");
    assert_string_equal(view.last_exit, "killed by SIGKILL");
    healthy_wait(&daemon);
    daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(stopped_worker_is_told, daemon_test_teardown),
        cmocka_unit_test_teardown(everybody_stopped_answers_at_once, daemon_test_teardown),
        cmocka_unit_test_teardown(traced_and_hung_worker_is_told, daemon_test_teardown),
        cmocka_unit_test_teardown(starved_worker_is_told, starved_teardown),
        cmocka_unit_test_teardown(unnoticed_death_is_told, daemon_test_teardown),
        cmocka_unit_test_teardown(pause_before_a_restart_is_told, daemon_test_teardown),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
