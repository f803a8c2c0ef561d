#include "worker/endpoint_fsm.h"

#define GO(state, act)                 \
    {                                  \
        ENDPOINT_##state, ACTION_##act \
    }
#define ON(event) [ENDPOINT_EVENT_##event]

const struct endpoint_step endpoint_steps[ENDPOINT_STATE_COUNT][ENDPOINT_EVENT_COUNT] =
    {
        [ENDPOINT_IDLE] =
            {
                ON(START) = GO(CONNECTING, CONNECT),
                ON(CONNECTED) = GO(IDLE, IGNORE),
                ON(WELCOME) = GO(IDLE, IGNORE),
                ON(LINKING) = GO(LINKING, LINK),
                ON(LINKED) = GO(IDLE, IGNORE),
                ON(ACCEPTED) = GO(READY, READY),
                ON(DUPLICATE) = GO(CLOSED, CLOSE),
                ON(LOST) = GO(CLOSED, CLOSE),
                ON(REFUSED) = GO(IDLE, IGNORE),
                ON(TIMER) = GO(IDLE, IGNORE),
                ON(DRAINED) = GO(CLOSED, CLOSE),
            },
        [ENDPOINT_CONNECTING] =
            {
                ON(START) = GO(CONNECTING, NONE),
                ON(CONNECTED) = GO(HANDSHAKE, NONE),
                ON(WELCOME) = GO(CONNECTING, IGNORE),
                ON(LINKING) = GO(CONNECTING, IGNORE),
                ON(LINKED) = GO(CONNECTING, IGNORE),
                ON(ACCEPTED) = GO(CONNECTING, IGNORE),
                ON(DUPLICATE) = GO(CLOSED, CLOSE),
                ON(LOST) = GO(BACKOFF, RETRY),
                ON(REFUSED) = GO(CLOSED, REFUSE),
                ON(TIMER) = GO(BACKOFF, RETRY),
                ON(DRAINED) = GO(CLOSED, CLOSE),
            },
        [ENDPOINT_HANDSHAKE] =
            {
                ON(START) = GO(HANDSHAKE, NONE),
                ON(CONNECTED) = GO(HANDSHAKE, IGNORE),
                ON(WELCOME) = GO(READY, READY),
                ON(LINKING) = GO(LINKING, LINK),
                ON(LINKED) = GO(HANDSHAKE, IGNORE),
                ON(ACCEPTED) = GO(HANDSHAKE, IGNORE),
                ON(DUPLICATE) = GO(CLOSED, CLOSE),
                ON(LOST) = GO(BACKOFF, RETRY),
                ON(REFUSED) = GO(CLOSED, REFUSE),
                ON(TIMER) = GO(BACKOFF, RETRY),
                ON(DRAINED) = GO(CLOSED, CLOSE),
            },
        [ENDPOINT_LINKING] =
            {
                ON(START) = GO(LINKING, NONE),
                ON(CONNECTED) = GO(LINKING, IGNORE),
                ON(WELCOME) = GO(LINKING, IGNORE),
                ON(LINKING) = GO(LINKING, IGNORE),
                ON(LINKED) = GO(READY, READY),
                ON(ACCEPTED) = GO(LINKING, IGNORE),
                ON(DUPLICATE) = GO(CLOSED, CLOSE),
                ON(LOST) = GO(BACKOFF, RETRY_TCP),
                ON(REFUSED) = GO(CLOSED, REFUSE),
                ON(TIMER) = GO(BACKOFF, RETRY_TCP),
                ON(DRAINED) = GO(CLOSED, CLOSE),
            },
        [ENDPOINT_READY] =
            {
                ON(START) = GO(READY, NONE),
                ON(CONNECTED) = GO(READY, IGNORE),
                ON(WELCOME) = GO(READY, IGNORE),
                ON(LINKING) = GO(READY, IGNORE),
                ON(LINKED) = GO(READY, IGNORE),
                ON(ACCEPTED) = GO(READY, IGNORE),
                ON(DUPLICATE) = GO(DRAINING, DRAIN),
                ON(LOST) = GO(BACKOFF, LOSE),
                ON(REFUSED) = GO(READY, IGNORE),
                ON(TIMER) = GO(READY, LINGER),
                ON(DRAINED) = GO(CLOSED, CLOSE),
            },
        [ENDPOINT_DRAINING] =
            {
                ON(START) = GO(DRAINING, NONE),
                ON(CONNECTED) = GO(DRAINING, IGNORE),
                ON(WELCOME) = GO(DRAINING, IGNORE),
                ON(LINKING) = GO(DRAINING, IGNORE),
                ON(LINKED) = GO(DRAINING, IGNORE),
                ON(ACCEPTED) = GO(DRAINING, IGNORE),
                ON(DUPLICATE) = GO(DRAINING, NONE),
                ON(LOST) = GO(BACKOFF, LOSE),
                ON(REFUSED) = GO(DRAINING, IGNORE),
                ON(TIMER) = GO(DRAINING, IGNORE),
                ON(DRAINED) = GO(CLOSED, CLOSE),
            },
        [ENDPOINT_BACKOFF] =
            {
                ON(START) = GO(BACKOFF, NONE),
                ON(CONNECTED) = GO(BACKOFF, IGNORE),
                ON(WELCOME) = GO(BACKOFF, IGNORE),
                ON(LINKING) = GO(BACKOFF, IGNORE),
                ON(LINKED) = GO(BACKOFF, IGNORE),
                ON(ACCEPTED) = GO(BACKOFF, IGNORE),
                ON(DUPLICATE) = GO(CLOSED, CLOSE),
                ON(LOST) = GO(BACKOFF, IGNORE),
                ON(REFUSED) = GO(CLOSED, REFUSE),
                ON(TIMER) = GO(CONNECTING, CONNECT),
                ON(DRAINED) = GO(CLOSED, CLOSE),
            },
        [ENDPOINT_CLOSED] =
            {
                ON(START) = GO(CLOSED, IGNORE),
                ON(CONNECTED) = GO(CLOSED, IGNORE),
                ON(WELCOME) = GO(CLOSED, IGNORE),
                ON(LINKING) = GO(CLOSED, IGNORE),
                ON(LINKED) = GO(CLOSED, IGNORE),
                ON(ACCEPTED) = GO(CLOSED, IGNORE),
                ON(DUPLICATE) = GO(CLOSED, IGNORE),
                ON(LOST) = GO(CLOSED, IGNORE),
                ON(REFUSED) = GO(CLOSED, IGNORE),
                ON(TIMER) = GO(CLOSED, IGNORE),
                ON(DRAINED) = GO(CLOSED, IGNORE),
            },
};
