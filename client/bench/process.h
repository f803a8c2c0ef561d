/* Child processes that end when told, and at the latest when this process ends. */
#ifndef TESUP_BENCH_PROCESS_H
#define TESUP_BENCH_PROCESS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* 0: none */
    int pidfd;
    int output; /* read end of its standard output, or -1 */
};

struct process_plan {
    const char *path; /* without a slash: found by PATH */
    const char *const *argv;
    const char *const *variable; /* "NAME=VALUE", ended by NULL; added to the environment */
    const char *error_file;      /* standard error goes there; NULL: where ours goes */
    int capture_output;          /* 1: process.output reads its standard output */
};

#define PROCESS_EMPTY ((struct process){.pidfd = -1, .output = -1})

/* Signals that the caller blocked are unblocked in the child. 0, or -1 with errno. */
int process_start(struct process *process, const struct process_plan *plan);
/* Waits until it ends; its exit code, 128 + signal, or -1 when the deadline passed.
 * Ends early with -2 when `signal_fd` gets readable (-1: none). */
int process_wait(struct process *process, uint64_t deadline_ns, int signal_fd);
/* SIGTERM, then SIGKILL after `grace_ms`. As process_wait(); 0 when there is none. */
int process_stop(struct process *process, uint32_t grace_ms);

/* Reads one line (without the newline) of its output. 0; -1: it ended or the deadline passed;
 * -2: `signal_fd` got readable. */
int process_line_read(struct process *process, char *line, size_t size, uint64_t deadline_ns,
                      int signal_fd);

/* The tesup program: $TESUP_BIN, else the one that belongs to this program, else by PATH. */
void process_tesup_find(char path[PATH_MAX]);

#endif
