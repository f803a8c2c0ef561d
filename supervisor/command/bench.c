/* `tesup bench`: the benchmark is a program of its own, as it links the client library. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/command/cmd.h"
#include "supervisor/program.h"

int cmd_bench(int argc, char **argv)
{
    static char title[] = "tesup bench";
    char path[PATH_MAX];

    (void)argc;
    if (program_find("tesup-bench", path, sizeof(path)) == 0) {
        argv[0] = title;
        execv(path, argv);
    }
    fprintf(stderr,
            "tesup bench: cannot run %s: %s\n"
            "It belongs next to the tesup program or there; install or build it.\n",
            path, strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
