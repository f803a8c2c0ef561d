/* Command lines as a user types them: run, read, judge, and see that nothing is left. */
#ifndef TESUP_TESTS_HARNESS_COMMAND_H
#define TESUP_TESTS_HARNESS_COMMAND_H

#include <stddef.h>
#include <sys/types.h>

#define COMMAND_TEXT     262144 /* status --json of a full counters segment, and some */
#define COMMAND_LIMIT_MS 60000

struct command {
    pid_t pid;
    int out_fd, err_fd;
    int code; /* exit code, or 128 + signal */
    char out[COMMAND_TEXT];
    char err[COMMAND_TEXT];
};

/* Words are separated by blanks; there is no quoting. */
void command_start(struct command *command, const char *words);
/* Copies what follows `word` in the next line of its output that begins with it. */
void command_line_wait(struct command *command, const char *word, char *rest, size_t size);
/* Reads all that it still says and waits for its end. */
void command_end(struct command *command);
void command_run(struct command *command, const char *words);

void command_expect_code(const struct command *command, int code);
void command_expect_text(const char *text, const char *part);

/* A directory for temporary files, also of the commands (TMPDIR); this process adopts orphans.
 * Group set-up and tear-down of cmocka. */
int command_scratch_create(void **state);
int command_scratch_remove(void **state);
const char *command_scratch(void);
/* The directory is empty and no process is left. */
void command_expect_nothing_left(void);

#endif
