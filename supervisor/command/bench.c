/* `tesup bench`: the benchmark is a program of its own, as it links the client library. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/command/cmd.h"

#define BENCH_PROGRAM "tesup-bench"

/* 0, or -1 when the path of this program is unknown or too long. */
static int bench_beside(char *path, size_t size)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (len <= 0)
        return -1;
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return -1;
    *slash = '\0';
    int n = snprintf(path, size, "%s/%s", self, BENCH_PROGRAM);
    return n < 0 || (size_t)n >= size ? -1 : 0;
}

int cmd_bench(int argc, char **argv)
{
    static const char installed[] = TESUP_LIBEXECDIR "/" BENCH_PROGRAM;
    static char title[] = "tesup bench";
    char beside[PATH_MAX + sizeof(BENCH_PROGRAM) + 1];
    const char *path = installed;

    (void)argc;
    if (bench_beside(beside, sizeof(beside)) == 0 && access(beside, X_OK) == 0)
        path = beside;
    argv[0] = title;
    execv(path, argv);
    fprintf(stderr,
            "tesup bench: cannot run %s: %s\n"
            "It belongs next to the tesup program or at %s; install or build it.\n",
            path, strerror(errno), installed);
    return errno == ENOENT ? 127 : 126;
}
