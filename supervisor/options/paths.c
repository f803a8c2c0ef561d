/* Paths that depend on who runs and where. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/options/paths.h"

#define PATHS_ROOT_RUNTIME "/run/tesup"
#define PATHS_ROOT_KEY     "/etc/tesup/peer.key"

/* An environment variable that holds an absolute path, as the XDG rules want it; or NULL. */
static const char *env_directory(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] == '/' ? value : NULL;
}

static int runtime_default(char *dir, size_t size, char *text, size_t text_size)
{
    const char *xdg = env_directory("XDG_RUNTIME_DIR");
    int n;

    if (geteuid() == 0) {
        n = snprintf(dir, size, "%s", PATHS_ROOT_RUNTIME);
    } else if (xdg) {
        n = snprintf(dir, size, "%s/tesup", xdg);
    } else {
        snprintf(text, text_size,
                 "XDG_RUNTIME_DIR is not set (or no absolute path), so there is no default runtime "
                 "directory; set it, or give --runtime-dir DIR");
        return -1;
    }
    if (n < 0 || (size_t)n >= size) {
        snprintf(text, text_size, "XDG_RUNTIME_DIR is too long a path");
        return -1;
    }
    return 0;
}

/* Jobs get the path in TESUP_SOCKET and may have another working directory. */
static int runtime_absolute(const char *given, char *dir, size_t size, char *text, size_t text_size)
{
    char here[PATH_MAX] = "";
    int n;

    if (given[0] == '/') {
        n = snprintf(dir, size, "%s", given);
    } else {
        if (!getcwd(here, sizeof(here))) {
            snprintf(text, text_size, "the working directory is unknown: %s; give an absolute path",
                     strerror(errno));
            return -1;
        }
        n = snprintf(dir, size, "%s/%s", here, given);
    }
    if (n < 0 || (size_t)n >= size) {
        snprintf(text, text_size, "runtime directory '%.60s...' is too long a path", given);
        return -1;
    }
    return 0;
}

int options_paths_default(const char *name, const char *runtime_dir, struct options_paths *paths,
                          char *text, size_t text_size)
{
    int err;

    if (!name || name[0] == '\0')
        name = OPTIONS_NAME_DEFAULT;
    if (strchr(name, '/') || name[0] == '.' || strlen(name) >= OPTIONS_NAME_MAX) {
        snprintf(text, text_size, "'%.60s' is not the name of a supervisor", name);
        return -1;
    }
    if (runtime_dir && runtime_dir[0])
        err = runtime_absolute(runtime_dir, paths->runtime_dir, sizeof(paths->runtime_dir), text,
                               text_size);
    else
        err = runtime_default(paths->runtime_dir, sizeof(paths->runtime_dir), text, text_size);
    if (err)
        return -1;

    int s = snprintf(paths->socket, sizeof(paths->socket), "%s/%s.sock", paths->runtime_dir, name);
    int l = snprintf(paths->lock, sizeof(paths->lock), "%s/%s.lock", paths->runtime_dir, name);
    if (s < 0 || l < 0 || (size_t)s >= sizeof(paths->socket) || (size_t)l >= sizeof(paths->lock)) {
        snprintf(text, text_size,
                 "socket path %.200s/%s.sock is longer than the %u characters that the system "
                 "allows; give a shorter --runtime-dir or --name",
                 paths->runtime_dir, name, OPTIONS_SOCKET_MAX - 1);
        return -1;
    }
    return 0;
}

int options_key_default(char *path, size_t size, char *text, size_t text_size)
{
    const char *config = env_directory("XDG_CONFIG_HOME");
    const char *home = env_directory("HOME");
    int n;

    if (geteuid() == 0) {
        n = snprintf(path, size, "%s", PATHS_ROOT_KEY);
    } else if (config) {
        n = snprintf(path, size, "%s/tesup/peer.key", config);
    } else if (home) {
        n = snprintf(path, size, "%s/.config/tesup/peer.key", home);
    } else {
        snprintf(text, text_size,
                 "neither XDG_CONFIG_HOME nor HOME is set, so there is no default place for the "
                 "peer key; set one, or give --peer-key FILE");
        return -1;
    }
    if (n < 0 || (size_t)n >= size) {
        snprintf(text, text_size, "XDG_CONFIG_HOME or HOME is too long a path");
        return -1;
    }
    return 0;
}
