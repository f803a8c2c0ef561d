/* Sessions: one attached job each, with its channels, regions, opened and offered segments. */
#ifndef TESUP_WORKER_SESSION_H
#define TESUP_WORKER_SESSION_H

#include "worker/worker.h"

#define SESSION_CHANNELS_MAX 64u

struct channel;

struct session {
    struct worker *worker;
    struct list link; /* worker.sessions */
    uint64_t handle;  /* the supervisor's */
    uint32_t uid, pid;
    uint64_t start_time;
    int pidfd;
    uint32_t flags;   /* PROTO_SHARE_* */
    uint32_t trusted; /* PROTO_TRUST_* */
    bool killed;      /* broke the rules; waits for the supervisor's SESSION_DEL */
    bool held;        /* regions of before are still to come (session_hold) */
    char segment[PROTO_LABEL_MAX];
    char name[LAYOUT_NAME_MAX]; /* HOST:PORT/SEGMENT */

    struct table regions, remotes;
    struct channel *channels[SESSION_CHANNELS_MAX];
    struct channel *mailbox; /* the channel that notifications arrive on; NULL none yet */
    struct list inbound;     /* struct inbound.member: senders that opened this segment */
    struct list parked;      /* struct inbound.waiting: have notifications for a full mailbox */
    struct list events;      /* struct remote.event: watch events not in the mailbox yet */
    uint32_t notify_budget;  /* bytes of credit given to senders */
};

int session_add(struct worker *worker, uint64_t handle, const struct proto_session *ask, int pidfd);
struct session *session_find(struct worker *worker, uint64_t handle);
struct session *session_find_segment(struct worker *worker, const char *segment);
/* Ends everything of the session: its requests, senders are told GONE, regions revoked. */
void session_delete(struct session *session);
/* In a worker that was started anew: until its predecessor's GPU regions are here, nothing is taken
 * from the job's rings and no sender hears that the segment is open.  Whoever named one of them
 * meanwhile would be told that it does not exist. */
void session_hold(struct session *session);
/* Ends that, if none is still to come. */
void session_release(struct session *session);
/* The job broke the rules of shared memory: no more is read from it; the supervisor ends it. */
void session_kill(struct session *session, const char *why);

#endif
