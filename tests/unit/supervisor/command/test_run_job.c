/* The job of `tesup run`: its exit codes, its environment, the signals it gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/command/run_job.h"

struct fixture {
    sigset_t before;
    int signals;
};

static int signals_block(void **state)
{
    static struct fixture f;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &f.before);
    f.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    *state = &f;
    return f.signals < 0 ? -1 : 0;
}

static int signals_restore(void **state)
{
    struct fixture *f = *state;

    close(f->signals);
    return sigprocmask(SIG_SETMASK, &f->before, NULL);
}

static int run_command(struct fixture *f, const char *const *command)
{
    struct run_daemon none = {.output = -1};

    const struct run_order order = {
        .command = (char *const *)command, .socket = "/r/n.sock", .mask = &f->before};

    return run_job(&order, f->signals, &none);
}

static int run_script(struct fixture *f, const char *script)
{
    const char *const command[] = {"sh", "-c", script, NULL};

    return run_command(f, command);
}

static void test_exit_codes(void **state)
{
    struct fixture *f = *state;
    const char *const missing[] = {"tesup-no-such-program", NULL};
    const char *const not_a_program[] = {"/etc/passwd", NULL};

    assert_int_equal(run_script(f, "exit 0"), 0);
    assert_int_equal(run_script(f, "exit 42"), 42);
    assert_int_equal(run_script(f, "kill -KILL $$"), 128 + SIGKILL);
    assert_int_equal(run_command(f, missing), 127);
    assert_int_equal(run_command(f, not_a_program), 126);
}

static void test_environment(void **state)
{
    assert_int_equal(run_script(*state, "test \"$TESUP_SOCKET\" = /r/n.sock"), 0);
}

/* The job asks for the signal itself once it is ready for it: no sleeping. */
static void test_signals_are_forwarded(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        run_script(f, "trap 'exit 7' TERM; kill -TERM $PPID; while :; do sleep 0.05; done"), 7);
    assert_int_equal(run_script(f, "kill -USR1 $PPID; exec sleep 30"), 128 + SIGUSR1);
}

/* A supervisor that goes before the job is waited for and does not end the job. */
static void test_lost_supervisor(void **state)
{
    struct fixture *f = *state;
    const char *const command[] = {"sh", "-c", "sleep 0.3; exit 5", NULL};
    int output[2];

    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    struct run_daemon daemon = {.output = output[0]};
    daemon.pid = fork();
    assert_true(daemon.pid >= 0);
    if (daemon.pid == 0)
        _exit(3);
    pid_t was = daemon.pid;
    close(output[1]);
    const struct run_order order = {
        .command = (char *const *)command, .socket = "/s", .mask = &f->before};
    assert_int_equal(run_job(&order, f->signals, &daemon), 5);
    assert_int_equal(daemon.pid, 0);
    assert_int_equal(daemon.output, -1);
    assert_int_equal(waitpid(was, NULL, WNOHANG), -1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, signals_block, signals_restore)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exit_codes),
        TEST(test_environment),
        TEST(test_signals_are_forwarded),
        TEST(test_lost_supervisor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
