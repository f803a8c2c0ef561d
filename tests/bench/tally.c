#include "tests/bench/bench.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bench/tally.h"

#define EVENTS "/sys/kernel/tracing/events/"

const char *const tally_names[TALLY_COUNT] = {"calls",   "epoll_wait", "poll",  "read",    "write",
                                              "sendmsg", "recvfrom",   "readv", "switches"};

static const char *const tracepoints[TALLY_COUNT] = {
    [TALLY_CALLS] = "raw_syscalls/sys_enter",
    [TALLY_EPOLL_WAIT] = "syscalls/sys_enter_epoll_wait",
    [TALLY_POLL] = "syscalls/sys_enter_poll",
    [TALLY_READ] = "syscalls/sys_enter_read",
    [TALLY_WRITE] = "syscalls/sys_enter_write",
    [TALLY_SENDMSG] = "syscalls/sys_enter_sendmsg",
    [TALLY_RECV] = "syscalls/sys_enter_recvfrom",
    [TALLY_READV] = "syscalls/sys_enter_readv",
};

static bool tracepoint_id(const char *name, uint64_t *id)
{
    char path[128], text[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), EVENTS "%s/id", name);
    file = fopen(path, "re");
    if (!file)
        return false;
    *id = fgets(text, sizeof(text), file) ? strtoull(text, NULL, 10) : 0;
    fclose(file);
    return *id > 0;
}

static int event_open(enum tally_event event, pid_t pid)
{
    struct perf_event_attr attr = {.size = sizeof(attr)};
    uint64_t id;

    if (event == TALLY_SWITCHES) {
        attr.type = PERF_TYPE_SOFTWARE;
        attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
    } else {
        if (!tracepoint_id(tracepoints[event], &id))
            return -1;
        attr.type = PERF_TYPE_TRACEPOINT;
        attr.config = id;
    }
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t event_read(int fd)
{
    uint64_t count = 0;

    if (fd >= 0)
        assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
    return count;
}

void tally_begin(struct tally *tally, pid_t pid)
{
    for (int event = 0; event < TALLY_COUNT; event++)
        tally->fd[event] = event_open((enum tally_event)event, pid);
    for (int event = 0; event < TALLY_COUNT; event++)
        tally->before[event] = event_read(tally->fd[event]);
}

void tally_end(struct tally *tally, uint64_t operations, double per_operation[TALLY_COUNT])
{
    uint64_t after[TALLY_COUNT];

    /* All at once: reading is system calls of our own. */
    for (int event = 0; event < TALLY_COUNT; event++)
        after[event] = event_read(tally->fd[event]);
    for (int event = 0; event < TALLY_COUNT; event++) {
        per_operation[event] = -1;
        if (tally->fd[event] < 0)
            continue;
        per_operation[event] = (double)(after[event] - tally->before[event]) / (double)operations;
        close(tally->fd[event]);
    }
}
