#include "supervisor/command/locate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "shm/process.h"

#define LOCATE_LINE_MAX 128

static const char *denied_hint(int error)
{
    return error == EACCES ? "; be the user that runs the supervisor, or root" : "";
}

/* A decimal number up to `max` that ends with `stop`. *at is set behind it. -1: it is not one. */
static int number_take(const char **at, char stop, uint64_t max, uint64_t *number)
{
    char *end;

    if (**at < '0' || **at > '9') /* strtoull would take blanks and signs */
        return -1;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    if (errno || *end != stop || *number > max)
        return -1;
    *at = end + 1;
    return 0;
}

int locate_line_parse(const char *line, struct located *found)
{
    uint64_t pid;
    uint64_t start;
    uint64_t fd;

    /* The final newline shows that the line is whole. */
    if (number_take(&line, ' ', INT_MAX, &pid) || number_take(&line, ' ', UINT64_MAX, &start) ||
        number_take(&line, '\n', INT_MAX, &fd) || pid == 0 || start == 0)
        return -1;
    *found = (struct located){.pid = (pid_t)pid, .start_time = start, .counters_fd = (int)fd};
    return 0;
}

static bool process_is(const struct located *found)
{
    return process_start_time(found->pid) == found->start_time;
}

/* A lock of our own would get in the way of a supervisor that starts; so this is only asked about
 * a file whose process lives, and given back at once. */
static bool lock_is_held(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        flock(fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

static enum locate_result lock_judge(int fd, const char *path, struct located *found, char *text,
                                     size_t text_size)
{
    char line[LOCATE_LINE_MAX];
    ssize_t len = read(fd, line, sizeof(line) - 1);

    if (len < 0) {
        snprintf(text, text_size, "lock file %s: %s", path, strerror(errno));
        return LOCATE_ERROR;
    }
    line[len] = '\0';
    if (len == 0) {
        snprintf(text, text_size, "lock file %s is empty: its supervisor is starting or gone",
                 path);
        return LOCATE_NOBODY;
    }
    if (locate_line_parse(line, found)) {
        snprintf(text, text_size, "lock file %s does not hold 'PID STARTTIME FD'", path);
        return LOCATE_ERROR;
    }
    if (!process_is(found) || !lock_is_held(fd)) {
        snprintf(text, text_size, "lock file %s is left over from process %d, which is gone", path,
                 (int)found->pid);
        return LOCATE_NOBODY;
    }
    return LOCATE_FOUND;
}

enum locate_result locate_supervisor(const struct options_paths *paths, struct located *found,
                                     char *text, size_t text_size)
{
    int fd = open(paths->lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        snprintf(text, text_size, "there is no lock file %s", paths->lock);
        return LOCATE_NOBODY;
    }
    if (fd < 0) {
        snprintf(text, text_size, "lock file %s: %s%s", paths->lock, strerror(errno),
                 denied_hint(errno));
        return LOCATE_ERROR;
    }
    enum locate_result result = lock_judge(fd, paths->lock, found, text, text_size);
    close(fd);
    return result;
}

int locate_counters_open(const struct located *found, char *text, size_t text_size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)found->pid, found->counters_fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(text, text_size, "counters of supervisor %d (%s): %s%s", (int)found->pid, path,
                 strerror(errno), denied_hint(errno));
        return -1;
    }
    /* It may have ended, and its pid gone to another process, before the file was open. */
    if (!process_is(found)) {
        snprintf(text, text_size, "supervisor %d ended just now", (int)found->pid);
        close(fd);
        return -1;
    }
    return fd;
}
