#include "supervisor/command/run_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/clock.h"
#include "shm/process.h"

#define READY_LINE "listening on "
#define READY_MS   15000u
#define STOP_MS    10000 /* longer than the default drain */
#define KILL_MS    2000
#define FIXED_ARGS 8u

/* A directory that does not exist yet: the supervisor makes it, and removes it when it ends, also
 * when this process is killed and cannot. */
static int daemon_place(struct run_daemon *daemon, const char *name)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    char directory[PATH_MAX];
    char text[OPTIONS_PATHS_TEXT_MAX];
    uint64_t random;

    if (!base || access(base, W_OK | X_OK))
        base = getenv("TMPDIR");
    if (!base || base[0] != '/')
        base = "/tmp";
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        perror("tesup run: no random numbers");
        return -1;
    }
    snprintf(directory, sizeof(directory), "%s/tesup-run-%016" PRIx64, base, random);
    if (options_paths_default(name, directory, &daemon->paths, text, sizeof(text))) {
        fprintf(stderr, "tesup run: %s\n", text);
        return -1;
    }
    return 0;
}

static void daemon_exec(const struct run_daemon *daemon, const char *name, char *const *extra,
                        size_t extra_count, int output)
{
    const char *argv[FIXED_ARGS + RUN_DAEMON_ARGS_MAX + 2] = {
        "tesup",         "serve",
        "--foreground",  "--listen=127.0.0.1:0",
        "--runtime-dir", daemon->paths.runtime_dir,
        "--name",        name,
    };
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (size_t i = 0; i < extra_count; i++)
        argv[FIXED_ARGS + i] = extra[i];
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    execv("/proc/self/exe", (char *const *)argv);
    fprintf(stderr, "tesup run: cannot start `tesup serve`: %s\n", strerror(errno));
    _exit(127);
}

int run_daemon_start(struct run_daemon *daemon, const char *name, char *const *extra,
                     size_t extra_count, const sigset_t *mask)
{
    int output[2];
    pid_t parent = getpid();

    if (daemon_place(daemon, name))
        return -1;
    if (pipe2(output, O_CLOEXEC)) {
        perror("tesup run: pipe");
        return -1;
    }
    daemon->pid = fork();
    if (daemon->pid == 0) {
        /* Gone when we are, and no Ctrl-C from the terminal while the job still finishes. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, mask, NULL);
        daemon_exec(daemon, name, extra, extra_count, output[1]);
    }
    close(output[1]);
    if (daemon->pid < 0) {
        perror("tesup run: fork");
        daemon->pid = 0;
        close(output[0]);
        return -1;
    }
    daemon->output = output[0];
    return 0;
}

/* Reads what is there. 1 when the line came, 0 not yet, -1 at the end of the output. */
static int ready_look(struct run_daemon *daemon, char *text, size_t size, size_t *len)
{
    ssize_t n;

    if (*len + 1 >= size)
        return -1;
    n = read(daemon->output, text + *len, size - 1 - *len);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0)
        return -1;
    *len += (size_t)n;
    text[*len] = '\0';
    const char *line = strstr(text, READY_LINE);
    return line && strchr(line, '\n') ? 1 : 0;
}

/* The signal that asks us to stop, 0 when there is none (SIGCHLD is seen by the output's end). */
static int signal_look(int signals)
{
    struct signalfd_siginfo info;

    if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return info.ssi_signo == SIGCHLD ? 0 : (int)info.ssi_signo;
}

int run_daemon_wait_ready(struct run_daemon *daemon, int signals)
{
    uint64_t deadline = clock_now() + READY_MS * CLOCK_NS_PER_MS;
    struct pollfd poll_fds[] = {{.fd = daemon->output, .events = POLLIN},
                                {.fd = signals, .events = POLLIN}};
    char text[4096];
    size_t len = 0;

    for (;;) {
        int ready = poll(poll_fds, 2, clock_ms_until(deadline, clock_now()));

        if (ready == 0) {
            fprintf(stderr, "tesup run: the private supervisor is not ready after %u s\n",
                    READY_MS / 1000);
            return -1;
        }
        if (ready > 0 && poll_fds[1].revents) {
            int signal = signal_look(signals);

            if (signal)
                return signal;
        }
        if (ready > 0 && poll_fds[0].revents) {
            int seen = ready_look(daemon, text, sizeof(text), &len);

            if (seen > 0)
                return 0;
            if (seen < 0) {
                fprintf(stderr, "tesup run: the private supervisor ended before it was ready; "
                                "its own message says why\n");
                return -1;
            }
        }
    }
}

void run_daemon_output_drop(struct run_daemon *daemon)
{
    char text[4096];
    ssize_t n = read(daemon->output, text, sizeof(text));

    if (n > 0 || (n < 0 && errno == EINTR))
        return;
    close(daemon->output);
    daemon->output = -1;
}

/* Reaps it. 0, or -1 when it still runs after `ms`. */
static int daemon_reap(struct run_daemon *daemon, int pidfd, int ms)
{
    uint64_t deadline = clock_now() + (uint64_t)ms * CLOCK_NS_PER_MS;
    struct pollfd poll_fds[] = {{.fd = pidfd, .events = POLLIN},
                                {.fd = daemon->output, .events = POLLIN}};

    while (waitpid(daemon->pid, NULL, WNOHANG) == 0) {
        if (clock_now() >= deadline)
            return -1;
        poll_fds[1].fd = daemon->output;
        if (poll(poll_fds, 2, clock_ms_until(deadline, clock_now())) > 0 && poll_fds[1].revents)
            run_daemon_output_drop(daemon);
    }
    daemon->pid = 0;
    return 0;
}

void run_daemon_stop(struct run_daemon *daemon)
{
    if (daemon->pid > 0) {
        int pidfd = process_pidfd(daemon->pid);

        kill(daemon->pid, SIGTERM);
        if (daemon_reap(daemon, pidfd, STOP_MS)) {
            fprintf(stderr, "tesup run: the private supervisor did not end in %d s; killed\n",
                    STOP_MS / 1000);
            kill(daemon->pid, SIGKILL);
            (void)daemon_reap(daemon, pidfd, KILL_MS);
        }
        if (pidfd >= 0)
            close(pidfd);
    }
    if (daemon->output >= 0) {
        close(daemon->output);
        daemon->output = -1;
    }
    /* Nothing of it is left unless it was killed. */
    unlink(daemon->paths.socket);
    unlink(daemon->paths.lock);
    rmdir(daemon->paths.runtime_dir);
}
