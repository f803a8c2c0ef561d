/* A counters segment made by hand: a healthy supervisor with two workers in slots 0 and 5, and what
 * the kernel is made to say about their processes. */
#ifndef TESUP_TESTS_UNIT_SUPERVISOR_STATUS_FIXTURE_H
#define TESUP_TESTS_UNIT_SUPERVISOR_STATUS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "supervisor/status/read.h"

#define NOW  (UINT64_C(1000) * CLOCK_NS_PER_S)       /* monotonic */
#define WALL (UINT64_C(1767225600) * CLOCK_NS_PER_S) /* 2026-01-01T00:00:00Z */

#define SUPERVISOR_PID 40
#define WORKER_PID     41 /* in slot 0; slot 5 has the next */

struct fixture {
    int fd;
    struct counters_segment *live;
    struct status status;
};

/* What the next look says about the worker in slot 5; everybody else sleeps as usual. */
static struct status_process fixture_process;

static inline void worker_fill(struct counters_worker *worker, const char *name, pid_t pid)
{
    snprintf(worker->life.name, sizeof(worker->life.name), "%s", name);
    snprintf(worker->life.fabric, sizeof(worker->life.fabric), "tcp");
    snprintf(worker->life.cpus, sizeof(worker->life.cpus), "2");
    snprintf(worker->life.reason, sizeof(worker->life.reason), "one per NUMA node");
    worker->life.numa_node = 0;
    atomic_set(&worker->life.state, WORKER_STATE_READY);
    atomic_set(&worker->life.pid, (uint64_t)pid);
    atomic_set(&worker->life.start_ticks, 7000);
    atomic_set(&worker->life.started_ns, WALL - 61 * CLOCK_NS_PER_S);
    atomic_set(&worker->life.ready_ns, WALL - 60 * CLOCK_NS_PER_S);
    atomic_set(&worker->stats.heartbeat_ns, NOW - 1000 * CLOCK_NS_PER_MS);
    atomic_set(&worker->life.used, 1);
}

static inline int fixture_make(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    fixture_process = (struct status_process){.state = 'S', .start_ticks = 7000};
    if (!f || counters_create(&f->fd, &f->live) != TS_OK)
        return -1;
    struct counters_supervisor *supervisor = &f->live->supervisor;
    snprintf(supervisor->name, sizeof(supervisor->name), "default");
    snprintf(supervisor->version, sizeof(supervisor->version), "9.8.7");
    snprintf(supervisor->listen, sizeof(supervisor->listen), "127.0.0.1:7400");
    snprintf(supervisor->socket, sizeof(supervisor->socket), "/r/default.sock");
    snprintf(supervisor->fabric, sizeof(supervisor->fabric), "auto");
    snprintf(supervisor->peer_auth, sizeof(supervisor->peer_auth), "psk");
    snprintf(supervisor->notify_native, sizeof(supervisor->notify_native), "1");
    snprintf(supervisor->notify_oob, sizeof(supervisor->notify_oob), "0");
    atomic_set(&supervisor->pid, SUPERVISOR_PID);
    atomic_set(&supervisor->started_ns, WALL - 3600 * CLOCK_NS_PER_S);
    atomic_set(&supervisor->heartbeat_ns, NOW - 250 * CLOCK_NS_PER_MS);
    worker_fill(&f->live->worker[0], "tcp@node0", WORKER_PID);
    worker_fill(&f->live->worker[5], "tcp@node1", WORKER_PID + 1);
    *state = f;
    return 0;
}

static inline int fixture_drop(void **state)
{
    struct fixture *f = *state;

    status_free(&f->status);
    counters_unmap(f->live);
    close(f->fd);
    free(f);
    return 0;
}

static inline void fixture_look(pid_t pid, struct status_process *process)
{
    *process = (struct status_process){.state = 'S', .start_ticks = 7000, .wait = "do_epoll_wait"};
    if (pid == WORKER_PID + 1)
        *process = fixture_process;
}

static inline void take(struct fixture *f)
{
    status_free(&f->status);
    assert_int_equal(status_take(f->live, NOW, WALL, fixture_look, &f->status), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_make, fixture_drop)

#endif
