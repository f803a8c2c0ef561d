#include "worker/space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shm/err.h"

int space_adopt(struct space *space, int fd)
{
    struct statfs facts;

    *space = (struct space){.fd = fd, .pidfd = -1};
    if (fstatfs(fd, &facts) < 0 || facts.f_type != PROC_SUPER_MAGIC) {
        space_close(space);
        return -1;
    }
    space_fast_init(space);
    return 0;
}

int space_open(struct space *space, pid_t pid)
{
    char path[32];
    int fd;

    *space = SPACE_NONE;
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -1 : space_adopt(space, fd);
}

void space_close(struct space *space)
{
    if (space->fd >= 0)
        close(space->fd);
    if (space->pidfd >= 0)
        close(space->pidfd);
    *space = SPACE_NONE;
}

/* The descriptor answers 0 when the space has no users any more, and an error or less than asked
 * for where a page is not there. */
static int space_move(int fd, bool store, void *here, uint64_t there, size_t length)
{
    size_t done = 0;

    while (done < length) {
        uint8_t *at = (uint8_t *)here + done;
        ssize_t moved = store ? pwrite(fd, at, length - done, (off_t)(there + done))
                              : pread(fd, at, length - done, (off_t)(there + done));

        if (moved == 0)
            return TS_ERR_GONE;
        if (moved < 0)
            return TS_ERR_FAULT;
        done += (size_t)moved;
    }
    return TS_OK;
}

int space_load_seen(const struct space *space, void *buffer, uint64_t from, size_t length)
{
    return space_move(space->fd, false, buffer, from, length);
}

int space_load(const struct space *space, void *buffer, uint64_t from, size_t length)
{
    if (length >= SPACE_FAST_MIN && space_fast_load(space, buffer, from, length))
        return TS_OK;
    return space_load_seen(space, buffer, from, length);
}

int space_store(const struct space *space, uint64_t to, const void *buffer, size_t length)
{
    return space_move(space->fd, true, (void *)(uintptr_t)buffer, to, length);
}
