#include "shm/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t proc_read(pid_t pid, const char *file, char *text, size_t size)
{
    char path[64];
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    got = read(fd, text, size - 1);
    close(fd);
    if (got >= 0)
        text[got] = '\0';
    return got;
}

uint64_t process_start_time(pid_t pid)
{
    char text[1024];
    char *at;

    if (proc_read(pid, "stat", text, sizeof(text)) <= 0)
        return 0;
    at = strrchr(text, ')'); /* the command name may hold anything, also ") 1 2" */
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

void process_comm(pid_t pid, char comm[16])
{
    memset(comm, 0, 16);
    if (proc_read(pid, "comm", comm, 16) > 0)
        comm[strcspn(comm, "\n")] = '\0';
}

int process_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int process_pidfd_signal(int pidfd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}
