/* `tesup status` tells apart why a worker does not move: from its heartbeat and what the kernel
 * says about its process. */
#include "tests/unit/supervisor/status/status_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#include "supervisor/status/look.h"

#define MS CLOCK_NS_PER_MS

static struct counters_worker *sick(struct fixture *f)
{
    return &f->live->worker[5];
}

static const struct counters_worker *seen(const struct fixture *f)
{
    return &f->status.seen->worker[5];
}

/* Its last heartbeat was too long ago, after 100 ms of CPU time. */
static void heart_stop(struct fixture *f)
{
    atomic_set(&sick(f)->stats.heartbeat_ns, NOW - 3000 * MS);
    atomic_set(&sick(f)->stats.heartbeat_cpu_ns, 100 * MS);
}

static void expect(struct fixture *f, const char *state, const char *why)
{
    take(f);
    assert_string_equal(status_worker_state(&f->status, seen(f)), state);
    if (!strstr(status_worker_why(&f->status, seen(f)), why))
        fail_msg("'%s' is not in '%s'", why, status_worker_why(&f->status, seen(f)));
}

static void test_stopped_by_signal(void **state)
{
    struct fixture *f = *state;

    fixture_process.state = 'T';
    expect(f, "ready", ""); /* for a moment only, as far as anybody knows */
    assert_int_equal(f->status.reason_count, 0);
    heart_stop(f);
    expect(f, "stopped", "kill -CONT 42");
    assert_int_equal(f->status.reason_count, 1);
    assert_string_equal(f->status.reason[0],
                        "worker tcp@node1 (pid 42) does not move: last heartbeat 3000 ms ago; it "
                        "is stopped: a signal stopped it; `kill -CONT 42` lets it go on");
}

static void test_stopped_by_debugger(void **state)
{
    struct fixture *f = *state;

    fixture_process.state = 't';
    fixture_process.tracer = 4711;
    heart_stop(f);
    expect(f, "stopped", "process 4711, a debugger");
}

/* 499 ms of CPU time since the heartbeat may be spread over the whole time; 500 are one turn. */
static void test_starved_or_hung(void **state)
{
    struct fixture *f = *state;

    heart_stop(f);
    fixture_process.state = 'R';
    fixture_process.cpu_ns = 100 * MS;
    expect(f, "starved", "for 0 ms since then");
    fixture_process.cpu_ns = 599 * MS;
    expect(f, "starved", "for 499 ms since then");
    fixture_process.cpu_ns = 600 * MS;
    expect(f, "hung", "for 0.5 s of CPU time");
    fixture_process.cpu_ns = 0; /* unknown */
    expect(f, "starved", "for 0 ms since then");
}

static void test_hung_in_the_kernel(void **state)
{
    struct fixture *f = *state;

    heart_stop(f);
    fixture_process.state = 'D';
    snprintf(fixture_process.wait, sizeof(fixture_process.wait), "folio_wait_bit");
    expect(f, "hung", "waits in the kernel (folio_wait_bit)");
    fixture_process.wait[0] = '\0';
    expect(f, "hung", "waits in the kernel");
    fixture_process.state = '\0'; /* nobody could look */
    expect(f, "hung", "");
}

static void test_dead(void **state)
{
    static const char states[] = {'X', 'Z'};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(states); i++) {
        fixture_process.state = states[i];
        expect(f, "dead", "has not noticed");
    }
    fixture_process.state = 'R';
    fixture_process.start_ticks = 7001; /* another process has its number */
    expect(f, "dead", "has not noticed");
    fixture_process.start_ticks = 0; /* unknown */
    expect(f, "ready", "");
}

static void test_only_who_should_move(void **state)
{
    static const uint64_t resting[] = {WORKER_STATE_DOWN, WORKER_STATE_BACKOFF,
                                       WORKER_STATE_FAILED};
    struct fixture *f = *state;

    fixture_process.state = 'X';
    heart_stop(f);
    for (size_t i = 0; i < sizeof(resting) / sizeof(resting[0]); i++) {
        atomic_set(&sick(f)->life.state, resting[i]);
        expect(f, worker_state_name(resting[i]), "");
    }
    /* The heartbeat is its predecessor's. */
    atomic_set(&sick(f)->life.state, WORKER_STATE_STARTING);
    fixture_process.state = 'R';
    expect(f, "starting", "");
    fixture_process.state = 'T';
    expect(f, "stopped", "");
    atomic_set(&sick(f)->life.state, WORKER_STATE_DRAINING);
    fixture_process.state = 'R';
    expect(f, "starved", "");
}

static void test_supervisor(void **state)
{
    struct fixture *f = *state;

    atomic_set(&f->live->supervisor.heartbeat_ns, NOW - 3000 * MS);
    take(f);
    assert_int_equal(f->status.supervisor.halt, STATUS_HALT_HUNG);
    assert_string_equal(f->status.reason[0],
                        "the supervisor does not move: last heartbeat 3000 ms ago; it is hung: it "
                        "waits in the kernel (do_epoll_wait)");
}

/* The looks of the real thing: at a child that sleeps, is stopped, is dead, is gone. */
static void test_look_at_a_process(void **state)
{
    struct status_process process;
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    status_look_proc(child, &process);
    assert_int_equal(process.state, 'T');
    assert_true(process.start_ticks > 0);
    assert_true(process.cpu_ns > 0);
    assert_int_equal(process.tracer, 0);

    kill(child, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    status_look_proc(child, &process);
    assert_int_equal(process.state, 'Z');
    assert_int_equal(waitpid(child, &status, 0), child);
    status_look_proc(child, &process);
    assert_int_equal(process.state, 'X');
    status_look_proc(getpid(), &process);
    assert_int_equal(process.state, 'R');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_stopped_by_signal),
        TEST(test_stopped_by_debugger),
        TEST(test_starved_or_hung),
        TEST(test_hung_in_the_kernel),
        TEST(test_dead),
        TEST(test_only_who_should_move),
        TEST(test_supervisor),
        cmocka_unit_test(test_look_at_a_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
