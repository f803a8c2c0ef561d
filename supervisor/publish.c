#include "supervisor/publish.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/process.h"
#include "supervisor/supervisor.h"

/* Texts in the segment are cut where they do not fit. */
#define PUBLISH_TEXT(field, text) snprintf((field), sizeof(field), "%s", (text))

void publish_supervisor(struct supervisor *supervisor)
{
    static const char *const fabrics[] = {"auto", "tcp", "local", "verbs"};
    struct counters_supervisor *block = &supervisor->counters->supervisor;
    const struct serve_options *options = &supervisor->options;

    counters_write_begin(&block->seq);
    atomic_set(&block->pid, (uint64_t)getpid());
    atomic_set(&block->started_ns, clock_wall());
    publish_heartbeat(supervisor);
    PUBLISH_TEXT(block->name, options->name);
    PUBLISH_TEXT(block->version, TESUP_VERSION);
    PUBLISH_TEXT(block->listen, supervisor->listener.address);
    PUBLISH_TEXT(block->socket, supervisor->paths.socket);
    PUBLISH_TEXT(block->fabric, fabrics[options->fabric]);
    PUBLISH_TEXT(block->peer_auth, options->peer_auth == OPTION_PEER_AUTH_PSK ? "psk" : "none");
    PUBLISH_TEXT(block->notify_native, options->notify_native ? "1" : "0");
    PUBLISH_TEXT(block->notify_oob, options->notify_oob_fallback ? "1" : "0");
    counters_write_end(&block->seq);
}

void publish_heartbeat(struct supervisor *supervisor)
{
    struct counters_supervisor *block = &supervisor->counters->supervisor;

    counters_heartbeat(&block->heartbeat_ns, &block->heartbeat_cpu_ns);
}

/* What was asked for goes over the plan, which knows devices only. */
static const char *pair_fabric(const struct worker_process *worker)
{
    switch (worker->supervisor->options.fabric) {
    case OPTION_FABRIC_TCP:
        return "tcp";
    case OPTION_FABRIC_LOCAL:
        return "local";
    case OPTION_FABRIC_VERBS:
        return "verbs";
    default:
        return worker->pair->fabric;
    }
}

void publish_worker_plan(struct worker_process *worker)
{
    struct counters_worker_life *life = &worker->supervisor->counters->worker[worker->index].life;
    const struct topology_pair *pair = worker->pair;

    counters_write_begin(&life->seq);
    atomic_set(&life->used, 1);
    life->numa_node = pair->node;
    PUBLISH_TEXT(life->name, pair->name);
    PUBLISH_TEXT(life->nic, pair->nic);
    PUBLISH_TEXT(life->port, pair->port);
    PUBLISH_TEXT(life->gpu, pair->gpu);
    PUBLISH_TEXT(life->distance, topology_distance_name(pair->distance));
    PUBLISH_TEXT(life->fabric, pair_fabric(worker));
    PUBLISH_TEXT(life->cpus, pair->cpus);
    PUBLISH_TEXT(life->reason, pair->reason);
    counters_write_end(&life->seq);
}

void publish_worker_state(struct counters_worker_life *life, enum worker_state state)
{
    atomic_set(&life->state, (uint64_t)state);
}

void publish_worker_started(struct counters_worker_life *life, pid_t pid)
{
    counters_write_begin(&life->seq);
    if (atomic_peek(&life->started_ns) != 0)
        atomic_count(&life->restarts, 1);
    atomic_set(&life->pid, (uint64_t)pid);
    atomic_set(&life->start_ticks, process_start_time(pid));
    atomic_set(&life->started_ns, clock_wall());
    atomic_set(&life->ready_ns, 0);
    counters_write_end(&life->seq);
}

void publish_worker_ready(struct counters_worker_life *life, const char *bind)
{
    counters_write_begin(&life->seq);
    atomic_set(&life->ready_ns, clock_wall());
    PUBLISH_TEXT(life->bind, bind);
    counters_write_end(&life->seq);
}

void publish_worker_death(struct counters_worker_life *life, const char *text)
{
    counters_write_begin(&life->seq);
    atomic_set(&life->pid, 0);
    atomic_set(&life->ready_ns, 0);
    atomic_set(&life->death_ns, clock_wall());
    PUBLISH_TEXT(life->death, text);
    counters_write_end(&life->seq);
}

static struct counters_session *job_block(struct job *job)
{
    struct counters_session *blocks = job->supervisor->counters->session;

    for (int i = 0; job->counters_slot < 0 && i < (int)COUNTERS_SESSIONS; i++)
        if (atomic_peek(&blocks[i].used) == 0)
            job->counters_slot = i;
    return job->counters_slot >= 0 ? &blocks[job->counters_slot] : NULL;
}

void publish_job(struct job *job)
{
    struct counters_session *block = job_block(job);

    if (block == NULL)
        return;
    counters_write_begin(&block->seq);
    atomic_set(&block->used, 1);
    atomic_set(&block->pid, (uint64_t)job->cred.pid);
    atomic_set(&block->uid, job->cred.uid);
    atomic_set(&block->worker, job->worker->index);
    atomic_set(&block->channels, job->channel_count);
    atomic_set(&block->regions, job->regions.used);
    atomic_set(&block->remotes, job->remotes.used);
    atomic_set(&block->since_ns, job->since_ns);
    PUBLISH_TEXT(block->comm, job->comm);
    PUBLISH_TEXT(block->segment, job->full_name);
    counters_write_end(&block->seq);
}

void publish_job_end(struct job *job)
{
    struct counters_session *block;

    if (job->counters_slot < 0)
        return;
    block = &job->supervisor->counters->session[job->counters_slot];
    counters_write_begin(&block->seq);
    atomic_set(&block->used, 0);
    counters_write_end(&block->seq);
    job->counters_slot = -1;
}
