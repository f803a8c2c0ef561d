/* The daemon as a whole. */
#ifndef TESUP_SUPERVISOR_SUPERVISOR_H
#define TESUP_SUPERVISOR_SUPERVISOR_H

#include "shm/counters.h"
#include "shm/handshake.h"
#include "supervisor/job/broker.h"
#include "supervisor/lock.h"
#include "supervisor/loop.h"
#include "supervisor/options/options.h"
#include "supervisor/peer/accept.h"
#include "supervisor/peer/listener.h"
#include "supervisor/registry.h"
#include "supervisor/report.h"
#include "supervisor/systemd.h"
#include "supervisor/worker/process.h"

struct supervisor {
    struct serve_options options;
    struct options_paths paths;
    struct loop loop;
    struct lock lock;
    int counters_fd;
    struct counters_segment *counters;
    uint8_t key[HANDSHAKE_KEY];
    uint32_t notify_max;
    char address[LAYOUT_NAME_MAX]; /* HOST:PORT that peers use */

    struct topology *topology;
    struct topology_plan plan;
    struct worker_process *workers;
    unsigned worker_count;

    struct table jobs;
    struct registry registry;
    struct list nameless; /* jobs that wait for a name (job/name.h) */
    struct timer names_freed;
    uint64_t unnamed; /* segments that were given a name so far */
    struct broker broker;
    struct listener listener;
    struct peer_gate gate;

    int signals;
    struct loop_source signal_source;
    struct timer heartbeat;
    uint64_t idle_since; /* a heartbeat that found no job, and each since then */
    struct timer leave;  /* the end of the drain, whatever happens */
    struct systemd systemd;
    bool ready, draining;
    void (*on_ready)(struct supervisor *supervisor); /* all workers are ready or given up */

    struct log_limit job_broken, job_refused, job_came, job_left;
};

/* Opens everything and starts the workers. 0, or -1 with a sentence in text. */
int supervisor_init(struct supervisor *supervisor, const struct serve_options *options, char *text,
                    size_t text_size);
/* Until it was told to leave. */
int supervisor_run(struct supervisor *supervisor);
void supervisor_fini(struct supervisor *supervisor);

/* Users other than our own and root may attach. */
bool supervisor_allows_others(const struct supervisor *supervisor);

/* A worker's state changed: perhaps all are ready, or all are gone. */
void supervisor_worker_changed(struct supervisor *supervisor);

#endif
