#include "supervisor/worker/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/log.h"
#include "shm/process.h"
#include "supervisor/job/attach.h"
#include "supervisor/job/job.h"
#include "supervisor/job/replay.h"
#include "supervisor/job/request.h"
#include "supervisor/publish.h"
#include "supervisor/report.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker/bind.h"
#include "supervisor/worker/spawn.h"

#define START_DEADLINE_MS 10000u /* worker_apply says it in words */
#define DRAIN_MORE_MS     1000u  /* for a worker to stop by itself what did not end in time */
#define HEALTHY_NS        CLOCK_NS_PER_S
#define REAP_DEADLINE_MS  2000
#define BACKOFF_FIRST_MS  100u

static void worker_apply(struct worker_process *worker, enum worker_event event);
static void worker_timer(struct timer *timer);
static void worker_received(struct worker_link *link, struct wire_message *message);
static void worker_drained(struct worker_link *link);
static void worker_broken(struct worker_link *link, const char *why);

int worker_process_init(struct worker_process *worker, struct supervisor *supervisor,
                        unsigned index, const struct topology_pair *pair)
{
    *worker = (struct worker_process){
        .supervisor = supervisor, .index = index, .pair = pair, .pidfd = -1, .report = -1};
    worker->link.fd = -1;
    worker->link.received = worker_received;
    worker->link.drained = worker_drained;
    worker->link.broken = worker_broken;
    worker->timer.fire = worker_timer;
    list_init(&worker->served);
    list_init(&worker->backlog);
    table_init(&worker->asks, TABLE_SLOTS_MAX);
    worker->deaths = calloc(supervisor->options.restart_max_deaths, sizeof(*worker->deaths));
    if (worker->deaths == NULL)
        return -1;
    publish_worker_plan(worker);
    return 0;
}

static struct counters_worker_life *worker_life(struct worker_process *worker)
{
    return &worker->supervisor->counters->worker[worker->index].life;
}

/* How the worker finds its GPU.  With MIG on any of them CUDA shows a process that asks for none by
 * name one instance only, so whole GPUs go by their UUIDs there. */
static const char *gpu_words(const struct worker_process *worker)
{
    const struct topology_device *device;
    size_t count = topology_devices(worker->supervisor->topology, &device);
    const char *words = worker->pair->gpu;
    bool mig = false;

    for (size_t i = 0; i < count; i++) {
        mig = mig || device[i].instance_count > 0;
        if (device[i].uuid[0] != '\0' && topology_bus_id_equal(device[i].bus_id, worker->pair->gpu))
            words = device[i].uuid;
    }
    return mig ? words : worker->pair->gpu;
}

/* The first message: everything a worker must know. */
static void worker_config_send(struct worker_process *worker)
{
    const struct supervisor *supervisor = worker->supervisor;
    const struct serve_options *options = &supervisor->options;
    struct wire_message message;
    struct proto_worker_config *config = &message.body.config;

    wire_message_init(&message, WIRE_WORKER_CONFIG);
    memcpy(config->peer_key, supervisor->key, sizeof(config->peer_key));
    config->peer_auth = options->peer_auth;
    config->worker_index = worker->index;
    config->fabric = options->fabric;
    config->idle = options->idle;
    config->spin_us = options->spin_us;
    config->notify_max = supervisor->notify_max;
    config->slice_bytes = options->slice_bytes;
    config->tcp_window = options->tcp_window;
    config->endpoint_max = options->endpoint_max;
    config->connect_ms = options->connect_ms;
    config->request_ms = options->request_ms;
    config->notify_native = options->notify_native;
    config->notify_oob = options->notify_oob_fallback;
    config->rdma = options->rdma;
    snprintf(config->device, sizeof(config->device), "%s", worker->pair->nic);
    snprintf(config->gpu, sizeof(config->gpu), "%s", gpu_words(worker));
    snprintf(config->name, sizeof(config->name), "%s", worker->pair->name);
    snprintf(config->address, sizeof(config->address), "%s", supervisor->address);
    snprintf(config->local_socket, sizeof(config->local_socket), "%s", supervisor->paths.socket);
    message.fds[0] = supervisor->counters_fd;
    message.fd_count = 1;
    worker_link_send(&worker->link, &message);
}

/* What the child wrote before it became the worker; "" when all went well. */
static void worker_report_read(struct worker_process *worker, char *text, size_t size)
{
    ssize_t got = worker->report >= 0 ? read(worker->report, text, size - 1) : 0;

    text[got > 0 ? got : 0] = '\0';
    if (got > 2)
        text[got - 2] = '\0'; /* the last "; " */
    if (worker->report >= 0)
        close(worker->report);
    worker->report = -1;
}

static void worker_release(struct worker_process *worker)
{
    struct loop *loop = &worker->supervisor->loop;

    timer_clear(&loop->timers, &worker->timer);
    loop_remove(loop, &worker->exit_source);
    worker_link_close(&worker->link);
    if (worker->pidfd >= 0)
        close(worker->pidfd);
    if (worker->report >= 0)
        close(worker->report);
    worker->pidfd = -1;
    worker->report = -1;
    worker->pid = 0;
    worker->killed[0] = '\0';
    worker->ready_ns = 0;
}

static void death_text(const siginfo_t *info, char *text, size_t size)
{
    const char *name;

    if (info->si_code == CLD_EXITED) {
        snprintf(text, size, "exit %d", info->si_status);
        return;
    }
    name = sigabbrev_np(info->si_status);
    if (name != NULL)
        snprintf(text, size, "killed by SIG%s", name);
    else
        snprintf(text, size, "killed by signal %d", info->si_status);
}

/* Notes a death; true when there were too many within the window. */
static bool death_count(struct worker_process *worker)
{
    const struct serve_options *options = &worker->supervisor->options;
    uint64_t now = clock_now(), oldest;

    worker->deaths[worker->death_count++ % options->restart_max_deaths] = now;
    if (worker->death_count < options->restart_max_deaths)
        return false;
    oldest = worker->deaths[worker->death_count % options->restart_max_deaths];
    return now - oldest <= options->restart_window_ms * CLOCK_NS_PER_MS;
}

/* The process is reaped: what it knew is forgotten, what happens next is the table's matter. */
static void worker_died(struct worker_process *worker, const char *how)
{
    char early[COUNTERS_TEXT] = "", text[COUNTERS_TEXT * 3];
    uint64_t ready_ns = worker->ready_ns;
    bool healthy = ready_ns != 0 && clock_now() - ready_ns > HEALTHY_NS;
    bool draining = worker->state == WORKER_STATE_DRAINING;
    bool too_many = !draining && death_count(worker);

    if (ready_ns == 0)
        worker_report_read(worker, early, sizeof(early));
    snprintf(text, sizeof(text), "%s%s%s%s%s", how, worker->killed[0] != '\0' ? ": " : "",
             worker->killed, early[0] != '\0' ? ": " : "", early);
    if (draining)
        log_info("worker %s left: %s", worker->pair->name, text);
    else
        report_problem(worker->supervisor, NULL, "worker %s died: %s", worker->pair->name, text);
    publish_worker_death(worker_life(worker), text);
    worker_release(worker);
    job_worker_lost(worker);
    worker->early = healthy ? 0 : worker->early + 1;
    worker_apply(worker, too_many  ? WORKER_EVENT_TOO_MANY
                         : healthy ? WORKER_EVENT_EXIT_HEALTHY
                                   : WORKER_EVENT_EXIT_EARLY);
}

static void worker_exited(struct loop_source *source, uint32_t events)
{
    struct worker_process *worker = list_entry(source, struct worker_process, exit_source);
    siginfo_t info = {.si_pid = 0};
    char how[64];

    (void)events;
    if (waitid(P_PID, (id_t)worker->pid, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
        return;
    /* Answers that it gave before it died still count. */
    worker_link_receive(&worker->link, INT32_MAX);
    death_text(&info, how, sizeof(how));
    worker_died(worker, how);
}

static void worker_spawn_now(struct worker_process *worker)
{
    struct worker_place place = {.name = worker->pair->name,
                                 .cpus = worker->pair->cpus,
                                 .node = worker->pair->node,
                                 .foreground = worker->supervisor->options.foreground};
    struct worker_spawned spawned;
    char text[COUNTERS_TEXT + PATH_MAX];

    if (worker_spawn(&place, &spawned, text, sizeof(text)) < 0)
        goto err_text;
    worker->pid = spawned.pid;
    worker->pidfd = spawned.pidfd;
    worker->report = spawned.report;
    if (worker_link_open(&worker->link, &worker->supervisor->loop, spawned.control) < 0) {
        close(spawned.control);
        goto err_kill;
    }
    if (loop_add(&worker->supervisor->loop, &worker->exit_source, spawned.pidfd, EPOLLIN,
                 worker_exited) < 0)
        goto err_kill;
    publish_worker_started(worker_life(worker), spawned.pid);
    loop_timer_set(&worker->supervisor->loop, &worker->timer, START_DEADLINE_MS);
    worker_config_send(worker);
    return;

err_kill:
    snprintf(text, sizeof(text), "cannot be watched: %s", strerror(errno));
    kill(worker->pid, SIGKILL);
    waitpid(worker->pid, NULL, 0);
    worker_release(worker);
err_text:
    report_problem(worker->supervisor, NULL, "worker %s %s", worker->pair->name, text);
    publish_worker_death(worker_life(worker), text);
    worker->early++;
    worker_apply(worker, death_count(worker) ? WORKER_EVENT_TOO_MANY : WORKER_EVENT_START_FAILED);
}

/* Jitter keeps workers that died together from starting together. */
static uint64_t backoff_ms(const struct worker_process *worker)
{
    uint64_t limit = worker->supervisor->options.restart_backoff_max_ms;
    unsigned doublings = worker->early > 1 ? worker->early - 1 : 0;
    uint64_t pause = BACKOFF_FIRST_MS << (doublings < 20 ? doublings : 20);
    uint32_t random;

    if (pause > limit)
        pause = limit;
    handshake_random(&random, sizeof(random));
    return pause - pause / 4 + random % (pause / 4 + 1);
}

static void worker_serve(struct worker_process *worker)
{
    char bind[COUNTERS_TEXT], affinity[COUNTERS_TEXT];

    timer_clear(&worker->supervisor->loop.timers, &worker->timer);
    worker->ready_ns = clock_now();
    worker_report_read(worker, bind, sizeof(bind));
    bind_cpus_check(worker->pid, worker->pair->cpus, affinity, sizeof(affinity));
    if (bind[0] == '\0')
        snprintf(bind, sizeof(bind), "%s", affinity);
    if (bind[0] != '\0')
        report_problem(worker->supervisor, NULL, "worker %s: %s", worker->pair->name, bind);
    publish_worker_ready(worker_life(worker), bind);
    log_info("worker %s is ready (pid %d)", worker->pair->name, (int)worker->pid);
    job_replay_continue(worker);
}

static void worker_give_up(struct worker_process *worker)
{
    report_problem(worker->supervisor, NULL,
                   "worker %s died %u times within %u ms and is given up; restart the supervisor "
                   "when the cause is gone",
                   worker->pair->name, worker->supervisor->options.restart_max_deaths,
                   worker->supervisor->options.restart_window_ms);
    job_worker_failed(worker);
}

static void worker_ask_drain(struct worker_process *worker)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_DRAIN);
    message.body.drain.deadline_ms = worker->supervisor->options.drain_ms;
    worker_link_send(&worker->link, &message);
    loop_timer_set(&worker->supervisor->loop, &worker->timer,
                   worker->supervisor->options.drain_ms + DRAIN_MORE_MS);
}

/* A drained worker's jobs have nobody left: their sockets close. */
static void worker_gone(struct worker_process *worker)
{
    timer_clear(&worker->supervisor->loop.timers, &worker->timer);
    job_worker_failed(worker);
}

static void worker_apply(struct worker_process *worker, enum worker_event event)
{
    struct worker_step step = worker_fsm_step(worker->state, event);

    worker->state = step.next;
    publish_worker_state(worker_life(worker), step.next);
    switch (step.action) {
    case WORKER_ACTION_NONE:
        break;
    case WORKER_ACTION_SPAWN:
        worker_spawn_now(worker);
        break;
    case WORKER_ACTION_SERVE:
        worker_serve(worker);
        break;
    case WORKER_ACTION_WAIT:
        loop_timer_set(&worker->supervisor->loop, &worker->timer, backoff_ms(worker));
        break;
    case WORKER_ACTION_GIVE_UP:
        worker_give_up(worker);
        break;
    case WORKER_ACTION_DRAIN:
        worker_ask_drain(worker);
        break;
    case WORKER_ACTION_KILL:
        worker_process_kill(worker, step.next == WORKER_STATE_STARTING
                                        ? "it was not ready 10 s after its start"
                                        : "it did not finish within the drain timeout");
        break;
    case WORKER_ACTION_GONE:
        worker_gone(worker);
        break;
    }
    supervisor_worker_changed(worker->supervisor);
}

static void worker_timer(struct timer *timer)
{
    worker_apply(list_entry(timer, struct worker_process, timer), WORKER_EVENT_TIMER);
}

static void worker_received(struct worker_link *link, struct wire_message *message)
{
    struct worker_process *worker = list_entry(link, struct worker_process, link);

    switch ((enum wire_type)message->header.type) {
    case WIRE_WORKER_READY:
        worker_apply(worker, WORKER_EVENT_READY);
        break;
    case WIRE_REPLY:
        wire_text_close(message->body.reply.text);
        job_request_answered(worker, message);
        break;
    case WIRE_GRANT:
        job_request_granted(worker, message);
        break;
    case WIRE_SESSION_KILL:
        wire_text_close(message->body.reply.text);
        job_killed_by_worker(worker, (uint32_t)message->header.session, message->body.reply.text);
        break;
    default:
        worker_process_kill(worker, "it sent a message that is not for a supervisor");
        break;
    }
}

static void worker_drained(struct worker_link *link)
{
    job_replay_continue(list_entry(link, struct worker_process, link));
}

static void worker_broken(struct worker_link *link, const char *why)
{
    worker_process_kill(list_entry(link, struct worker_process, link), why);
}

void worker_process_start(struct worker_process *worker)
{
    worker_apply(worker, WORKER_EVENT_START);
}

void worker_process_drain(struct worker_process *worker)
{
    worker_apply(worker, WORKER_EVENT_DRAIN);
}

void worker_process_kill(struct worker_process *worker, const char *why)
{
    if (!worker_process_alive(worker))
        return;
    report_problem(worker->supervisor, NULL, "worker %s is killed: %s", worker->pair->name, why);
    snprintf(worker->killed, sizeof(worker->killed), "%s", why);
    worker_link_close(&worker->link);
    process_pidfd_signal(worker->pidfd, SIGKILL);
}

/* SIGKILL takes effect at once, unless the process hangs in the kernel. */
static void worker_reap(struct worker_process *worker)
{
    struct pollfd exited = {.fd = worker->pidfd, .events = POLLIN};

    process_pidfd_signal(worker->pidfd, SIGKILL);
    if (poll(&exited, 1, REAP_DEADLINE_MS) == 1)
        waitpid(worker->pid, NULL, WNOHANG);
    else
        log_error("worker %s (pid %d) does not die: it hangs in the kernel", worker->pair->name,
                  (int)worker->pid);
    worker_release(worker);
}

void worker_process_fini(struct worker_process *worker)
{
    if (worker_process_alive(worker))
        worker_reap(worker);
    worker->state = WORKER_STATE_DOWN;
    job_worker_lost(worker);
    job_worker_failed(worker);
    table_fini(&worker->asks);
    free(worker->deaths);
}
