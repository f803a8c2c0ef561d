/* Remotes: segments of other jobs that a session opened. */
#ifndef TESUP_WORKER_REMOTE_H
#define TESUP_WORKER_REMOTE_H

#include "shm/name.h"
#include "worker/endpoint.h"
#include "worker/session.h"

enum remote_state {
    REMOTE_CONNECTING = 0, /* its endpoint is on its way, or between two links */
    REMOTE_OPENING,        /* FRAME_OPEN sent */
    REMOTE_OPEN,
    REMOTE_GONE, /* the segment ended; final */
};

struct remote {
    struct session *session;
    uint32_t handle;
    enum remote_state state;
    bool was_open;    /* it was open once: a refusal now means that it is gone */
    bool own_attempt; /* its endpoint's handshake asked for this very segment */
    char name[LAYOUT_NAME_MAX];
    struct segment_name where;
    struct endpoint *endpoint;
    struct list link; /* endpoint.remotes */
    uint32_t wire;    /* handle in endpoint.outbounds: names us in the peer's frames */
    uint32_t open;    /* the peer's handle, for frames */
    uint64_t credit;  /* bytes of notifications that may be sent */
    uint32_t notify_max;
    int gone_status;    /* why it is gone */
    uint32_t open_id;   /* supervisor's message to answer; 0 none */
    struct timer timer; /* for open_id */
    bool watched;
    struct list event;                       /* session.events: the watch fired */
    struct list waiting;                     /* requests that wait for REMOTE_OPEN */
    struct list order[SESSION_CHANNELS_MAX]; /* requests with notifications, per channel */
};

/* Opens; the supervisor's message `open_id` is answered when the peer answered. */
/* With `open_id` 0 it was open at a worker of before: that it cannot be reached now is not final.
 */
int remote_add(struct session *session, const struct proto_remote *ask, uint32_t open_id,
               char *text, size_t text_size);
int remote_close(struct session *session, uint32_t handle);
int remote_watch(struct session *session, uint32_t handle);
void remote_free(struct remote *remote);

/* Between endpoints. A ready one is asked to open the segment at once. */
void remote_join(struct remote *remote, struct endpoint *endpoint);
void remote_leave(struct remote *remote);

/* From the endpoint and the peer protocol. */
void remote_on_endpoint_ready(struct remote *remote); /* sends FRAME_OPEN */
void remote_on_endpoint_lost(struct remote *remote);  /* back to CONNECTING */
void remote_on_opened(struct remote *remote, const struct frame *frame, const char *text);
void remote_on_gone(struct remote *remote, int status);
void remote_on_credit(struct remote *remote, uint64_t bytes);
/* The host said a final no to the segment that its endpoint asked for. */
void remote_on_refused(struct remote *remote, int status, const char *text);
/* The endpoint could not be reached for a while: whoever waits is told. */
void remote_fail(struct remote *remote, int status, const char *text);

/* Bytes of credit that a notification costs: payload and a record's header. */
static inline uint64_t notify_cost(uint64_t name_len, uint64_t msg_len)
{
    return name_len + msg_len + sizeof(struct notify_record);
}

#endif
