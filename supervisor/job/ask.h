/* Asks: messages to a worker that it must answer.  An ask outlives the worker's process: it is sent
 * again to the next one.  Its content is in the job's records. */
#ifndef TESUP_SUPERVISOR_JOB_ASK_H
#define TESUP_SUPERVISOR_JOB_ASK_H

#include "supervisor/job/job.h"

#define JOB_ASK_MS      30000u /* a worker answers within this */
#define JOB_ASK_MORE_MS 5000u  /* after the request's own deadline */

struct job_ask {
    struct job *job;
    struct list node;    /* job->asks */
    enum wire_type type; /* as sent to the worker */
    uint32_t id;         /* between us and the worker; a handle of worker->asks */
    uint32_t job_id;     /* the job's own id */
    uint32_t handle;     /* of the record */
    bool abandoned;      /* the job was told TS_ERR_TIMEOUT; only the record waits */
    struct timer timer;
};

/* NULL when there are too many or memory is out. */
struct job_ask *job_ask_new(struct job *job, enum wire_type type, uint32_t job_id, uint32_t handle,
                            uint64_t timeout_ms);
void job_ask_free(struct job_ask *ask);
/* Nothing happens while the worker does not know the job's records: job_replay.c sends it then. */
void job_ask_send(const struct job_ask *ask);
/* NULL for an id that nobody waits for any more. */
struct job_ask *job_ask_find(const struct worker_process *worker, uint32_t id);

/* Fills a message about a record; `adopt` for a channel that was served before. */
void job_message_build(struct job *job, enum wire_type type, uint32_t handle, bool adopt,
                       struct wire_message *message);

#endif
