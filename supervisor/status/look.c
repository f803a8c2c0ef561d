#include "supervisor/status/look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shm/clock.h"
#include "shm/process.h"

/* Bytes read, or -1 with errno. */
static ssize_t proc_read(pid_t pid, const char *file, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, text, size - 1);
    int error = errno;
    close(fd);
    errno = error;
    if (got >= 0)
        text[got] = '\0';
    return got;
}

static char state_read(pid_t pid)
{
    char text[512];
    ssize_t got = proc_read(pid, "stat", text, sizeof(text));

    if (got < 0 && (errno == ENOENT || errno == ESRCH))
        return 'X';
    if (got < 0)
        return '\0';
    const char *end = strrchr(text, ')'); /* the command name may hold anything, also ") T" */
    return (char)(end && end[1] == ' ' ? end[2] : '\0');
}

static uint64_t cpu_read(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
        return 0;
    return (uint64_t)used.tv_sec * CLOCK_NS_PER_S + (uint64_t)used.tv_nsec;
}

static pid_t tracer_read(pid_t pid)
{
    static const char key[] = "\nTracerPid:";
    char text[2048];

    if (proc_read(pid, "status", text, sizeof(text)) <= 0)
        return 0;
    const char *line = strstr(text, key);
    return line ? (pid_t)strtol(line + sizeof(key) - 1, NULL, 10) : 0;
}

/* "0" is what the kernel says when it does not say. */
static void wait_read(pid_t pid, char *text, size_t size)
{
    if (proc_read(pid, "wchan", text, size) <= 0 || strcmp(text, "0") == 0)
        text[0] = '\0';
}

void status_look_proc(pid_t pid, struct status_process *process)
{
    *process = (struct status_process){.state = state_read(pid)};
    if (process->state == 'X')
        return;
    process->start_ticks = process_start_time(pid);
    process->cpu_ns = cpu_read(pid);
    if (process->state == 't')
        process->tracer = tracer_read(pid);
    if (process->state == 'S' || process->state == 'D')
        wait_read(pid, process->wait, sizeof(process->wait));
}
