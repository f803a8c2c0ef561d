/* A job of a host: its session, its channels as libtesup sees them, its memory. */
#ifndef TESUP_TESTS_HARNESS_WORKER_JOB_H
#define TESUP_TESTS_HARNESS_WORKER_JOB_H

#include "shm/channel.h"
#include "tests/harness/worker/host.h"
#include "worker/channel.h"
#include "worker/region.h"
#include "worker/remote.h"
#include "worker/session.h"

#define JOB_SLOTS_MAX 64u
#define JOB_MEMORIES  8u
#define JOB_MAIL_MAX  65528u /* of a message that job_mail takes */
#define JOB_UID       1000u
#define JOB_OPEN_MS   100000u /* a segment may take this long to open */

/* The handle that a supervisor gives the `index`th region or remote of a session. */
#define JOB_HANDLE(index) ((1u << TABLE_INDEX_BITS) | (index))

struct job_channel {
    struct job *job;
    struct channel *channel; /* the worker's side */
    struct channel_map map;
    struct ring_producer sq, ntx;
    struct ring_consumer cq, nrx;
    bool busy[JOB_SLOTS_MAX];
    uint64_t tickets[JOB_SLOTS_MAX];
};

struct job {
    struct host *host;
    struct session *session;
    struct job_channel main; /* handle 0, the mailbox */
    struct {
        uint8_t *bytes;
        uint64_t length;
    } memory[JOB_MEMORIES]; /* by region index; NULL when job_memory did not make it */
};

struct job_shape {
    uint64_t handle; /* of the session, unique in its host */
    const char *segment;
    uint32_t uid; /* 0 = JOB_UID; root cannot be meant */
    uint32_t flags;
    bool untrusted;
    uint32_t slots;      /* 0 = 16 */
    uint32_t notify_max; /* 0 = HOST_NOTIFY_MAX */
};

void job_attach(struct job *job, struct host *host, const struct job_shape *shape);
/* The job goes. What the worker still holds of it is seen by host_stop. */
void job_detach(struct job *job);

/* One more channel, for another thread of the job; job_detach closes the worker's side. */
void job_channel_add(struct job *job, uint32_t handle, struct job_channel *channel);
void job_channel_close(struct job_channel *channel);

/* Registers zeroed sealed memory as region JOB_HANDLE(index); the job's own view of it. */
uint8_t *job_memory(struct job *job, uint32_t index, uint64_t length, uint32_t access);
/* Registers what `ask` says as JOB_HANDLE(index); takes the descriptor. */
void job_region(struct job *job, uint32_t index, const struct proto_region *ask, int fd);
struct region *job_region_of(const struct job *job, uint32_t index);

/* Opens `segment` as JOB_HANDLE(index) over an endpoint that is there already: the attempt of its
 * own is handed over. The worker answers message `open_id`. */
struct remote *job_open(struct job *job, uint32_t index, struct endpoint *endpoint,
                        const char *segment, uint32_t open_id);

/* ---- what libtesup does ---- */

struct job_note {
    const void *name, *msg;
    uint32_t name_len, msg_len;
};

/* Submits with a free slot; the notification (NULL none) goes into ntx. Returns the ticket. */
uint64_t job_submit(struct job_channel *channel, const struct sqe *sqe,
                    const struct job_note *note);
void job_cancel(struct job_channel *channel, uint64_t ticket);
/* The request of a ticket in the worker; NULL once it is completed. */
struct request *job_request(struct job_channel *channel, uint64_t ticket);
/* Takes the next completion. false: there is none. */
bool job_complete(struct job_channel *channel, struct cqe *cqe);
/* Waits for the completion of `ticket`, which must be the next one. */
struct cqe job_completion(struct job_channel *channel, uint64_t ticket);

/* A notification or event, taken out of the mailbox. */
struct job_mail {
    struct notify_record record;
    char from[LAYOUT_NAME_MAX];
    uint8_t name[256], msg[JOB_MAIL_MAX];
};
bool job_mail(struct job *job, struct job_mail *mail);

#endif
