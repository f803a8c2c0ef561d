#include "supervisor/key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_HEX (HANDSHAKE_KEY * 2)

static int key_check_file(int fd, const char *path, char *text, size_t text_size)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        snprintf(text, text_size, "peer key %s: %s", path, strerror(errno));
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        snprintf(text, text_size, "peer key %s is not a regular file", path);
        return -1;
    }
    if ((st.st_mode & 077) != 0) {
        snprintf(
            text, text_size,
            "peer key %s can be read by other users (mode %04o): run `chmod 600 %s`, or delete "
            "it for a new key if somebody may have read it",
            path, (unsigned)st.st_mode & 07777, path);
        return -1;
    }
    return 0;
}

static int key_parse(const char *hex, size_t length, const char *path, uint8_t key[HANDSHAKE_KEY],
                     char *text, size_t text_size)
{
    size_t size = 0;

    if (length == KEY_HEX + 1 && hex[KEY_HEX] == '\n')
        length--;
    if (length != KEY_HEX ||
        sodium_hex2bin(key, HANDSHAKE_KEY, hex, length, NULL, &size, NULL) != 0 ||
        size != HANDSHAKE_KEY) {
        snprintf(
            text, text_size,
            "peer key %s is not %d hexadecimal digits and a newline: copy it from another host "
            "again, or delete it for a new key",
            path, KEY_HEX);
        return -1;
    }
    return 0;
}

/* 0; 1 when there is no such file; -1 with text. */
static int key_read(const char *path, uint8_t key[HANDSHAKE_KEY], char *text, size_t text_size)
{
    char hex[KEY_HEX + 2]; /* one byte more than is right, so that too much is seen */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got;
    int rc = -1;

    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0) {
        snprintf(text, text_size, "peer key %s cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    if (key_check_file(fd, path, text, text_size) < 0)
        goto out_close;
    got = read(fd, hex, sizeof(hex));
    if (got < 0)
        snprintf(text, text_size, "peer key %s cannot be read: %s", path, strerror(errno));
    else
        rc = key_parse(hex, (size_t)got, path, key, text, text_size);
    sodium_memzero(hex, sizeof(hex));
out_close:
    close(fd);
    return rc;
}

/* Parents that are missing; an error shows when the file is made. */
static void key_make_directories(const char *path)
{
    char directory[PATH_MAX];

    snprintf(directory, sizeof(directory), "%s", path);
    for (char *slash = strchr(directory + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(directory, 0700);
        *slash = '/';
    }
}

static int key_write(int fd)
{
    uint8_t key[HANDSHAKE_KEY];
    char hex[KEY_HEX + 1];
    ssize_t wrote;

    handshake_random(key, sizeof(key));
    sodium_bin2hex(hex, sizeof(hex), key, sizeof(key));
    hex[KEY_HEX] = '\n';
    wrote = write(fd, hex, sizeof(hex));
    sodium_memzero(key, sizeof(key));
    sodium_memzero(hex, sizeof(hex));
    if (wrote >= 0 && wrote != (ssize_t)sizeof(hex))
        errno = ENOSPC;
    return wrote == (ssize_t)sizeof(hex) && fsync(fd) == 0 ? 0 : -1;
}

/* Written in full under another name first: whoever sees `path` sees a whole key, and of two that
 * make one at the same time the first link stays. */
static int key_make(const char *path, char *text, size_t text_size)
{
    char temporary[PATH_MAX];
    uint64_t random;
    int fd, saved;

    handshake_random(&random, sizeof(random));
    if (snprintf(temporary, sizeof(temporary), "%s.%016llx", path, (unsigned long long)random) >=
        (int)sizeof(temporary)) {
        snprintf(text, text_size, "peer key %s: the path is too long", path);
        return -1;
    }
    key_make_directories(path);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        goto err_text;
    if (key_write(fd) < 0 || (link(temporary, path) < 0 && errno != EEXIST))
        goto err_unlink;
    close(fd);
    unlink(temporary);
    return 0;

err_unlink:
    saved = errno;
    close(fd);
    unlink(temporary);
    errno = saved;
err_text:
    snprintf(text, text_size, "peer key %s cannot be made: %s; name another file with --peer-key",
             path, strerror(errno));
    return -1;
}

int key_load(const char *path, uint8_t key[HANDSHAKE_KEY], char *text, size_t text_size)
{
    int rc;

    if (sodium_init() < 0) {
        snprintf(text, text_size, "libsodium cannot start: no source of random numbers");
        return -1;
    }
    rc = key_read(path, key, text, text_size);
    if (rc != 1)
        return rc;
    if (key_make(path, text, text_size) < 0)
        return -1;
    rc = key_read(path, key, text, text_size);
    if (rc == 1)
        snprintf(text, text_size, "peer key %s vanished while it was made", path);
    return rc == 0 ? 0 : -1;
}
