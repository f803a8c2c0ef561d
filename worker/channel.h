/* Channels: the worker's side of one set of rings. */
#ifndef TESUP_WORKER_CHANNEL_H
#define TESUP_WORKER_CHANNEL_H

#include "shm/channel.h"
#include "worker/gate.h"
#include "worker/request.h"
#include "worker/session.h"

struct channel {
    struct session *session;
    uint32_t handle;     /* index in session.channels */
    struct list link;    /* worker.channels */
    struct list touched; /* worker.touched */
    struct channel_map map;
    struct ring_consumer sq, ntx;
    struct ring_producer cq, nrx;
    struct doorbell bell;     /* of the job: we ring it */
    struct doorbell own_bell; /* ours: we sleep behind it */
    struct source source;     /* own_bell's eventfd */
    struct request *requests; /* by slot */
    uint32_t in_flight;
    struct group group; /* being collected: its leader is still to come */
    struct gate gate;
    uint64_t stashed_bytes; /* notifications copied out of ntx that wait for credit */
};

/* Maps the channel; with `adopt` its counters go on where a dead worker left them, and requests
 * that it had accepted are completed (docs/memory-model.md). TS_OK or an error; takes the fds. */
int channel_add(struct session *session, const struct proto_channel *ask, int memfd, int own_event,
                int job_event);
/* What channel_add returned, in words for the job. */
const char *channel_refusal(int status);
void channel_delete(struct channel *channel);

/* Puts one completion into cq and frees the slot. Published by channel_publish. */
void channel_complete(struct channel *channel, struct request *request, int status, uint64_t bytes);

/* Puts a record into the mailbox. TS_OK, TS_AGAIN when it is full (the room bell is armed then),
 * TS_ERR_PROTOCOL (the session was killed). */
int channel_deliver(struct channel *channel, const struct notify_record *header, const char *from,
                    const void *name, const void *msg);

/* Makes this turn's completions and notifications visible; wakes the job if it sleeps. */
void channel_publish(struct channel *channel);

#endif
