#include "tests/harness/test.h"

#include "tests/harness/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "shm/atomics.h"

uint64_t wait_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void wait_sleep_ms(unsigned ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
        ;
}

struct wait wait_begin(const char *what, unsigned ms)
{
    return (struct wait){.until_ms = wait_now_ms() + ms, .what = what};
}

void wait_step(const struct wait *wait)
{
    if (wait_now_ms() >= wait->until_ms)
        fail_msg("too late: %s", wait->what);
    wait_sleep_ms(1);
}

void wait_word(const _Atomic uint64_t *word, uint64_t value, const char *what)
{
    struct wait wait = wait_begin(what, WAIT_MS);

    while (atomic_observe(word) < value) /* pairs with the atomic_publish of the other process */
        wait_step(&wait);
}

static bool process_is_gone(pid_t pid)
{
    char path[32], line[256] = "";
    const char *state;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return true;
    state = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return !state || state[1] == '\0' || state[2] == 'Z' || state[2] == 'X';
}

void wait_pid_gone(pid_t pid, unsigned ms)
{
    char what[64];
    struct wait wait;

    snprintf(what, sizeof(what), "the end of process %d", (int)pid);
    wait = wait_begin(what, ms);
    while (!process_is_gone(pid))
        wait_step(&wait);
}

int wait_child(pid_t pid, unsigned ms, const char *what)
{
    uint64_t until = wait_now_ms() + ms;
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && wait_now_ms() < until)
        wait_sleep_ms(2);
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        fail_msg("%s (pid %d) did not end within %u ms and was killed", what, (int)pid, ms);
    }
    assert_int_equal(ended, pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
