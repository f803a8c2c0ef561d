#include "client/bench/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/bench/clock.h"

#define EXIT_NOT_FOUND 127

static _Noreturn void child_run(const struct process_plan *plan, pid_t parent, int output)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* kill -9 of the parent must not leave daemons behind. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_NOT_FOUND);
    if (output >= 0)
        dup2(output, STDOUT_FILENO);
    if (plan->error_file) {
        int file = open(plan->error_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0 || dup2(file, STDERR_FILENO) < 0)
            _exit(EXIT_NOT_FOUND);
    }
    for (const char *const *variable = plan->variable; variable && *variable; variable++)
        putenv((char *)*variable); /* putenv keeps the string and does not change it */
    execvp(plan->path, (char *const *)plan->argv); /* nor does exec change its words */
    fprintf(stderr, "tesup bench: cannot run %s: %s\n", plan->path, strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

int process_start(struct process *process, const struct process_plan *plan)
{
    int pipes[2] = {-1, -1};
    pid_t parent = getpid();

    *process = PROCESS_EMPTY;
    if (plan->capture_output && pipe2(pipes, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid < 0)
        goto err_close;
    if (pid == 0)
        child_run(plan, parent, pipes[1]);
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0)
        goto err_kill;
    if (pipes[1] >= 0)
        close(pipes[1]);
    *process = (struct process){.pid = pid, .pidfd = pidfd, .output = pipes[0]};
    return 0;

err_kill:
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
err_close:
    if (pipes[0] >= 0) {
        close(pipes[0]);
        close(pipes[1]);
    }
    return -1;
}

/* 0: `fd` is readable; -1: the deadline passed; -2: a signal is there. */
static int readable_wait(int fd, uint64_t deadline_ns, int signal_fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};

    for (;;) {
        uint64_t now = clock_now_ns();
        int timeout = 60000;
        if (now >= deadline_ns)
            return -1;
        if ((deadline_ns - now) / CLOCK_NS_PER_MS < (uint64_t)timeout)
            timeout = (int)((deadline_ns - now) / CLOCK_NS_PER_MS) + 1;
        if (poll(fds, 2, timeout) <= 0)
            continue;
        return fds[1].revents ? -2 : 0;
    }
}

static void process_forget(struct process *process)
{
    close(process->pidfd);
    if (process->output >= 0)
        close(process->output);
    *process = PROCESS_EMPTY;
}

int process_wait(struct process *process, uint64_t deadline_ns, int signal_fd)
{
    int status;
    int waited = readable_wait(process->pidfd, deadline_ns, signal_fd);

    if (waited)
        return waited;
    if (waitpid(process->pid, &status, 0) < 0)
        status = EXIT_FAILURE << 8;
    process_forget(process);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int process_stop(struct process *process, uint32_t grace_ms)
{
    if (process->pid == 0)
        return 0;
    kill(process->pid, SIGTERM);
    int code = process_wait(process, clock_now_ns() + grace_ms * CLOCK_NS_PER_MS, -1);
    if (code >= 0)
        return code;
    kill(process->pid, SIGKILL);
    return process_wait(process, UINT64_MAX, -1);
}

int process_line_read(struct process *process, char *line, size_t size, uint64_t deadline_ns,
                      int signal_fd)
{
    size_t length = 0;

    /* Byte by byte: what follows the line stays in the pipe for the next call. */
    while (length + 1 < size) {
        int waited = readable_wait(process->output, deadline_ns, signal_fd);
        if (waited)
            return waited;
        if (read(process->output, line + length, 1) != 1)
            return -1;
        if (line[length] == '\n')
            break;
        length++;
    }
    line[length] = '\0';
    return 0;
}

void process_tesup_find(char path[PATH_MAX])
{
    /* In the build folder both are neighbours; installed, this one is in libexec/tesup. */
    static const char *const places[] = {"tesup", "../../bin/tesup"};
    const char *told = getenv("TESUP_BIN");
    char self[PATH_MAX];

    snprintf(path, PATH_MAX, "%s", told && *told ? told : "tesup");
    if (told && *told)
        return;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    while (length > 0 && self[length - 1] != '/')
        length--;
    for (size_t i = 0; length > 0 && i < sizeof(places) / sizeof(places[0]); i++) {
        char candidate[PATH_MAX];
        int written =
            snprintf(candidate, sizeof(candidate), "%.*s%s", (int)length, self, places[i]);
        if (written < PATH_MAX && access(candidate, X_OK) == 0) {
            memcpy(path, candidate, (size_t)written + 1);
            return;
        }
    }
}
