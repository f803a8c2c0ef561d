/* The verdict: who does not move and why, and what keeps this supervisor from being healthy. */
#include <inttypes.h>
#include <stdio.h>

#include "shm/clock.h"
#include "supervisor/status/read.h"

/* A loop turn is bounded to a few milliseconds. Who has used this much CPU since its heartbeat got
 * its share of the core and does not end its turn. */
#define TURN_CPU_NS UINT64_C(500000000)

/* What a process says about itself. */
struct heartbeat {
    pid_t pid;
    uint64_t start_ticks; /* 0 unknown */
    uint64_t at_ns, cpu_ns;
};

static bool heartbeat_old(const struct status *status, uint64_t heartbeat_ns)
{
    /* Written after the copy began: younger than "now". */
    return heartbeat_ns < status->monotonic_ns &&
           status->monotonic_ns - heartbeat_ns > STATUS_HEARTBEAT_NS;
}

int64_t status_heartbeat_age_ms(const struct status *status, uint64_t heartbeat_ns)
{
    if (heartbeat_ns == 0)
        return -1;
    if (heartbeat_ns >= status->monotonic_ns)
        return 0;
    return (int64_t)((status->monotonic_ns - heartbeat_ns) / CLOCK_NS_PER_MS);
}

static bool process_is_dead(const struct heartbeat *beat, const struct status_process *process)
{
    bool reused =
        process->start_ticks && beat->start_ticks && process->start_ticks != beat->start_ticks;

    return process->state == 'X' || process->state == 'Z' || reused;
}

static void motion_stopped(const struct heartbeat *beat, const struct status_process *process,
                           struct status_motion *motion)
{
    motion->halt = STATUS_HALT_STOPPED;
    if (process->tracer)
        snprintf(motion->why, sizeof(motion->why), "process %d, a debugger, holds it",
                 (int)process->tracer);
    else
        snprintf(motion->why, sizeof(motion->why),
                 "a signal stopped it; `kill -CONT %d` lets it go on", (int)beat->pid);
}

static void motion_running(const struct heartbeat *beat, const struct status_process *process,
                           struct status_motion *motion)
{
    uint64_t ran = process->cpu_ns > beat->cpu_ns ? process->cpu_ns - beat->cpu_ns : 0;

    motion->halt = ran < TURN_CPU_NS ? STATUS_HALT_STARVED : STATUS_HALT_HUNG;
    if (motion->halt == STATUS_HALT_STARVED)
        snprintf(motion->why, sizeof(motion->why),
                 "it is ready to run and had its core for %" PRIu64
                 " ms since then: others use that core",
                 ran / CLOCK_NS_PER_MS);
    else
        snprintf(motion->why, sizeof(motion->why),
                 "it runs, for %" PRIu64 ".%" PRIu64 " s of CPU time without the end of a turn",
                 ran / CLOCK_NS_PER_S, ran % CLOCK_NS_PER_S / (100 * CLOCK_NS_PER_MS));
}

static void motion_judge(const struct heartbeat *beat, const struct status_process *process,
                         struct status_motion *motion)
{
    switch (process->state) {
    case 'T':
    case 't':
        motion_stopped(beat, process, motion);
        return;
    case 'R':
        motion_running(beat, process, motion);
        return;
    default:
        motion->halt = STATUS_HALT_HUNG;
        if (process->wait[0])
            snprintf(motion->why, sizeof(motion->why), "it waits in the kernel (%s)",
                     process->wait);
        else if (process->state)
            snprintf(motion->why, sizeof(motion->why), "it waits in the kernel");
        return;
    }
}

/* `may_rest`: no heartbeat is expected of it now. */
static void motion_find(const struct status *status, const struct heartbeat *beat, bool may_rest,
                        status_look *look, struct status_motion *motion)
{
    struct status_process process = {0};
    bool old = !may_rest && heartbeat_old(status, beat->at_ns);

    *motion = (struct status_motion){0};
    if (look && beat->pid > 0)
        look(beat->pid, &process);
    if (process_is_dead(beat, &process)) {
        motion->halt = STATUS_HALT_DEAD;
        snprintf(motion->why, sizeof(motion->why),
                 "there is no such process any more, and the supervisor has not noticed");
    } else if (old || (may_rest && (process.state == 'T' || process.state == 't'))) {
        motion_judge(beat, &process, motion);
    }
}

static void worker_motion_find(struct status *status, size_t index, status_look *look)
{
    const struct counters_worker *worker = &status->seen->worker[index];
    uint64_t state = atomic_peek(&worker->life.state);
    struct heartbeat beat = {
        .pid = (pid_t)atomic_peek(&worker->life.pid),
        .start_ticks = atomic_peek(&worker->life.start_ticks),
        .at_ns = atomic_peek(&worker->stats.heartbeat_ns),
        .cpu_ns = atomic_peek(&worker->stats.heartbeat_cpu_ns),
    };

    status->worker[index] = (struct status_motion){0};
    if (state == WORKER_STATE_STARTING || state == WORKER_STATE_READY ||
        state == WORKER_STATE_DRAINING)
        motion_find(status, &beat, state == WORKER_STATE_STARTING, look, &status->worker[index]);
}

static const struct status_motion *worker_motion(const struct status *status,
                                                 const struct counters_worker *worker)
{
    return &status->worker[worker - status->seen->worker];
}

enum status_halt status_worker_halt(const struct status *status,
                                    const struct counters_worker *worker)
{
    return worker_motion(status, worker)->halt;
}

const char *status_worker_why(const struct status *status, const struct counters_worker *worker)
{
    return worker_motion(status, worker)->why;
}

const char *status_halt_name(enum status_halt halt)
{
    static const char *const names[] = {
        [STATUS_HALT_NONE] = "moves",      [STATUS_HALT_STOPPED] = "stopped",
        [STATUS_HALT_STARVED] = "starved", [STATUS_HALT_HUNG] = "hung",
        [STATUS_HALT_DEAD] = "dead",
    };

    return names[halt];
}

const char *status_worker_state(const struct status *status, const struct counters_worker *worker)
{
    enum status_halt halt = status_worker_halt(status, worker);

    return halt ? status_halt_name(halt) : worker_state_name(atomic_peek(&worker->life.state));
}

static char *reason_slot(struct status *status)
{
    return status->reason[status->reason_count++];
}

/* "does not move" is what scripts look for; the rest is for people. */
static void halt_reason(struct status *status, const char *who, const struct status_motion *motion,
                        uint64_t heartbeat_ns)
{
    int64_t age = status_heartbeat_age_ms(status, heartbeat_ns);
    char beat[64] = "no heartbeat yet";

    if (age >= 0)
        snprintf(beat, sizeof(beat), "last heartbeat %" PRId64 " ms ago", age);
    snprintf(reason_slot(status), STATUS_REASON_SIZE, "%s does not move: %s; it is %s%s%s", who,
             beat, status_halt_name(motion->halt), motion->why[0] ? ": " : "", motion->why);
}

static void worker_judge(struct status *status, const struct counters_worker *worker)
{
    const struct counters_worker_life *life = &worker->life;
    const struct status_motion *motion = worker_motion(status, worker);
    uint64_t state = atomic_peek(&life->state);
    char who[COUNTERS_LABEL + 48];

    if (motion->halt) {
        snprintf(who, sizeof(who), "worker %s (pid %" PRIu64 ")", life->name,
                 atomic_peek(&life->pid));
        halt_reason(status, who, motion, atomic_peek(&worker->stats.heartbeat_ns));
    } else if (state != WORKER_STATE_READY) {
        snprintf(reason_slot(status), STATUS_REASON_SIZE, "worker %s is %s%s%s", life->name,
                 worker_state_name(state), life->death[0] ? "; last death: " : "", life->death);
    }
}

static void supervisor_judge(struct status *status, status_look *look)
{
    const struct counters_supervisor *supervisor = &status->seen->supervisor;
    struct heartbeat beat = {
        .pid = (pid_t)atomic_peek(&supervisor->pid),
        .at_ns = atomic_peek(&supervisor->heartbeat_ns),
        .cpu_ns = atomic_peek(&supervisor->heartbeat_cpu_ns),
    };

    motion_find(status, &beat, false, look, &status->supervisor);
    if (status->supervisor.halt)
        halt_reason(status, "the supervisor", &status->supervisor, beat.at_ns);
    if (atomic_peek(&supervisor->draining))
        snprintf(reason_slot(status), STATUS_REASON_SIZE, "the supervisor is draining");
}

void status_judge(struct status *status, status_look *look)
{
    const struct counters_worker *worker = NULL;
    size_t workers = 0;

    status->reason_count = 0;
    supervisor_judge(status, look);
    while ((worker = status_worker_next(status, worker))) {
        workers++;
        worker_motion_find(status, (size_t)(worker - status->seen->worker), look);
        worker_judge(status, worker);
    }
    if (workers == 0)
        snprintf(reason_slot(status), STATUS_REASON_SIZE, "there is no worker");
}

const struct counters_worker *status_worker_next(const struct status *status,
                                                 const struct counters_worker *worker)
{
    const struct counters_worker *end = status->seen->worker + COUNTERS_WORKERS;

    for (worker = worker ? worker + 1 : status->seen->worker; worker < end; worker++)
        if (atomic_peek(&worker->life.used))
            return worker;
    return NULL;
}
