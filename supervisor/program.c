#include "supervisor/program.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int program_find(const char *name, char *path, size_t size)
{
    static const char *const ways[] = {"", "../" TESUP_LIBEXEC "/tesup/"};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = NULL;

    if (length > 0) {
        self[length] = '\0';
        slash = strrchr(self, '/');
    }
    for (size_t i = 0; slash != NULL && i < sizeof(ways) / sizeof(ways[0]); i++) {
        int used = snprintf(path, size, "%.*s/%s%s", (int)(slash - self), self, ways[i], name);

        if (used > 0 && (size_t)used < size && access(path, X_OK) == 0)
            return 0;
    }
    snprintf(path, size, "%s/%s", TESUP_LIBEXECDIR, name);
    return access(path, X_OK);
}
