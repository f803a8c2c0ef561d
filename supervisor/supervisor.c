#include "supervisor/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "shm/err.h"
#include "supervisor/job/name.h"
#include "supervisor/key.h"
#include "supervisor/peer/route.h"
#include "supervisor/publish.h"
#include "supervisor/shortage.h"
#include "supervisor/topology/gpus.h"
#include "supervisor/worker/cpu_taken.h"

#define HEARTBEAT_MS  1000u
#define FILES_MIN     64u   /* its own, a few for each worker, and some jobs */
#define LEAVE_MORE_MS 3000u /* for processes that were killed to be reaped */

/* Each opens one thing, or returns -1 with a sentence in text; in the order of supervisor_steps. */
typedef int supervisor_step(struct supervisor *supervisor, char *text, size_t text_size);

static supervisor_step process_prepare, signals_open, plan_open, lock_open, key_open, counters_open,
    peers_open, jobs_open, workers_open;

static supervisor_step *const supervisor_steps[] = {
    process_prepare, signals_open, plan_open, lock_open,    key_open,
    counters_open,   peers_open,   jobs_open, workers_open,
};

/* Jobs and peers cost descriptors, so take what the system allows. */
static int process_prepare(struct supervisor *supervisor, char *text, size_t text_size)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        if (files.rlim_cur < FILES_MIN) {
            snprintf(text, text_size,
                     "RLIMIT_NOFILE is %llu, a supervisor needs at least %u file descriptors: "
                     "start it with `ulimit -n 1024` or more, LimitNOFILE= in its unit",
                     (unsigned long long)files.rlim_cur, FILES_MIN);
            return -1;
        }
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* EFBIG is reported to the job that asked */
    if (loop_init(&supervisor->loop) == 0)
        return 0;
    snprintf(text, text_size, "epoll cannot be used: %s", strerror(errno));
    return -1;
}

static void supervisor_drain(struct supervisor *supervisor)
{
    for (unsigned i = 0; i < supervisor->worker_count; i++)
        worker_process_drain(&supervisor->workers[i]);
    supervisor_worker_changed(supervisor);
}

/* The first time: finish what runs, take nothing new.  The second: at once. */
static void supervisor_leave(struct supervisor *supervisor, const char *why)
{
    log_info("%s: %s", why,
             supervisor->draining ? "leaving at once" : "finishing what runs, then leaving");
    if (!supervisor->draining) {
        supervisor->draining = true;
        atomic_set(&supervisor->counters->supervisor.draining, 1);
        systemd_stopping();
        listener_close(&supervisor->listener);
        peer_gate_close(&supervisor->gate);
        broker_close(&supervisor->broker);
        job_name_close(supervisor);
        loop_timer_set(&supervisor->loop, &supervisor->leave,
                       supervisor->options.drain_ms + LEAVE_MORE_MS);
    }
    supervisor_drain(supervisor);
}

static void signal_ready(struct loop_source *source, uint32_t events)
{
    struct supervisor *supervisor = list_entry(source, struct supervisor, signal_source);
    struct signalfd_siginfo info;
    char why[32];

    (void)events;
    if (read(supervisor->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    snprintf(why, sizeof(why), "SIG%s", sigabbrev_np((int)info.ssi_signo));
    supervisor_leave(supervisor, why);
}

static int signals_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    supervisor->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (supervisor->signals >= 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0 &&
        loop_add(&supervisor->loop, &supervisor->signal_source, supervisor->signals, EPOLLIN,
                 signal_ready) == 0)
        return 0;
    snprintf(text, text_size, "signals cannot be received: %s", strerror(errno));
    return -1;
}

static int plan_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    const struct serve_options *options = &supervisor->options;
    const char *xml = options->topology[0] != '\0' ? options->topology : NULL;
    static struct gpu_facts facts;

    if (topology_load(xml, &supervisor->topology, text, text_size) < 0)
        return -1;
    gpu_facts_read(&facts);
    gpu_facts_name(&facts, supervisor->topology);
    if (xml == NULL)
        cpu_taken_mark(supervisor->topology);
    return topology_plan_make(supervisor->topology, &options->rules, options->workers,
                              &supervisor->plan, text, text_size);
}

bool supervisor_allows_others(const struct supervisor *supervisor)
{
    const struct option_uids *allowed = &supervisor->options.allow_uids;

    for (uint32_t i = 0; i < allowed->count; i++)
        if (allowed->uid[i] != geteuid() && allowed->uid[i] != 0)
            return true;
    return allowed->all;
}

/* Workers of peers reach the socket by its path from wherever they were started. */
static int paths_make_absolute(struct supervisor *supervisor, char *text, size_t text_size)
{
    char directory[PATH_MAX];

    if (realpath(supervisor->paths.runtime_dir, directory) == NULL) {
        snprintf(text, text_size, "runtime directory %s: %s", supervisor->paths.runtime_dir,
                 strerror(errno));
        return -1;
    }
    return options_paths_default(supervisor->options.name, directory, &supervisor->paths, text,
                                 text_size);
}

static int lock_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    const struct serve_options *options = &supervisor->options;
    struct options_paths *paths = &supervisor->paths;

    if (options_paths_default(options->name, options->runtime_dir, paths, text, text_size) < 0)
        return -1;
    if (lock_take(&supervisor->lock, paths->runtime_dir, paths->lock, options->name,
                  supervisor_allows_others(supervisor), text, text_size) < 0)
        return -1;
    return paths_make_absolute(supervisor, text, text_size);
}

static int key_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    const struct serve_options *options = &supervisor->options;

    if (options->peer_auth == OPTION_PEER_AUTH_PSK &&
        key_load(options->peer_key, supervisor->key, text, text_size) < 0)
        return -1;
    return 0;
}

static int counters_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    if (counters_create(&supervisor->counters_fd, &supervisor->counters) == TS_OK)
        return lock_write(&supervisor->lock, supervisor->counters_fd, text, text_size);
    shortage_explain(errno, "the counters segment", sizeof(*supervisor->counters), text, text_size);
    return -1;
}

static int peers_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    const struct serve_options *options = &supervisor->options;
    bool brackets = strchr(options->advertise, ':') != NULL;

    supervisor->gate.loop = &supervisor->loop;
    supervisor->gate.key = supervisor->key;
    supervisor->gate.timeout_ms = options->handshake_ms;
    supervisor->gate.counters = &supervisor->counters->supervisor;
    supervisor->gate.deliver = peer_route;
    if (listener_open(&supervisor->listener, supervisor, options->listen_host, options->listen_port,
                      text, text_size) < 0)
        return -1;
    snprintf(supervisor->address, sizeof(supervisor->address), brackets ? "[%s]:%u" : "%s:%u",
             options->advertise, supervisor->listener.port);
    return 0;
}

static int jobs_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    table_init(&supervisor->jobs, supervisor->options.sessions_max);
    return broker_open(&supervisor->broker, supervisor, text, text_size);
}

/* Looked at with each heartbeat: a job that came and went in between is not seen. */
static void idle_look(struct supervisor *supervisor)
{
    uint64_t now = clock_now();
    uint64_t limit = supervisor->options.exit_idle_ms * CLOCK_NS_PER_MS;

    if (supervisor->jobs.used > 0 || supervisor->idle_since == 0)
        supervisor->idle_since = now;
    else if (limit > 0 && !supervisor->draining && now - supervisor->idle_since >= limit)
        supervisor_leave(supervisor, "no job is attached (--exit-when-idle)");
}

static void heartbeat(struct timer *timer)
{
    struct supervisor *supervisor = list_entry(timer, struct supervisor, heartbeat);

    publish_heartbeat(supervisor);
    idle_look(supervisor);
    loop_timer_set(&supervisor->loop, timer, HEARTBEAT_MS);
}

static void leave_now(struct timer *timer)
{
    list_entry(timer, struct supervisor, leave)->loop.stop = true;
}

static int workers_open(struct supervisor *supervisor, char *text, size_t text_size)
{
    unsigned count = (unsigned)supervisor->plan.count;

    publish_supervisor(supervisor);
    supervisor->heartbeat.fire = heartbeat;
    supervisor->leave.fire = leave_now;
    loop_timer_set(&supervisor->loop, &supervisor->heartbeat, HEARTBEAT_MS);
    systemd_watch(&supervisor->systemd, &supervisor->loop);
    supervisor->workers = calloc(count, sizeof(*supervisor->workers));
    for (unsigned i = 0; supervisor->workers != NULL && i < count; i++) {
        if (worker_process_init(&supervisor->workers[i], supervisor, i, &supervisor->plan.pair[i]) <
            0)
            break;
        supervisor->worker_count++;
    }
    if (supervisor->worker_count < count) {
        snprintf(text, text_size, "no memory for %u workers", count);
        return -1;
    }
    for (unsigned i = 0; i < count; i++)
        worker_process_start(&supervisor->workers[i]);
    return 0;
}

int supervisor_init(struct supervisor *supervisor, const struct serve_options *options, char *text,
                    size_t text_size)
{
    supervisor->options = *options;
    supervisor->notify_max =
        options->notify_oob_fallback ? LAYOUT_NOTIFY_OOB_MAX : LAYOUT_NOTIFY_NATIVE_MAX;
    supervisor->loop.epoll = -1;
    supervisor->lock.fd = -1;
    supervisor->counters_fd = -1;
    supervisor->signals = -1;
    registry_init(&supervisor->registry);
    list_init(&supervisor->nameless);
    supervisor->names_freed.fire = job_name_look;
    broker_init(&supervisor->broker);
    peer_gate_init(&supervisor->gate);
    for (size_t i = 0; i < sizeof(supervisor_steps) / sizeof(supervisor_steps[0]); i++)
        if (supervisor_steps[i](supervisor, text, text_size) < 0)
            return -1;
    return 0;
}

int supervisor_run(struct supervisor *supervisor)
{
    return loop_run(&supervisor->loop);
}

void supervisor_fini(struct supervisor *supervisor)
{
    listener_close(&supervisor->listener);
    peer_gate_close(&supervisor->gate);
    broker_close(&supervisor->broker);
    job_name_close(supervisor);
    supervisor->draining = true;
    for (unsigned i = 0; i < supervisor->worker_count; i++)
        worker_process_fini(&supervisor->workers[i]);
    free(supervisor->workers);
    table_fini(&supervisor->jobs);
    if (supervisor->counters != NULL)
        counters_unmap(supervisor->counters);
    if (supervisor->counters_fd >= 0)
        close(supervisor->counters_fd);
    topology_free(supervisor->topology);
    if (supervisor->signals >= 0)
        close(supervisor->signals);
    loop_fini(&supervisor->loop);
    lock_release(&supervisor->lock); /* last: whoever comes next finds nothing of us */
}

void supervisor_worker_changed(struct supervisor *supervisor)
{
    unsigned ready = 0, failed = 0, processes = 0;
    char text[64];

    for (unsigned i = 0; i < supervisor->worker_count; i++) {
        ready += supervisor->workers[i].state == WORKER_STATE_READY;
        failed += supervisor->workers[i].state == WORKER_STATE_FAILED;
        processes += worker_process_alive(&supervisor->workers[i]);
    }
    if (supervisor->draining) {
        supervisor->loop.stop = supervisor->loop.stop || processes == 0;
        return;
    }
    snprintf(text, sizeof(text), "%u of %u workers ready, %u failed", ready,
             supervisor->worker_count, failed);
    systemd_status(text);
    if (supervisor->ready || ready + failed < supervisor->worker_count)
        return;
    supervisor->ready = true;
    systemd_ready();
    supervisor->on_ready(supervisor);
}
