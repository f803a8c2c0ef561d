/* Counts the system calls of a process from outside, without ptrace: the kernel's tracepoints by
 * perf_event_open(2).  Needs root, or CAP_PERFMON and a readable tracefs. */
#ifndef TESUP_TESTS_BENCH_TALLY_H
#define TESUP_TESTS_BENCH_TALLY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum tally_event {
    TALLY_CALLS, /* all system calls */
    TALLY_EPOLL_WAIT,
    TALLY_POLL,
    TALLY_READ,
    TALLY_WRITE,
    TALLY_SENDMSG,
    TALLY_RECV,
    TALLY_READV,
    TALLY_SWITCHES, /* context switches */
    TALLY_COUNT
};
extern const char *const tally_names[TALLY_COUNT];

struct tally {
    int fd[TALLY_COUNT]; /* -1: this kernel does not say */
    uint64_t before[TALLY_COUNT];
};

/* Begins to count for `pid` (0: this process). */
void tally_begin(struct tally *tally, pid_t pid);
/* What was counted since, divided by `operations`; -1 where it could not be. */
void tally_end(struct tally *tally, uint64_t operations, double per_operation[TALLY_COUNT]);

#endif
