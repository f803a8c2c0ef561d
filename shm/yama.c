#include "shm/yama.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int yama_scope(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char digit = '0';

    if (fd < 0)
        return 0;
    if (read(fd, &digit, 1) != 1 || digit < '0' || digit > '3')
        digit = '1';
    close(fd);
    return digit - '0';
}

static const char *yama_remedy(int scope)
{
    switch (scope) {
    case 0:
        return "use tesup_mem_alloc, or run supervisor and job as the same user, with a program "
               "that is not setuid";
    case 1:
        return "use tesup_mem_alloc, or sysctl kernel.yama.ptrace_scope=0";
    case 2:
        return "use tesup_mem_alloc, run the supervisor as root, or sysctl "
               "kernel.yama.ptrace_scope=1 or 0";
    default: /* the kernel does not let anybody lower it */
        return "use tesup_mem_alloc, or set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot";
    }
}

void yama_explain(int scope, pid_t pid, char *text, size_t size)
{
    char cause[48] = "";

    if (scope > 0)
        snprintf(cause, sizeof(cause), " (Yama ptrace_scope %d)", scope);
    snprintf(text, size, "the kernel forbids reaching the memory of process %d%s: %s", (int)pid,
             cause, yama_remedy(scope));
}
