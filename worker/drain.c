#include "worker/drain.h"

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/channel.h"
#include "worker/request.h"

#define STOP_MS 250u /* for peers to confirm what was stopped; the supervisor waits longer */

static void drain_stop_channel(struct channel *channel)
{
    for (uint32_t slot = 0; slot < channel->map.slots; slot++)
        if (channel->requests[slot].state != REQUEST_FREE)
            request_stop(&channel->requests[slot], TS_ERR_TIMEOUT);
}

static void drain_on_stopped(struct timer *timer)
{
    list_entry(timer, struct worker, drain)->stop = true;
}

static void drain_on_deadline(struct timer *timer)
{
    struct worker *worker = list_entry(timer, struct worker, drain);

    worker_error(worker, &worker->job_limit,
                 "%llu requests were in flight at the end of the drain and are stopped "
                 "(daemon.drain_timeout)",
                 (unsigned long long)atomic_peek(&worker->stats->in_flight));
    list_each (node, following, &worker->channels) {
        drain_stop_channel(list_entry(node, struct channel, link));
    }
    timer->fire = drain_on_stopped;
    timer_set(&worker->timers, timer, clock_now() + STOP_MS * CLOCK_NS_PER_MS);
}

void drain_start(struct worker *worker, uint32_t deadline_ms)
{
    if (worker->draining)
        return;
    worker->draining = true;
    worker->drain.fire = drain_on_deadline;
    timer_set(&worker->timers, &worker->drain, clock_now() + deadline_ms * CLOCK_NS_PER_MS);
}

bool drain_is_done(const struct worker *worker)
{
    return worker->draining && atomic_peek(&worker->stats->in_flight) == 0 &&
           atomic_peek(&worker->stats->notify_parked) == 0;
}
