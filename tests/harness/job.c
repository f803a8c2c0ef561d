#include "tests/harness/test.h"

#include "tests/harness/job.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/wait.h"

#define JOBS_MAX 16

static pid_t running[JOBS_MAX]; /* what a failed test must not leave behind */

static void running_change(pid_t from, pid_t to)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        if (running[i] != from)
            continue;
        running[i] = to;
        return;
    }
}

void job_start(struct job *job, const char *label, job_function *function, void *argument)
{
    const struct rlimit no_core = {0, 0};

    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0) {
        *job = (struct job){.pid = pid, .label = label};
        running_change(0, pid);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assert must not return into the test's copy */
    function(argument);
    _exit(EXIT_SUCCESS);
}

static int job_end(struct job *job, unsigned ms)
{
    pid_t pid = job->pid;

    running_change(pid, 0);
    job->pid = 0;
    return wait_child(pid, ms, job->label);
}

void job_expect_success(struct job *job, unsigned ms)
{
    int code = job_end(job, ms);

    if (code != 0)
        fail_msg("job %s ended with %d", job->label, code);
}

void job_kill(struct job *job)
{
    kill(job->pid, SIGKILL);
    assert_int_equal(job_end(job, WAIT_MS), 128 + SIGKILL);
}

int job_test_teardown(void **state)
{
    (void)state;
    for (int i = 0; i < JOBS_MAX; i++) {
        if (running[i] == 0)
            continue;
        kill(running[i], SIGKILL);
        waitpid(running[i], NULL, 0);
        running[i] = 0;
    }
    return 0;
}

void *job_board_create(size_t size)
{
    void *board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(board, MAP_FAILED);
    return board;
}

void job_board_free(void *board, size_t size)
{
    munmap(board, size);
}
