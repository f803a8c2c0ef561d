/* The worker as a whole: one thread, its tables, and the steps of its loop (worker/loop.c). */
#ifndef TESUP_WORKER_WORKER_H
#define TESUP_WORKER_WORKER_H

#include "shm/counters.h"
#include "shm/handshake.h"
#include "shm/list.h"
#include "shm/log.h"
#include "shm/proto.h"
#include "shm/spin.h"
#include "shm/table.h"
#include "shm/timer.h"
#include "worker/reactor.h"

struct gpu;
struct gpu_start;
struct verbs_nic;

struct worker {
    struct proto_worker_config config;
    uint8_t id[HANDSHAKE_ID]; /* new for each process: peers tell a restarted worker by it */
    char host_id[65];
    uint64_t generation; /* of endpoints and handshakes; goes up only */

    struct reactor reactor;
    struct timer_heap timers;
    struct source control;     /* to the supervisor */
    struct list control_queue; /* answers that its socket had no room for */

    struct counters_segment *counters;
    struct counters_worker *block;
    struct counters_worker_stats *stats;

    struct list sessions;     /* struct session.link */
    struct list channels;     /* struct channel.link: polled for submissions */
    struct list touched;      /* struct channel.touched: completions or notifications to publish */
    struct list endpoints;    /* struct endpoint.link */
    struct list busy_links;   /* struct link.busy: have frames or slices to send */
    struct list polled_links; /* struct link.polled */
    struct list lost; /* struct endpoint.lost: their links are closed at the end of the turn */
    struct verbs_nic *verbs;     /* NULL: no RDMA device */
    struct gpu *gpu;             /* NULL: no GPU region has come yet */
    struct gpu_start *gpu_start; /* NULL: no GPU is being started */
    struct list accepts;   /* struct accept.link: local links that wait for their other half */
    struct endpoint *self; /* to segments of this very worker */
    uint32_t endpoint_count;

    uint64_t now; /* start of this loop turn */
    struct spin spin;
    struct log_limit job_limit, peer_limit;
    struct timer drain; /* while draining: its deadline */
    bool draining;
    bool leaving; /* the process ends: sessions are not gone, only this worker is */
    bool broken;  /* the process ends because its device must be opened anew */
    bool stop;
};

/* Counts a distinct error for `tesup status --errors`, and logs it at most once a second. */
void worker_error(struct worker *worker, struct log_limit *limit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The parts of worker_run. init waits for the configuration on `control_fd`: 0 or -1. */
int worker_init(struct worker *worker, int control_fd);
/* One loop turn: everything that needs no sleep, at worker->now. Returns how much was done. */
int worker_do_work(struct worker *worker);
void worker_fini(struct worker *worker);

/* Runs until the supervisor is gone or a drain ended. The process's exit code. */
int worker_run(int control_fd, const char *name);

#endif
