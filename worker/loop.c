/* The worker's loop: submissions -> links -> mailboxes -> completions, then sleep or look again. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/accept.h"
#include "worker/channel.h"
#include "worker/control.h"
#include "worker/drain.h"
#include "worker/endpoint.h"
#include "worker/gpu/staging.h"
#include "worker/gpu/start.h"
#include "worker/gpu/watch.h"
#include "worker/inbound.h"
#include "worker/intake.h"

#define HEARTBEAT_MS 1000

void worker_error(struct worker *worker, struct log_limit *limit, const char *format, ...)
{
    char text[COUNTERS_TEXT];
    uint64_t left_out;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    counters_error_add(worker->block->error, text);
    if (!log_limit_pass(limit, &left_out))
        return;
    if (left_out > 0)
        log_warning("%s (%llu more were not logged)", text, (unsigned long long)left_out);
    else
        log_warning("%s", text);
}

static int channels_do_work(struct worker *worker)
{
    int done = 0;

    list_each (node, following, &worker->channels) {
        struct channel *channel = list_entry(node, struct channel, link);
        struct session *session = channel->session;

        done += intake_do_work(channel);
        if (session->mailbox == channel &&
            (!list_empty(&session->parked) || !list_empty(&session->events)))
            done += inbound_do_work(session);
    }
    return done;
}

static int links_do_work(struct worker *worker)
{
    struct list now;
    int done = 0;

    if (worker->verbs != NULL)
        done += verbs_poll(worker);
    if (worker->gpu != NULL)
        done += gpu_poll(worker) + gpu_events_poll(worker->gpu);
    list_each (node, following, &worker->polled_links) {
        struct link *link = list_entry(node, struct link, polled);

        done += link->ops->poll(link);
    }
    /* Links that wake themselves again have their next turn after everybody else. */
    list_init(&now);
    while (!list_empty(&worker->busy_links)) {
        struct list *node = worker->busy_links.next;

        list_remove(node);
        list_append(&now, node);
    }
    while (!list_empty(&now)) {
        struct link *link = list_entry(now.next, struct link, busy);

        list_remove(&link->busy);
        done += link->ops->do_work(link);
    }
    return done;
}

static int completions_do_work(struct worker *worker)
{
    int done = 0;

    while (!list_empty(&worker->touched)) {
        channel_publish(list_entry(worker->touched.next, struct channel, touched));
        done++;
    }
    return done;
}

static void heartbeat(struct worker *worker)
{
    counters_heartbeat(&worker->stats->heartbeat_ns, &worker->stats->heartbeat_cpu_ns);
    if (worker->gpu == NULL)
        return;
    gpu_look(worker);
    gpu_events_look(worker->gpu);
}

/* A turn that found work has ended: how long nobody else was looked at. */
static void stats_on_turn(struct worker *worker, uint64_t began)
{
    struct counters_worker_stats *stats = worker->stats;
    uint64_t now = clock_now();

    atomic_count(&stats->turns, 1);
    if (now - began > atomic_peek(&stats->turn_max_ns))
        atomic_set(&stats->turn_max_ns, now - began);
}

int worker_do_work(struct worker *worker)
{
    int done = timer_heap_run(&worker->timers, worker->now);

    done += channels_do_work(worker);
    done += links_do_work(worker);
    done += endpoint_reap(worker);
    done += completions_do_work(worker);
    return done;
}

/* About to sleep: arm every bell, then look once more (shm/doorbell.h: D0). */
static bool worker_arm(struct worker *worker)
{
    bool work = false;

    list_each (node, following, &worker->channels) {
        struct channel *channel = list_entry(node, struct channel, link);

        doorbell_arm(&channel->own_bell);
        work |= intake_has_work(channel);
    }
    list_each (node, following, &worker->polled_links) {
        struct link *link = list_entry(node, struct link, polled);

        work |= link->ops->arm(link);
    }
    if (worker->verbs != NULL)
        work |= verbs_arm(worker);
    if (worker->gpu != NULL)
        work |= gpu_arm(worker);
    return work || !list_empty(&worker->busy_links);
}

static void worker_disarm(struct worker *worker)
{
    list_each (node, following, &worker->channels) {
        doorbell_disarm(&list_entry(node, struct channel, link)->own_bell);
    }
}

/* Returns whether it slept, which is a look at the sockets, too. */
static bool worker_sleep(struct worker *worker)
{
    uint64_t now = clock_now();
    int timeout = clock_ms_until(timer_heap_next(&worker->timers), now);
    bool sleep;

    if (timeout > HEARTBEAT_MS)
        timeout = HEARTBEAT_MS;
    sleep = !worker_arm(worker);
    if (sleep) {
        atomic_count(&worker->stats->sleeps, 1);
        if (reactor_wait(&worker->reactor, timeout) > 0)
            stats_on_turn(worker, worker->reactor.woken);
    }
    worker_disarm(worker);
    return sleep;
}

/* Idle strategy: when may the loop sleep? */
static bool worker_may_sleep(const struct worker *worker, uint64_t idle_since)
{
    switch (worker->config.idle) {
    case PROTO_IDLE_BUSY:
        return false;
    case PROTO_IDLE_SLEEP:
        return true;
    default:
        return worker->now - idle_since >= worker->config.spin_us * CLOCK_NS_PER_US ||
               !spin_is_alone(&worker->spin, worker->now);
    }
}

/* Everything once, sockets included when it is their time: not when the loop was just asleep in
 * them or is about to be. Returns how much was done. */
static int worker_turn(struct worker *worker, bool slept, uint64_t idle_since)
{
    bool look;
    int done;

    worker->now = clock_now();
    done = worker_do_work(worker);
    look = !slept && (done > 0 || !worker_may_sleep(worker, idle_since));
    if (look && reactor_is_due(&worker->reactor, worker->now))
        done += reactor_wait(&worker->reactor, 0);
    if (done > 0)
        stats_on_turn(worker, worker->now);
    if (worker->now - atomic_peek(&worker->stats->heartbeat_ns) >
        HEARTBEAT_MS * CLOCK_NS_PER_MS / 4)
        heartbeat(worker);
    return done;
}

static void worker_loop(struct worker *worker)
{
    uint64_t idle_since = clock_now();
    bool slept = false;

    while (!worker->stop && !drain_is_done(worker)) {
        int done = worker_turn(worker, slept, idle_since);

        slept = false;
        if (done > 0) {
            idle_since = worker->now;
        } else if (worker_may_sleep(worker, idle_since)) {
            slept = worker_sleep(worker);
            idle_since = clock_now();
        } else if (worker->config.idle == PROTO_IDLE_BUSY) {
            cpu_relax();
        } else {
            spin_pause(&worker->spin, idle_since, worker->now);
        }
    }
}

/* A device that does not open is no reason to leave jobs alone where TCP will do. */
static int device_init(struct worker *worker)
{
    uint32_t fabric = worker->config.fabric;
    char text[PROTO_TEXT_MAX] = "no RDMA device belongs to this worker";
    int rc = TS_ERR_UNSUPPORTED;

    if (fabric != PROTO_FABRIC_AUTO && fabric != PROTO_FABRIC_VERBS)
        return 0;
    if (worker->config.device[0] == '\0' && fabric == PROTO_FABRIC_AUTO)
        return 0;
    if (worker->config.device[0] != '\0')
        rc = verbs_open(worker, text, sizeof(text));
    if (rc == TS_OK)
        return 0;
    worker_error(worker, &worker->peer_limit, "no RDMA: %s", text);
    return fabric == PROTO_FABRIC_VERBS ? -1 : 0;
}

int worker_init(struct worker *worker, int control_fd)
{
    memset(worker, 0, sizeof(*worker));
    list_init(&worker->control_queue);
    list_init(&worker->sessions);
    list_init(&worker->channels);
    list_init(&worker->touched);
    list_init(&worker->endpoints);
    list_init(&worker->busy_links);
    list_init(&worker->polled_links);
    list_init(&worker->lost);
    list_init(&worker->accepts);
    timer_heap_init(&worker->timers);
    handshake_random(worker->id, sizeof(worker->id));
    handshake_host_id(worker->host_id);
    if (reactor_init(&worker->reactor) < 0 || control_init(worker, control_fd) < 0)
        return -1;
    memset(worker->block->endpoint, 0, sizeof(worker->block->endpoint));
    memset(worker->block->gpu, 0, sizeof(worker->block->gpu));
    memset(worker->stats, 0, sizeof(*worker->stats)); /* gauges of a dead predecessor */
    worker->now = clock_now();
    heartbeat(worker);
    worker->self = endpoint_open_self(worker);
    return worker->self != NULL ? device_init(worker) : -1;
}

void worker_fini(struct worker *worker)
{
    worker->leaving = true;
    while (!list_empty(&worker->sessions))
        session_delete(list_entry(worker->sessions.next, struct session, link));
    endpoint_fini(worker);
    gpu_settle(worker);
    verbs_shut(worker);
    gpu_start_close(worker);
    gpu_close(worker);
    timer_heap_fini(&worker->timers);
    reactor_fini(&worker->reactor);
    counters_unmap(worker->counters);
}

int worker_run(int control_fd, const char *name)
{
    static struct worker worker;

    log_init(name);
    if (worker_init(&worker, control_fd) < 0) {
        log_error("no valid configuration came from the supervisor, or no RDMA device opens");
        return 2;
    }
    control_ready(&worker);
    worker_loop(&worker);
    worker_fini(&worker);
    return worker.broken ? 3 : 0;
}
