/* The life of a worker process as a table: what happens next, and what is to be done. */
#ifndef TESUP_SUPERVISOR_WORKER_FSM_H
#define TESUP_SUPERVISOR_WORKER_FSM_H

#include "shm/counters.h"

enum worker_event {
    WORKER_EVENT_START = 0,
    WORKER_EVENT_READY,        /* it said so */
    WORKER_EVENT_EXIT_HEALTHY, /* died after it had been ready for a while */
    WORKER_EVENT_EXIT_EARLY,   /* died before or just after it was ready */
    WORKER_EVENT_TOO_MANY,     /* died, once too often within the window */
    WORKER_EVENT_TIMER,        /* the deadline of this state passed */
    WORKER_EVENT_DRAIN,        /* the supervisor ends */
    WORKER_EVENT_START_FAILED, /* fork or what it needs failed */
    WORKER_EVENT_COUNT
};

enum worker_action {
    WORKER_ACTION_NONE = 0,
    WORKER_ACTION_SPAWN,   /* start a process now */
    WORKER_ACTION_SERVE,   /* hand it the jobs */
    WORKER_ACTION_WAIT,    /* start one after a pause */
    WORKER_ACTION_GIVE_UP, /* end its jobs, tell people */
    WORKER_ACTION_DRAIN,   /* ask it to finish and leave */
    WORKER_ACTION_KILL,    /* it did not meet its deadline */
    WORKER_ACTION_GONE,    /* drained: nothing is left of it */
};

struct worker_step {
    enum worker_state next;
    enum worker_action action;
};

struct worker_step worker_fsm_step(enum worker_state state, enum worker_event event);

#endif
