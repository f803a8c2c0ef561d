/* The verdict: what keeps this supervisor from being healthy. */
#include <inttypes.h>
#include <stdio.h>

#include "shm/clock.h"
#include "supervisor/status_read.h"

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

bool status_worker_hung(const struct status *status, const struct counters_worker *worker)
{
    uint64_t state = atomic_peek(&worker->life.state);

    return (state == WORKER_STATE_READY || state == WORKER_STATE_DRAINING) &&
           heartbeat_old(status, atomic_peek(&worker->stats.heartbeat_ns));
}

const char *status_worker_state(const struct status *status, const struct counters_worker *worker)
{
    return status_worker_hung(status, worker) ? "hung"
                                              : worker_state_name(atomic_peek(&worker->life.state));
}

static void heartbeat_words(const struct status *status, uint64_t heartbeat_ns, char *words,
                            size_t size)
{
    int64_t age = status_heartbeat_age_ms(status, heartbeat_ns);

    if (age < 0)
        snprintf(words, size, "no heartbeat yet");
    else
        snprintf(words, size, "last heartbeat %" PRId64 " ms ago", age);
}

static char *reason_slot(struct status *status)
{
    return status->reason[status->reason_count++];
}

static void worker_judge(struct status *status, const struct counters_worker *worker)
{
    const struct counters_worker_life *life = &worker->life;
    uint64_t state = atomic_peek(&life->state);
    char beat[64];

    heartbeat_words(status, atomic_peek(&worker->stats.heartbeat_ns), beat, sizeof(beat));
    if (status_worker_hung(status, worker))
        snprintf(reason_slot(status), STATUS_REASON_SIZE,
                 "worker %s (pid %" PRIu64 ") does not move: %s", life->name,
                 atomic_peek(&life->pid), beat);
    else if (state != WORKER_STATE_READY)
        snprintf(reason_slot(status), STATUS_REASON_SIZE, "worker %s is %s%s%s", life->name,
                 worker_state_name(state), life->death[0] ? "; last death: " : "", life->death);
}

void status_judge(struct status *status)
{
    const struct counters_segment *seen = status->seen;
    uint64_t beat = atomic_peek(&seen->supervisor.heartbeat_ns);
    size_t workers = 0;
    char words[64];

    status->reason_count = 0;
    heartbeat_words(status, beat, words, sizeof(words));
    if (heartbeat_old(status, beat))
        snprintf(reason_slot(status), STATUS_REASON_SIZE, "the supervisor does not move: %s",
                 words);
    if (atomic_peek(&seen->supervisor.draining))
        snprintf(reason_slot(status), STATUS_REASON_SIZE, "the supervisor is draining");
    for (size_t i = 0; i < COUNTERS_WORKERS; i++) {
        if (!atomic_peek(&seen->worker[i].life.used))
            continue;
        workers++;
        worker_judge(status, &seen->worker[i]);
    }
    if (workers == 0)
        snprintf(reason_slot(status), STATUS_REASON_SIZE, "there is no worker");
}
