#include "supervisor/worker/fsm.h"

#define STAY(state)                              \
    {                                            \
        WORKER_STATE_##state, WORKER_ACTION_NONE \
    }
#define GO(state, action)                            \
    {                                                \
        WORKER_STATE_##state, WORKER_ACTION_##action \
    }

/* Every cell is written down; STAY says that the event means nothing in this state. */
static const struct worker_step worker_steps[WORKER_STATE_COUNT][WORKER_EVENT_COUNT] =
    {
        [WORKER_STATE_DOWN] =
            {
                [WORKER_EVENT_START] = GO(STARTING, SPAWN),
                [WORKER_EVENT_READY] = STAY(DOWN),
                [WORKER_EVENT_EXIT_HEALTHY] = STAY(DOWN),
                [WORKER_EVENT_EXIT_EARLY] = STAY(DOWN),
                [WORKER_EVENT_TOO_MANY] = STAY(DOWN),
                [WORKER_EVENT_TIMER] = STAY(DOWN),
                [WORKER_EVENT_DRAIN] = GO(DOWN, GONE),
                [WORKER_EVENT_START_FAILED] = STAY(DOWN),
            },
        [WORKER_STATE_STARTING] =
            {
                [WORKER_EVENT_START] = STAY(STARTING),
                [WORKER_EVENT_READY] = GO(READY, SERVE),
                [WORKER_EVENT_EXIT_HEALTHY] = GO(STARTING, SPAWN),
                [WORKER_EVENT_EXIT_EARLY] = GO(BACKOFF, WAIT),
                [WORKER_EVENT_TOO_MANY] = GO(FAILED, GIVE_UP),
                [WORKER_EVENT_TIMER] = GO(STARTING, KILL),
                [WORKER_EVENT_DRAIN] = GO(DRAINING, DRAIN),
                [WORKER_EVENT_START_FAILED] = GO(BACKOFF, WAIT),
            },
        [WORKER_STATE_READY] =
            {
                [WORKER_EVENT_START] = STAY(READY),
                [WORKER_EVENT_READY] = STAY(READY),
                [WORKER_EVENT_EXIT_HEALTHY] = GO(STARTING, SPAWN),
                [WORKER_EVENT_EXIT_EARLY] = GO(BACKOFF, WAIT),
                [WORKER_EVENT_TOO_MANY] = GO(FAILED, GIVE_UP),
                [WORKER_EVENT_TIMER] = STAY(READY),
                [WORKER_EVENT_DRAIN] = GO(DRAINING, DRAIN),
                [WORKER_EVENT_START_FAILED] = STAY(READY),
            },
        [WORKER_STATE_BACKOFF] =
            {
                [WORKER_EVENT_START] = STAY(BACKOFF),
                [WORKER_EVENT_READY] = STAY(BACKOFF),
                [WORKER_EVENT_EXIT_HEALTHY] = STAY(BACKOFF),
                [WORKER_EVENT_EXIT_EARLY] = STAY(BACKOFF),
                [WORKER_EVENT_TOO_MANY] = GO(FAILED, GIVE_UP),
                [WORKER_EVENT_TIMER] = GO(STARTING, SPAWN),
                [WORKER_EVENT_DRAIN] = GO(DOWN, GONE),
                [WORKER_EVENT_START_FAILED] = STAY(BACKOFF),
            },
        [WORKER_STATE_FAILED] =
            {
                [WORKER_EVENT_START] = STAY(FAILED),
                [WORKER_EVENT_READY] = STAY(FAILED),
                [WORKER_EVENT_EXIT_HEALTHY] = STAY(FAILED),
                [WORKER_EVENT_EXIT_EARLY] = STAY(FAILED),
                [WORKER_EVENT_TOO_MANY] = STAY(FAILED),
                [WORKER_EVENT_TIMER] = STAY(FAILED),
                [WORKER_EVENT_DRAIN] = GO(DOWN, GONE),
                [WORKER_EVENT_START_FAILED] = STAY(FAILED),
            },
        [WORKER_STATE_DRAINING] =
            {
                [WORKER_EVENT_START] = STAY(DRAINING),
                [WORKER_EVENT_READY] = STAY(DRAINING),
                [WORKER_EVENT_EXIT_HEALTHY] = GO(DOWN, GONE),
                [WORKER_EVENT_EXIT_EARLY] = GO(DOWN, GONE),
                [WORKER_EVENT_TOO_MANY] = GO(DOWN, GONE),
                [WORKER_EVENT_TIMER] = GO(DRAINING, KILL),
                [WORKER_EVENT_DRAIN] = GO(DRAINING, KILL),
                [WORKER_EVENT_START_FAILED] = GO(DOWN, GONE),
            },
};

struct worker_step worker_fsm_step(enum worker_state state, enum worker_event event)
{
    return worker_steps[state][event];
}
