#include "supervisor/worker/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/process.h"
#include "supervisor/program.h"
#include "supervisor/worker/bind.h"

static void child_bind(const struct worker_place *place, int report)
{
    if (bind_cpus(place->cpus) < 0)
        dprintf(report, "not pinned to cpu %s: %s; ", place->cpus, strerror(errno));
    if (place->node >= 0 && bind_memory(place->node) < 0)
        dprintf(report, "memory not bound to node %d: %s; ", place->node, strerror(errno));
}

/* Signal mask, standard input and output are the supervisor's own business.  In the background the
 * terminal or pipe of who started us must not be held either; a log file may. */
static void child_inheritance_reset(bool foreground)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct stat log;
    sigset_t none;

    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
        if (!foreground && (fstat(STDERR_FILENO, &log) < 0 || !S_ISREG(log.st_mode)))
            dup2(nothing, STDERR_FILENO);
    }

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Ctrl-C is for the supervisor, which lets its workers finish. */
    setpgid(0, 0);
}

_Noreturn static void child_run(const struct worker_place *place, const char *program, int control,
                                int report, pid_t parent)
{
    char name[] = "tesup-worker";
    char label[128];
    char *argv[] = {name, label, NULL};

    snprintf(label, sizeof(label), "%s", place->name);
    /* The parent may have died before the first call: then nobody sends the signal. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    child_inheritance_reset(place->foreground);
    child_bind(place, report);
    /* dup2 onto itself would leave close-on-exec set. */
    if (control == WORKER_CONTROL_FD)
        fcntl(control, F_SETFD, 0);
    else
        dup2(control, WORKER_CONTROL_FD);
    close_range(WORKER_CONTROL_FD + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    execv(program, argv);
    dprintf(report, "%s cannot be executed: %s; ", program, strerror(errno));
    _exit(127);
}

/* The child keeps `report` above the control descriptor's number, so that dup2 does not close it.
 */
static int report_pipe(int ends[2])
{
    int moved;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    moved = fcntl(ends[1], F_DUPFD_CLOEXEC, WORKER_CONTROL_FD + 1);
    close(ends[1]);
    if (moved < 0) {
        close(ends[0]);
        return -1;
    }
    ends[1] = moved;
    return 0;
}

int worker_spawn(const struct worker_place *place, struct worker_spawned *spawned, char *text,
                 size_t text_size)
{
    char program[PATH_MAX];
    int control[2], report[2];
    pid_t parent = getpid();

    if (program_find("tesup-worker", program, sizeof(program)) < 0) {
        snprintf(text, text_size, "has no program: tesup-worker is neither next to tesup nor %s",
                 program);
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) < 0)
        goto err_text;
    if (report_pipe(report) < 0)
        goto err_control;
    spawned->pid = fork();
    if (spawned->pid < 0)
        goto err_report;
    if (spawned->pid == 0)
        child_run(place, program, control[1], report[1], parent);
    /* Nobody but us reaps it, so the number is still its own. */
    spawned->pidfd = process_pidfd(spawned->pid);
    if (spawned->pidfd < 0)
        goto err_child;
    close(control[1]);
    close(report[1]);
    spawned->control = control[0];
    spawned->report = report[0];
    return 0;

err_child:
    kill(spawned->pid, SIGKILL);
    waitpid(spawned->pid, NULL, 0);
err_report:
    close(report[0]);
    close(report[1]);
err_control:
    close(control[0]);
    close(control[1]);
err_text:
    snprintf(text, text_size, "cannot be started: %s", strerror(errno));
    return -1;
}
