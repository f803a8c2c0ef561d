/* The endpoint's life as one table: which event leads where, and what is done on the way. */
#ifndef TESUP_WORKER_ENDPOINT_FSM_H
#define TESUP_WORKER_ENDPOINT_FSM_H

#include "worker/endpoint.h"

enum endpoint_action {
    ACTION_NONE = 0,  /* the event changes nothing here */
    ACTION_IGNORE,    /* cannot happen in order, or comes late: counted as stale, dropped */
    ACTION_CONNECT,   /* resolve, connect, shake hands, under a deadline */
    ACTION_READY,     /* open the segments that wait */
    ACTION_LINK,      /* watch the local link's set-up under a deadline */
    ACTION_RETRY,     /* nothing was up: try again later, or tell who waits */
    ACTION_RETRY_TCP, /* the local link did not work: the same, but over TCP */
    ACTION_LOSE,      /* end what was posted, then try again later */
    ACTION_REFUSE,    /* a final no: tell who waits */
    ACTION_LINGER,    /* nobody needed it for a while: let it go, unless someone does again */
    ACTION_DRAIN,     /* no new work; hand the segments over; BYE when the rest is done */
    ACTION_CLOSE,     /* let everything go */
    ACTION_COUNT
};

struct endpoint_step {
    enum endpoint_state next;
    enum endpoint_action action;
};

extern const struct endpoint_step endpoint_steps[ENDPOINT_STATE_COUNT][ENDPOINT_EVENT_COUNT];

#endif
