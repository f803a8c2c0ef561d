/* Steps of a job whose time is taken: no sleep and no system call that the library does not make
 * itself.  Every loop ends by a deadline with a message. */
#ifndef TESUP_TESTS_BENCH_WORK_H
#define TESUP_TESTS_BENCH_WORK_H

#include "tests/bench/bench.h"

/* A deadline that is looked at now and then only. */
struct patience {
    uint64_t until;
    unsigned turns;
    const char *what;
};
struct patience patience_begin(const char *what);
void patience_turn(struct patience *patience);

/* Submits one request and takes its completion; spins, or sleeps in tesup_wait. */
void work_once(struct tesup_channel *channel, const struct tesup_request *request, bool sleep);
/* Takes the next notification without releasing it. */
void work_take(struct tesup_channel *channel, struct tesup_notification *note, bool sleep);

/* `count` copies of `request` in batches of `batch`, at most `window` in flight; takes completions
 * as they come, and notifications of its own mailbox.  Returns how many of these it took. */
struct flood {
    struct tesup_channel *channel;
    const struct tesup_request *request;
    uint32_t batch, window;
    uint32_t in_flight;
    uint64_t notes;
};
#define FLOOD_BATCH_MAX 64u
/* Submits one batch if the window allows, takes what is there. How many completed. */
uint32_t flood_turn(struct flood *flood, bool submit);
/* Submits until `count` more requests have completed; the time it took, in ns. */
uint64_t flood_run(struct flood *flood, uint64_t count);

#endif
