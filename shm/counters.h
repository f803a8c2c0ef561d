/* The counters segment: what `tesup status` reads, without asking anybody.
 *
 * One memfd of the supervisor.  Each block has one writer: the supervisor its own, the sessions and
 * each worker's identity; a worker its counters and endpoints.  Readers reopen the memfd read-only
 * through /proc/PID/fd/N (pid and N are in the lock file), so no reader can disturb a writer, and
 * reading works while every daemon process is stopped.
 *
 * Numbers are single 64-bit words.  A block with strings is guarded by `seq`: odd while it is
 * being written, changed after; readers copy and retry (counters_snapshot).
 */
#ifndef TESUP_SHM_COUNTERS_H
#define TESUP_SHM_COUNTERS_H

#include <stdbool.h>

#include "shm/atomics.h"
#include "shm/layout.h"

#define COUNTERS_MAGIC     UINT64_C(0x31544e4350555354) /* "TSUPCNT1" */
#define COUNTERS_VERSION   6u
#define COUNTERS_WORKERS   64u
#define COUNTERS_ENDPOINTS 128u /* shown per worker; more are counted, not listed */
#define COUNTERS_SESSIONS  256u
#define COUNTERS_ERRORS    32u /* distinct ones per worker and for the supervisor */
#define COUNTERS_GPUS      16u /* different ways of GPU regions, per worker */
#define COUNTERS_LABEL     64u
#define COUNTERS_TEXT      200u

/* A distinct error: same text = same entry, counted. */
struct counters_error {
    _Atomic uint64_t seq;
    _Atomic uint64_t count;
    _Atomic uint64_t first_ns; /* CLOCK_REALTIME */
    _Atomic uint64_t last_ns;
    char text[COUNTERS_TEXT];
};

enum worker_state {
    WORKER_STATE_DOWN = 0,
    WORKER_STATE_STARTING = 1, /* started, not ready */
    WORKER_STATE_READY = 2,
    WORKER_STATE_BACKOFF = 3, /* died before it was ready; waits */
    WORKER_STATE_FAILED = 4,  /* died too often; given up */
    WORKER_STATE_DRAINING = 5,
    WORKER_STATE_COUNT
};

enum endpoint_state {
    ENDPOINT_IDLE = 0,   /* no connection, none wanted */
    ENDPOINT_CONNECTING, /* TCP connect in progress */
    ENDPOINT_HANDSHAKE,  /* hello sent, waiting for the peer's words */
    ENDPOINT_LINKING,    /* authenticated; local link being set up */
    ENDPOINT_READY,
    ENDPOINT_DRAINING, /* a duplicate or being closed: no new work, finishes the old */
    ENDPOINT_BACKOFF,  /* lost; next attempt is timed */
    ENDPOINT_CLOSED,   /* final; the slot is about to be freed */
    ENDPOINT_STATE_COUNT
};

/* A queue pair, by the numbers that `rdma resource show qp` has on either host. */
struct counters_queue {
    uint32_t own, peer;
};
#define COUNTERS_QUEUES 16

struct counters_endpoint {
    _Atomic uint64_t seq; /* written by the worker */
    _Atomic uint64_t used;
    _Atomic uint64_t state;               /* enum endpoint_state */
    _Atomic uint64_t since_ns;            /* of this state, CLOCK_REALTIME */
    _Atomic uint64_t bytes_out, bytes_in; /* by its links; over shared memory the copying side */
    _Atomic uint64_t reconnects;
    char peer[LAYOUT_NAME_MAX]; /* HOST:PORT */
    char peer_worker[COUNTERS_LABEL];
    char fabric[16];
    char notify[48];                    /* "tcp", "local", "native" or why not */
    struct counters_queue notify_queue; /* 0: none */
    uint32_t data_queues;
    uint32_t pad;
    struct counters_queue data_queue[COUNTERS_QUEUES];
};

/* GPU regions that go the same way to other hosts, for the same reason.  The line is in use while
 * `regions` is not 0. */
struct counters_gpu {
    _Atomic uint64_t seq; /* written by the worker */
    _Atomic uint64_t regions, bytes;
    char gpu[16];            /* bus id */
    char way[24];            /* "rdma (dmabuf)", "rdma (peer memory)", "staging" */
    char why[COUNTERS_TEXT]; /* not a better one */
};

/* Identity and life of a worker: written by the supervisor under seq. */
struct counters_worker_life {
    _Atomic uint64_t seq;
    _Atomic uint64_t used;
    _Atomic uint64_t state; /* enum worker_state */
    _Atomic uint64_t pid;
    _Atomic uint64_t start_ticks; /* process_start_time(): pids are reused */
    _Atomic uint64_t started_ns;  /* CLOCK_REALTIME */
    _Atomic uint64_t ready_ns;
    _Atomic uint64_t restarts;
    _Atomic uint64_t death_ns; /* last death, 0 = none */
    int64_t numa_node;         /* -1 unknown */
    char name[COUNTERS_LABEL];
    char nic[COUNTERS_LABEL];
    char port[48]; /* of the NIC: "active, 400 Gb/s", "" unknown or no NIC */
    char gpu[COUNTERS_LABEL];
    char distance[16]; /* NIC to GPU: "PIX" … "SYS", "" where one is missing */
    char fabric[16];   /* what the worker may use towards other hosts */
    char cpus[COUNTERS_LABEL];
    char reason[COUNTERS_TEXT]; /* of the pairing */
    char death[COUNTERS_TEXT];  /* "killed by SIGKILL", "exit 3", … */
    char bind[COUNTERS_TEXT];   /* "" = as planned; else what could not be bound */
};

/* Order is the order of display; counters_worker_fields names each. */
struct counters_worker_stats {
    _Atomic uint64_t heartbeat_ns;     /* CLOCK_MONOTONIC, at least once a second */
    _Atomic uint64_t heartbeat_cpu_ns; /* CPU time of the process at that moment */
    _Atomic uint64_t turns;            /* loop turns that found work */
    _Atomic uint64_t turn_max_ns;      /* longest turn */
    _Atomic uint64_t sleeps;
    _Atomic uint64_t sessions, channels, regions, endpoints; /* now */
    _Atomic uint64_t requests;                               /* accepted */
    _Atomic uint64_t completions;
    _Atomic uint64_t in_flight; /* now */
    _Atomic uint64_t reads, writes;
    _Atomic uint64_t bytes_read, bytes_written;   /* as initiator */
    _Atomic uint64_t served_reads, served_writes; /* as target; not over shared memory, */
    _Atomic uint64_t bytes_served_read, bytes_served_written; /* where the initiator copies */
    _Atomic uint64_t notify_sent, notify_received, notify_delivered;
    _Atomic uint64_t notify_parked;                      /* now waiting for room in a ring */
    _Atomic uint64_t notify_no_credit;                   /* times a sender had to wait */
    _Atomic uint64_t notify_cq_used, notify_cq_capacity; /* entries; 0 of 0: there is no such CQ */
    _Atomic uint64_t again;                              /* refused for lack of room */
    _Atomic uint64_t failed, cancelled, timed_out, uncertain;
    _Atomic uint64_t doorbells_rung, doorbells_heard;
    _Atomic uint64_t sessions_killed; /* protocol broken by a job */
    _Atomic uint64_t peer_protocol;   /* endpoints ended for a broken frame */
    _Atomic uint64_t peer_refused;    /* handshakes that did not prove the key */
    _Atomic uint64_t stale_completions;
    _Atomic uint64_t endpoint_lost, endpoint_duplicate, endpoint_evicted;
    _Atomic uint64_t pinned_bytes;    /* of regions, registered with the device */
    _Atomic uint64_t rdma_pool_bytes; /* pinned for notifications */
    _Atomic uint64_t rdma_work_requests, rdma_doorbells;
    _Atomic uint64_t rdma_sent, rdma_received; /* completions of either kind */
    _Atomic uint64_t rdma_no_credit;           /* times a packet had to wait for a buffer */
    _Atomic uint64_t
        rdma_aside; /* transfers over TCP: one side's device does not know the memory */
    _Atomic uint64_t rdma_events, rdma_errors; /* asynchronous ones; failed work requests */
    _Atomic uint64_t rdma_renewed;             /* queue pairs that were replaced */
    _Atomic uint64_t gpu_regions, gpu_bytes;   /* now */
    _Atomic uint64_t gpu_pinned_bytes;         /* of the host, to stage copies in */
    _Atomic uint64_t gpu_copies_out, gpu_copies_in, gpu_copies_between; /* to host, to GPU, GPUs */
    _Atomic uint64_t gpu_no_chunk; /* times a copy had to wait for staging memory */
};

struct counters_worker {
    struct counters_worker_life life;
    struct counters_worker_stats stats;
    struct counters_endpoint endpoint[COUNTERS_ENDPOINTS];
    struct counters_gpu gpu[COUNTERS_GPUS];
    struct counters_error error[COUNTERS_ERRORS];
};

struct counters_session {
    _Atomic uint64_t seq; /* written by the supervisor */
    _Atomic uint64_t used;
    _Atomic uint64_t pid, uid, worker, channels, regions, remotes, since_ns;
    char comm[16];
    char segment[LAYOUT_NAME_MAX];
};

struct counters_supervisor {
    _Atomic uint64_t seq;
    _Atomic uint64_t pid;
    _Atomic uint64_t started_ns;
    _Atomic uint64_t heartbeat_ns;     /* CLOCK_MONOTONIC */
    _Atomic uint64_t heartbeat_cpu_ns; /* CPU time of the process at that moment */
    _Atomic uint64_t draining;
    _Atomic uint64_t attaches, attach_refused, sessions_ended;
    _Atomic uint64_t peers_accepted, peers_refused_auth, peers_refused_protocol, peers_timed_out;
    char name[COUNTERS_LABEL];
    char version[16];
    char listen[LAYOUT_NAME_MAX];
    char socket[LAYOUT_NAME_MAX];
    char fabric[16];
    char peer_auth[16]; /* "psk" or "none" */
    char notify_native[8], notify_oob[8];
    struct counters_error error[COUNTERS_ERRORS];
};

struct counters_segment {
    uint64_t magic;
    uint32_t version;
    uint32_t pad;
    uint64_t size;
    uint8_t pad1[LAYOUT_LINE - 24];
    struct counters_supervisor supervisor;
    struct counters_session session[COUNTERS_SESSIONS];
    struct counters_worker worker[COUNTERS_WORKERS];
};

/* Creates the segment's memfd (sealed in size) and maps it writable. TS_OK or an error. */
int counters_create(int *fd, struct counters_segment **counters);
/* Maps an existing one; refuses a wrong magic, version or size with TS_ERR_VERSION. */
int counters_map(int fd, bool writable, struct counters_segment **counters);
void counters_unmap(struct counters_segment *counters);

/* Says that this process moves: time and CPU time go to the two words of a heartbeat. */
void counters_heartbeat(_Atomic uint64_t *at_ns, _Atomic uint64_t *cpu_ns);

/* Around changes of a block with strings: write_begin makes seq odd, write_end even again. */
void counters_write_begin(_Atomic uint64_t *seq);
void counters_write_end(_Atomic uint64_t *seq);
/* Copies `size` bytes at `block`, whose first member is seq, until two looks agree; gives up after
 * some tries and returns false with the last copy (a writer was stopped or died in between). */
bool counters_snapshot(const void *block, void *copy, size_t size);

/* Counts `text` in a table of distinct errors; the oldest entry makes room. Single writer. */
void counters_error_add(struct counters_error *table, const char *text);

const char *worker_state_name(uint64_t state);
const char *endpoint_state_name(uint64_t state);

/* Name and offset of each number of counters_worker_stats, in order, for status and metrics. */
struct counters_field {
    const char *name;
    size_t offset;
};
extern const struct counters_field counters_worker_fields[];
extern const size_t counters_worker_field_count;

#endif
