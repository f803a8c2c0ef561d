/* Jobs in processes of their own.  Inside, cmocka's asserts end the job and its test. */
#ifndef TESUP_TESTS_HARNESS_JOB_H
#define TESUP_TESTS_HARNESS_JOB_H

#include <stddef.h>
#include <sys/types.h>

struct job {
    pid_t pid; /* 0: ended */
    const char *label;
};

typedef void job_function(void *argument);

void job_start(struct job *job, const char *label, job_function *function, void *argument);
/* The job must end by itself, with success, within `ms`. */
void job_expect_success(struct job *job, unsigned ms);
void job_kill(struct job *job);
/* Tear-down of a test whose daemons stay: kills the jobs that still run.  Part of
 * daemon_test_teardown. */
int job_test_teardown(void **state);

/* Zeroed memory that the test and its jobs share. */
void *job_board_create(size_t size);
void job_board_free(void *board, size_t size);

#endif
