/* A job: one attached process, and what must be told to a worker that starts anew.
 *
 * The worker has the rings and regions; the supervisor keeps the records: names, handles and file
 * descriptors.  A job outlives its worker process.
 */
#ifndef TESUP_SUPERVISOR_JOB_JOB_H
#define TESUP_SUPERVISOR_JOB_JOB_H

#include <sys/socket.h>

#include "shm/wire.h"
#include "supervisor/registry.h"
#include "supervisor/worker/process.h"

#define JOB_CHANNELS_MAX 64u /* as many as a worker keeps per session */
#define JOB_ASKS_MAX     256u

enum job_state {
    JOB_WAITING = 0, /* for its worker to be ready */
    JOB_NAMELESS,    /* for its name to be free */
    JOB_ATTACHING,   /* its worker was told, has not answered */
    JOB_OPEN,
    JOB_ENDING, /* the process is gone; its worker has not answered that it forgot it */
};

/* Of all records: live = the worker has it; leaving = the job asked to remove it. */
struct job_channel {
    bool used, live, leaving;
    uint32_t slots;
    int fds[3]; /* channel memfd, worker eventfd, job eventfd */
};

struct job_region {
    bool live, leaving;
    struct proto_region ask;
    struct proto_gpu *gpu; /* NULL: host memory */
    int fd_count;
    int fds[]; /* as they came */
};

struct job_remote {
    bool live, leaving, watched;
    struct proto_remote ask;
};

struct job {
    struct supervisor *supervisor;
    struct worker_process *worker;
    struct list worker_node; /* worker->served or ->backlog, or supervisor->nameless */
    bool known;              /* this process of the worker was sent SESSION_ADD */
    bool served;             /* and all records: asks go to it at once */
    bool replaying_remotes;  /* how far job_replay.c is */
    uint32_t replay_cursor;
    enum job_state state;
    uint32_t handle;
    uint64_t since_ns; /* CLOCK_REALTIME */

    int socket;
    struct loop_source source;
    int pidfd;
    struct loop_source exit_source;
    struct ucred cred;
    uint64_t start_time;
    char comm[16];

    struct registry_entry segment;
    char full_name[LAYOUT_NAME_MAX]; /* HOST:PORT/SEGMENT */
    uint32_t hello_id, slots, flags;
    struct timer timer; /* the end of JOB_WAITING and JOB_NAMELESS */

    struct job_channel channels[JOB_CHANNELS_MAX];
    struct table regions, remotes;
    uint32_t channel_count;
    struct list asks;
    uint32_t ask_count;
    int counters_slot; /* -1 = not shown */
};

static inline bool job_slots_valid(uint32_t slots)
{
    return slots >= 16 && slots <= LAYOUT_SLOTS_MAX && (slots & (slots - 1)) == 0;
}

/* The process is gone or must go: its records and socket are dropped now, its name when the worker
 * has answered.  The job may be freed on return. */
void job_end(struct job *job, const char *why);
void job_free(struct job *job);

/* The worker's process knows all of the job's records. */
void job_mark_served(struct job *job);

/* Sends to the job; a job that does not read its answers ends. False when it ended. */
bool job_send(struct job *job, const struct wire_message *message);

/* Watches the job's socket and process. 0, or -1 with errno. */
int job_watch(struct job *job);

/* The process of `worker` died: its jobs wait for the next one. */
void job_worker_lost(struct worker_process *worker);
/* There will be no next one. */
void job_worker_failed(struct worker_process *worker);
/* The worker saw the job break the rules of shared memory. */
void job_killed_by_worker(struct worker_process *worker, uint32_t handle, const char *why);

#endif
