#include "tests/harness/test.h"

#include "tests/harness/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/job.h"
#include "tests/harness/process.h"
#include "tests/harness/wait.h"

#define DIRECTORY_FORM "/tmp/tesup-test-XXXXXX"
#define WORDS_MAX      32
#define RUNNING_MAX    8
#define LOG_SHOWN      4000
#define STOP_MS        10000

static const char daemon_program[] = TESUP_BIN_DIR "/tesup";
static char directory[sizeof(DIRECTORY_FORM)];
static pid_t running[RUNNING_MAX]; /* what a failed test must not leave behind */
static unsigned spawned;

static void running_change(pid_t from, pid_t to)
{
    for (int i = 0; i < RUNNING_MAX; i++) {
        if (running[i] != from)
            continue;
        running[i] = to;
        return;
    }
}

const char *daemon_directory(void)
{
    return directory;
}

int daemon_group_setup(void **state)
{
    (void)state;
    memcpy(directory, DIRECTORY_FORM, sizeof(directory));
    unsetenv("TESUP_SOCKET");
    return mkdtemp(directory) ? 0 : -1;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

int daemon_group_teardown(void **state)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    int left = 0;

    daemon_test_teardown(state);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        if (!ends_with(entry->d_name, ".log") && !ends_with(entry->d_name, ".key") &&
            !ends_with(entry->d_name, ".conf")) {
            print_error("%s/%s was left behind\n", directory, entry->d_name);
            left++;
        }
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    return rmdir(directory) < 0 || left > 0 ? -1 : 0;
}

static void log_show(const char *name)
{
    char text[LOG_SHOWN + 1];
    char path[DAEMON_PATH];
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    off_t size = lseek(fd, 0, SEEK_END);
    got = pread(fd, text, LOG_SHOWN, size > LOG_SHOWN ? size - LOG_SHOWN : 0);
    text[got > 0 ? got : 0] = '\0';
    fprintf(stderr, "---- %s\n%s", path, text); /* print_error() would cut it after 1 KiB */
    close(fd);
}

static void logs_show(void)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (ends_with(entry->d_name, ".log"))
            log_show(entry->d_name);
    if (dir)
        closedir(dir);
}

int daemon_test_teardown(void **state)
{
    bool shown = false;

    job_test_teardown(state);
    for (int i = 0; i < RUNNING_MAX; i++) {
        if (running[i] == 0)
            continue;
        if (!shown)
            logs_show();
        shown = true;
        kill(running[i], SIGKILL);
        waitpid(running[i], NULL, 0);
        running[i] = 0;
    }
    return 0;
}

/* One worker, unless the options say another number or leave devices out; in the test VM, where
 * TESUP_TEST_FABRIC is "verbs", one of RDMA instead, by turns with the one and the other device. In
 * front of the options: the last word of a kind counts. */
static size_t worker_words(char *argv[WORDS_MAX], size_t count, const char *options)
{
    const bool verbs = getenv("TESUP_TEST_FABRIC") != NULL;
    const char *device = spawned % 2 == 0 ? "rxe0" : "rxe1";

    if (strstr(options, "--exclude"))
        return count;
    argv[count++] = (char *)(verbs ? "--exclude" : "--workers");
    argv[count++] = (char *)(verbs ? device : "1");
    return count;
}

static void fabric_words(char *argv[WORDS_MAX], size_t count)
{
    char *fabric = getenv("TESUP_TEST_FABRIC");

    for (size_t i = 0; fabric && i + 1 < count; i++)
        if (strcmp(argv[i], "--fabric") == 0)
            argv[i + 1] = fabric;
}

/* The child's side: the words of the command line, then exec. */
static _Noreturn void serve_exec(const struct daemon *daemon, const char *program,
                                 const char *options, int output)
{
    char key[DAEMON_PATH], log[DAEMON_PATH], copy[512];
    const char *fixed[] = {program,      "serve", "--foreground",  "--name",  daemon->name,
                           "--peer-key", key,     "--runtime-dir", directory, "--listen",
                           "127.0.0.1:0"};
    const size_t fixed_count = sizeof(fixed) / sizeof(fixed[0]);
    char *argv[WORDS_MAX] = {NULL};
    char *rest = NULL;
    size_t count = 0;

    snprintf(key, sizeof(key), "%s/peer.key", directory);
    snprintf(log, sizeof(log), "%s/%s.log", directory, daemon->name);
    snprintf(copy, sizeof(copy), "%s", options);
    for (; count < fixed_count; count++)
        argv[count] = (char *)fixed[count]; /* exec does not change them */
    count = worker_words(argv, count, options);
    for (char *word = strtok_r(copy, " ", &rest); word && count < WORDS_MAX - 1;
         word = strtok_r(NULL, " ", &rest))
        argv[count++] = word;
    fabric_words(argv, count);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
    execv(argv[0], argv);
    _exit(127);
}

static bool address_read(int fd, char *address, size_t size, unsigned ms)
{
    static const char word[] = "listening on ";
    char line[256] = "";
    size_t length = 0;
    struct wait wait = wait_begin("`tesup serve` says where it listens", ms);

    while (length < sizeof(line) - 1) {
        ssize_t got = read(fd, line + length, 1);
        if (got == 0)
            return false;
        if (got < 0) {
            assert_int_equal(errno, EAGAIN);
            wait_step(&wait);
            continue;
        }
        if (line[length++] != '\n')
            continue;
        line[length - 1] = '\0';
        if (strncmp(line, word, sizeof(word) - 1) == 0) {
            snprintf(address, size, "%s", line + sizeof(word) - 1);
            return true;
        }
        length = 0;
    }
    return false;
}

int daemon_spawn(struct daemon *daemon, const char *program, const char *name, const char *options)
{
    int output[2];

    memset(daemon, 0, sizeof(*daemon));
    snprintf(daemon->name, sizeof(daemon->name), "%s", name);
    snprintf(daemon->socket, sizeof(daemon->socket), "%s/%s.sock", directory, name);
    assert_int_equal(pipe2(output, O_CLOEXEC | O_NONBLOCK), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        serve_exec(daemon, program, options, output[1]);
    spawned++;
    daemon->pid = pid; /* not before: `daemon` may be shared with the child */
    running_change(0, pid);
    close(output[1]);
    return output[0];
}

void daemon_listens(struct daemon *daemon, int output, unsigned ms)
{
    if (!address_read(output, daemon->address, sizeof(daemon->address), ms))
        fail_msg("`tesup serve --name %s` ended before it listened", daemon->name);
    close(output);
}

void daemon_start(struct daemon *daemon, const char *name, const char *options)
{
    daemon_listens(daemon, daemon_spawn(daemon, daemon_program, name, options), WAIT_MS);
}

unsigned daemon_log_count(const struct daemon *daemon, const char *part)
{
    char path[DAEMON_PATH], line[1024];
    unsigned count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.log", directory, daemon->name);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        count += strstr(line, part) != NULL;
    fclose(file);
    return count;
}

const char *daemon_config(const char *text)
{
    static char option[DAEMON_PATH + 16];
    static unsigned count;
    char path[DAEMON_PATH];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%u.conf", directory, count++);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    snprintf(option, sizeof(option), "--config %s", path);
    return option;
}

size_t daemon_workers(const struct daemon *daemon, pid_t pids[DAEMON_WORKERS])
{
    return process_children(daemon->pid, pids, DAEMON_WORKERS);
}

static void file_expect_gone(const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0)
        fail_msg("%s was left behind", path);
}

void daemon_stop(struct daemon *daemon)
{
    pid_t workers[DAEMON_WORKERS];
    char lock[DAEMON_PATH];
    size_t count = daemon_workers(daemon, workers);
    pid_t pid = daemon->pid;
    int code;

    kill(pid, SIGTERM);
    code = wait_child(pid, STOP_MS, daemon->name);
    running_change(pid, 0);
    daemon->pid = 0;
    if (code != 0) {
        logs_show();
        fail_msg("supervisor %s ended with %d", daemon->name, code);
    }
    for (size_t i = 0; i < count; i++)
        wait_pid_gone(workers[i], 1000);
    snprintf(lock, sizeof(lock), "%s/%s.lock", directory, daemon->name);
    file_expect_gone(lock);
    file_expect_gone(daemon->socket);
}

void daemon_kill(struct daemon *daemon)
{
    pid_t workers[DAEMON_WORKERS];
    char lock[DAEMON_PATH];
    size_t count = daemon_workers(daemon, workers);
    pid_t pid = daemon->pid;

    kill(pid, SIGKILL);
    assert_int_equal(wait_child(pid, STOP_MS, daemon->name), 128 + SIGKILL);
    running_change(pid, 0);
    daemon->pid = 0;
    for (size_t i = 0; i < count; i++)
        wait_pid_gone(workers[i], 2000);
    snprintf(lock, sizeof(lock), "%s/%s.lock", directory, daemon->name);
    unlink(lock);
    unlink(daemon->socket);
}
