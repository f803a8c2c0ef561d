#include "supervisor/daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void daemonize_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* The parent's whole rest. */
_Noreturn static void starter_wait(int fd, pid_t child)
{
    char line[512];
    size_t have = 0;
    ssize_t got;
    int status;

    while ((got = read(fd, line + have, sizeof(line) - have)) != 0) {
        if (got < 0 && errno != EINTR)
            break;
        have += got > 0 ? (size_t)got : 0;
        if (have > 0 && (line[have - 1] == '\n' || have == sizeof(line)))
            _exit(write(STDOUT_FILENO, line, have) == (ssize_t)have ? 0 : 1);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int daemonize_begin(void)
{
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    if (child > 0) {
        close(ends[1]);
        starter_wait(ends[0], child);
    }
    close(ends[0]);
    setsid();
    return ends[1];
}

void daemonize_done(int fd, const char *line)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct stat log;

    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        /* A log file was asked for; a terminal or a pipe must not be held. */
        if (fstat(STDERR_FILENO, &log) < 0 || !S_ISREG(log.st_mode))
            dup2(null, STDERR_FILENO);
        close(null);
    }
    /* Nobody reads: then the starter is gone, and the daemon runs all the same. */
    (void)!write(fd, line, strlen(line));
    close(fd);
}
