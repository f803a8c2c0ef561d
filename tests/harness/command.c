#include "tests/harness/test.h"

#include "tests/harness/command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/wait.h"

#define WORDS_MAX    40
#define LEFT_MS      3000 /* for the last process to go */
#define SCRATCH_FORM "/tmp/tesup-test-XXXXXX"

static char scratch[sizeof(SCRATCH_FORM)];

void command_start(struct command *command, const char *words)
{
    char copy[1024];
    char *argv[WORDS_MAX] = {NULL};
    char *rest = NULL;
    int out[2], err[2], count = 0;

    assert_true(snprintf(copy, sizeof(copy), "%s", words) < (int)sizeof(copy));
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < WORDS_MAX - 1);
        argv[count++] = word;
    }
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    command->pid = fork();
    assert_true(command->pid >= 0);
    if (command->pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        if (argv[0])
            execvp(argv[0], argv);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    command->out_fd = out[0];
    command->err_fd = err[0];
}

void command_line_wait(struct command *command, const char *word, char *rest, size_t size)
{
    char line[512] = "";
    size_t length = 0;
    struct pollfd fd = {.fd = command->out_fd, .events = POLLIN};

    while (length < sizeof(line) - 1 && poll(&fd, 1, COMMAND_LIMIT_MS) == 1 &&
           read(command->out_fd, line + length, 1) == 1) {
        if (line[length++] != '\n')
            continue;
        line[length - 1] = '\0';
        length = 0;
        if (strncmp(line, word, strlen(word)) == 0) {
            snprintf(rest, size, "%s", line + strlen(word));
            return;
        }
    }
    fail_msg("it ended without a line that begins with '%s'", word);
}

/* Reads both pipes until they end, so that neither side can block on a full one. */
static void command_pipes_read(struct command *command)
{
    struct pollfd fds[2] = {{.fd = command->out_fd, .events = POLLIN},
                            {.fd = command->err_fd, .events = POLLIN}};
    char *text[2] = {command->out, command->err};
    size_t length[2] = {0, 0};

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        assert_true(poll(fds, 2, COMMAND_LIMIT_MS) > 0);
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            if (length[i] == COMMAND_TEXT - 1)
                fail_msg("a command says more than %d bytes", COMMAND_TEXT - 1);
            ssize_t got = read(fds[i].fd, text[i] + length[i], COMMAND_TEXT - 1 - length[i]);
            if (got > 0) {
                length[i] += (size_t)got;
                continue;
            }
            close(fds[i].fd);
            fds[i].fd = -1;
        }
    }
    command->out[length[0]] = '\0';
    command->err[length[1]] = '\0';
}

void command_end(struct command *command)
{
    int status = 0;

    command_pipes_read(command);
    assert_int_equal(waitpid(command->pid, &status, 0), command->pid);
    command->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void command_run(struct command *command, const char *words)
{
    command_start(command, words);
    command_end(command);
}

void command_expect_code(const struct command *command, int code)
{
    if (command->code != code)
        fail_msg("exit code %d instead of %d; it said: %s", command->code, code, command->err);
}

void command_expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

int command_scratch_create(void **state)
{
    (void)state;
    memcpy(scratch, SCRATCH_FORM, sizeof(scratch));
    if (!mkdtemp(scratch) || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -1;
    unsetenv("TESUP_SOCKET");
    unsetenv("TESUP_BIN");
    return setenv("TMPDIR", scratch, 1);
}

int command_scratch_remove(void **state)
{
    (void)state;
    return rmdir(scratch);
}

const char *command_scratch(void)
{
    return scratch;
}

void command_expect_nothing_left(void)
{
    DIR *dir = opendir(scratch);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            fail_msg("%s/%s was left behind", scratch, entry->d_name);
    closedir(dir);
    struct wait wait = wait_begin("the end of the last process", LEFT_MS);
    while (waitpid(-1, NULL, WNOHANG) >= 0)
        wait_step(&wait);
    assert_int_equal(errno, ECHILD);
}
