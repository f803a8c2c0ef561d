#include "supervisor/command/run_job.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NOT_FOUND      127
#define EXIT_NOT_EXECUTABLE 126

static void job_exec(const struct run_order *order)
{
    sigprocmask(SIG_SETMASK, order->mask, NULL);
    if (setenv("TESUP_SOCKET", order->socket, 1) ||
        (order->pair && setenv("TESUP_PAIR", order->pair, 1))) {
        perror("tesup run: environment");
        _exit(EXIT_NOT_EXECUTABLE);
    }
    if (run_bind_apply(&order->bind))
        _exit(RUN_EXIT_FAILED);
    execvp(order->command[0], order->command);
    fprintf(stderr, "tesup run: %s: %s\n", order->command[0], strerror(errno));
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

static int exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* Takes dead children. True when the job is one of them. */
static bool children_reap(pid_t job, int *code, struct run_daemon *daemon)
{
    int wait_status;
    bool done = false;
    pid_t pid;

    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid == job) {
            *code = exit_code(wait_status);
            done = true;
        } else if (pid == daemon->pid) {
            daemon->pid = 0;
            fprintf(stderr, "tesup run: the private supervisor ended (code %d) before the job\n",
                    exit_code(wait_status));
        }
    }
    return done;
}

/* True when the job ended. */
static bool signal_handle(int signals, pid_t job, int *code, struct run_daemon *daemon)
{
    struct signalfd_siginfo info;

    if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return false;
    if (info.ssi_signo == SIGCHLD)
        return children_reap(job, code, daemon);
    /* What the terminal sent, it sent to the job too. */
    if (info.ssi_code != SI_KERNEL)
        kill(job, (int)info.ssi_signo);
    return false;
}

static int job_wait(pid_t job, int signals, struct run_daemon *daemon)
{
    int code = -1;

    for (;;) {
        struct pollfd poll_fds[] = {{.fd = signals, .events = POLLIN},
                                    {.fd = daemon->output, .events = POLLIN}};

        /* The one wait without a deadline: a job runs as long as it likes. */
        if (poll(poll_fds, 2, -1) < 0 && errno != EINTR) {
            perror("tesup run: poll");
            return -1;
        }
        if (poll_fds[1].revents)
            run_daemon_output_drop(daemon);
        if (poll_fds[0].revents && signal_handle(signals, job, &code, daemon))
            return code;
    }
}

int run_job(const struct run_order *order, int signals, struct run_daemon *daemon)
{
    pid_t job = fork();

    if (job == 0)
        job_exec(order);
    if (job < 0) {
        perror("tesup run: fork");
        return -1;
    }
    return job_wait(job, signals, daemon);
}
