#include "tests/harness/standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tests/harness/wait.h"

void standin_use(char **argv)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    char longer[4096];

    if (path && strncmp(path, TESUP_STANDIN_DIR, strlen(TESUP_STANDIN_DIR)) == 0)
        return;
    snprintf(longer, sizeof(longer), "%s%s%s", TESUP_STANDIN_DIR, path ? ":" : "",
             path ? path : "");
    setenv("LD_LIBRARY_PATH", longer, 1);
    execv("/proc/self/exe", argv);
    perror("cannot start again with the stand-in");
    exit(1);
}

int standin_child(void (*body)(void *context), void *context, const char *const *environment)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        for (; environment && *environment; environment++) {
            const char *equals = strchr(*environment, '=');
            char name[64];

            snprintf(name, sizeof(name), "%.*s", (int)(equals - *environment), *environment);
            setenv(name, equals + 1, 1);
        }
        body(context);
        exit(0); /* not _exit: the stand-in takes stock */
    }
    return wait_child(pid, WAIT_MS, "a child with the stand-in");
}

bool standin_counters_read(const char *folder, pid_t pid, struct standin_counters *counters)
{
    char path[4096];
    bool whole;
    int fd;

    snprintf(path, sizeof(path), "%s/cuda.%d", folder, (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    whole = read(fd, counters, sizeof(*counters)) == sizeof(*counters);
    close(fd);
    return whole;
}
