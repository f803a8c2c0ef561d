#include "supervisor/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/process.h"

/* The directory and its missing parents. 1 when it was made, 0 when it was there, -1 with errno. */
static int directory_make(const char *directory, mode_t mode)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s", directory);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    if (mkdir(directory, 0700) < 0)
        return errno == EEXIST ? 0 : -1;
    return chmod(directory, mode) < 0 ? -1 : 1; /* not what the umask leaves of it */
}

/* Whoever may write in it could put another socket in our place.
 * 0; 1 when it was removed again meanwhile; -1 with text. */
static int directory_check(const char *directory, bool open_to_all, char *text, size_t text_size)
{
    struct stat st;

    if (lstat(directory, &st) < 0) {
        if (errno == ENOENT)
            return 1;
        snprintf(text, text_size, "runtime directory %s: %s", directory, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode)) {
        snprintf(text, text_size, "runtime directory %s is not a directory", directory);
        return -1;
    }
    if (st.st_uid != geteuid()) {
        snprintf(text, text_size,
                 "runtime directory %s belongs to uid %u, not to us (uid %u): name another with "
                 "--runtime-dir",
                 directory, (unsigned)st.st_uid, (unsigned)geteuid());
        return -1;
    }
    if ((st.st_mode & 022) != 0) {
        snprintf(text, text_size,
                 "runtime directory %s can be written by other users (mode %04o): name another "
                 "with --runtime-dir, or run `chmod go-w %s`",
                 directory, (unsigned)st.st_mode & 07777, directory);
        return -1;
    }
    if (open_to_all && (st.st_mode & 0055) != 0055 && chmod(directory, 0755) < 0) {
        snprintf(text, text_size, "runtime directory %s cannot be opened to other users: %s",
                 directory, strerror(errno));
        return -1;
    }
    return 0;
}

static void holder_read(int fd, char *holder, size_t size)
{
    ssize_t got = pread(fd, holder, size - 1, 0);

    holder[got > 0 ? got : 0] = '\0';
    holder[strspn(holder, "0123456789")] = '\0';
}

/* 0; 1 when the file was removed by its last holder meanwhile; -1 with text. */
static int lock_try(struct lock *lock, const char *name, char *text, size_t text_size)
{
    struct stat ours, there;
    char holder[32];

    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock->fd < 0) {
        if (errno == ENOENT)
            return 1;
        snprintf(text, text_size, "lock file %s cannot be opened: %s", lock->path, strerror(errno));
        return -1;
    }
    if (flock(lock->fd, LOCK_EX | LOCK_NB) < 0) {
        int saved = errno;

        holder_read(lock->fd, holder, sizeof(holder));
        if (saved == EWOULDBLOCK)
            snprintf(text, text_size, "a tesup supervisor named %s runs already (pid %s)", name,
                     holder[0] != '\0' ? holder : "unknown, it is just starting");
        else
            snprintf(text, text_size, "lock file %s cannot be locked: %s", lock->path,
                     strerror(saved));
        goto err_close;
    }
    if (fstat(lock->fd, &ours) == 0 && stat(lock->path, &there) == 0 &&
        ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
        return 0;
    close(lock->fd);
    lock->fd = -1;
    return 1;

err_close:
    close(lock->fd);
    lock->fd = -1;
    return -1;
}

int lock_take(struct lock *lock, const char *directory, const char *path, const char *name,
              bool open_to_all, char *text, size_t text_size)
{
    lock->fd = -1;
    lock->made_directory = false;
    snprintf(lock->directory, sizeof(lock->directory), "%s", directory);
    snprintf(lock->path, sizeof(lock->path), "%s", path);
    /* A supervisor that is leaving may remove file and directory under our hands. */
    for (int attempt = 0; attempt < 10; attempt++) {
        int rc = directory_make(directory, open_to_all ? 0755 : 0700);

        if (rc < 0) {
            snprintf(text, text_size,
                     "runtime directory %s cannot be made: %s; name another with --runtime-dir",
                     directory, strerror(errno));
            return -1;
        }
        lock->made_directory = lock->made_directory || rc == 1;
        rc = directory_check(directory, open_to_all, text, text_size);
        if (rc == 0)
            rc = lock_try(lock, name, text, text_size);
        if (rc <= 0)
            return rc;
    }
    snprintf(text, text_size, "lock file %s is removed again and again by somebody else", path);
    return -1;
}

int lock_write(struct lock *lock, int counters_fd, char *text, size_t text_size)
{
    char line[96];
    int length = snprintf(line, sizeof(line), "%d %" PRIu64 " %d\n", (int)getpid(),
                          process_start_time(getpid()), counters_fd);

    if (ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, line, (size_t)length, 0) == length)
        return 0;
    snprintf(text, text_size, "lock file %s cannot be written: %s", lock->path, strerror(errno));
    return -1;
}

void lock_release(struct lock *lock)
{
    if (lock->fd < 0)
        return;
    unlink(lock->path);
    close(lock->fd);
    lock->fd = -1;
    if (lock->made_directory)
        rmdir(lock->directory);
}
