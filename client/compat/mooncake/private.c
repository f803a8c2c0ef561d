#include "client/compat/mooncake/private.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/compat/mooncake/include/transfer_engine_c.h"
#include "shm/clock.h"

#define START_MS   15000u
#define IDLE       "2s" /* without a job, the supervisor goes after this time */
#define ARGUMENTS  16u
#define PROGRAM    "tesup"
#define DIRECTORY  "%s/tesup-private-%u"
#define READY_LINE "listening on "

extern char **environ;

int private_place(char directory[PRIVATE_PATH_MAX], char socket[PRIVATE_PATH_MAX], char *text,
                  size_t text_size)
{
    const char *base = secure_getenv("XDG_RUNTIME_DIR");
    int length;

    if (base == NULL || base[0] != '/')
        base = geteuid() == 0 ? "/run" : "/tmp";
    length = snprintf(directory, PRIVATE_PATH_MAX, DIRECTORY, base, (unsigned)geteuid());
    if (length > 0 && (size_t)length < PRIVATE_PATH_MAX)
        length = snprintf(socket, PRIVATE_PATH_MAX, "%s/default.sock", directory);
    if (length > 0 && (size_t)length < PRIVATE_PATH_MAX)
        return 0;
    snprintf(text, text_size, "XDG_RUNTIME_DIR is too long for a socket in it");
    return -1;
}

bool private_is_ours(const char *directory, char *text, size_t text_size)
{
    struct stat st;

    if (lstat(directory, &st) < 0)
        return errno == ENOENT;
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0)
        return true;
    snprintf(text, text_size, "%s is not a directory that belongs to uid %u alone; remove it",
             directory, (unsigned)geteuid());
    return false;
}

/* bin/ beside the library's lib/ or lib/ARCHITECTURE/, else $PATH. */
static void program_find(char path[PATH_MAX])
{
    static const char *const ways[] = {"../bin/" PROGRAM, "../../bin/" PROGRAM};
    Dl_info info;
    const char *slash;

    if (dladdr((void *)(uintptr_t)&createTransferEngine, &info) != 0 && info.dli_fname != NULL &&
        (slash = strrchr(info.dli_fname, '/')) != NULL) {
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname,
                     ways[i]);
            if (access(path, X_OK) == 0)
                return;
        }
    }
    snprintf(path, PATH_MAX, PROGRAM);
}

/* A child that has nothing of this program's: no files, no blocked signals. */
static int child_prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
                         int output)
{
    sigset_t none, all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all);
    rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
    if (rc == 0)
        rc = posix_spawn_file_actions_addchdir_np(actions, "/");
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(attributes, &all);
    if (rc == 0)
        rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return rc;
}

static int child_spawn(const char *const argv[], int output, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attributes);
    if (rc != 0)
        goto out;
    rc = child_prepare(&actions, &attributes, output);
    if (rc == 0)
        rc = posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv,
                          environ); /* exec does not change the words */
    posix_spawnattr_destroy(&attributes);
out:
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* Reads until the child is ready, or has ended. False: too late. */
static bool output_read(int fd, char *text, size_t size)
{
    uint64_t deadline = clock_now() + START_MS * CLOCK_NS_PER_MS;
    size_t length = 0;

    text[0] = '\0';
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_now();
        char rest[256];
        bool full = length + 1 >= size;
        ssize_t got;

        if (poll(&wait, 1, clock_ms_until(deadline, now)) <= 0) {
            if (now >= deadline)
                return false;
            continue;
        }
        got = read(fd, full ? rest : text + length, full ? sizeof(rest) : size - 1 - length);
        if (got <= 0)
            return true;
        length += full ? 0 : (size_t)got;
        text[length] = '\0';
        if (strstr(text, READY_LINE) != NULL)
            return true; /* its workers may keep the other end open */
    }
}

/* The program may have reaped it, or ignore SIGCHLD: its output tells enough. */
static void child_reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int child_result(char *text, size_t text_size, const char *said, bool in_time)
{
    if (strstr(said, READY_LINE) != NULL)
        return 0;
    if (in_time)
        snprintf(text, text_size, "%.*s", (int)strcspn(said, "\n"), said);
    else
        snprintf(text, text_size, "it is not ready after %u s", START_MS / 1000);
    return -1;
}

static int child_run(const char *const argv[], char *text, size_t text_size)
{
    char said[2048];
    int output[2], rc;
    bool in_time;
    pid_t pid;

    if (pipe2(output, O_CLOEXEC) < 0) {
        snprintf(text, text_size, "no pipe: %s", strerrordesc_np(errno));
        return -1;
    }
    rc = child_spawn(argv, output[1], &pid);
    close(output[1]);
    if (rc != 0) {
        close(output[0]);
        snprintf(text, text_size, "%s cannot be started: %s", argv[0], strerrordesc_np(rc));
        return -1;
    }
    in_time = output_read(output[0], said, sizeof(said));
    close(output[0]);
    if (!in_time)
        kill(pid, SIGTERM);
    child_reap(pid);
    return child_result(text, text_size, said, in_time);
}

int private_start(const char *directory, const char *host, bool force_tcp, char *text,
                  size_t text_size)
{
    char program[PATH_MAX], listen[NAME_MAX];
    const char *argv[ARGUMENTS] = {
        program,   "serve",    "--runtime-dir", directory,          "--name",
        "default", "--listen", listen,          "--exit-when-idle", IDLE};
    unsigned count = 10;

    program_find(program);
    snprintf(listen, sizeof(listen), strchr(host, ':') != NULL ? "[%s]:0" : "%s:0", host);
    if (force_tcp) {
        argv[count++] = "--fabric";
        argv[count++] = "tcp";
    }
    argv[count] = NULL;
    return child_run(argv, text, text_size);
}
