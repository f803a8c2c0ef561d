/* One timed round: `depth` iterations in flight at once, each a batch of blocks.
 *
 * What an iteration's time covers: from just before its tesup_submit() to the moment when the
 * target's job has taken the last of its bound notifications out of its ring; for READ the later of
 * that and the initiator's last completion.  Without notifications it ends at the last completion.
 * Both jobs on one clock: the target's own time stamp ends it.  On two hosts: the arrival of the
 * acknowledging notification, which the target sends at once, so the way back is included.
 * Filling and checking the blocks happens before and after, outside every timed interval.
 */
#ifndef TESUP_BENCH_ROUND_H
#define TESUP_BENCH_ROUND_H

#include "client/bench/blocks.h"
#include "client/bench/party.h"

struct round {
    struct party *party;
    const struct message_case *shape;
    const struct blocks *blocks; /* of the initiator */
    tesup_region_t region;       /* of the target */
    uint64_t first_iteration;
    uint32_t slots; /* iterations in this round */
    uint32_t completions_missing;
    uint32_t receipts_missing;
    uint32_t in_flight;
    uint32_t again_count; /* blocks that were refused for lack of room and go once more */
    uint32_t again[OPTIONS_BLOCKS_MAX];
    bool reported;
    bool verified; /* by the target; its fault below */
    struct pattern_fault fault;
    uint64_t verified_on_gpu; /* by the target: blocks of the case so far */
    uint64_t submit_ns[OPTIONS_BLOCKS_MAX];
    uint64_t complete_ns[OPTIONS_BLOCKS_MAX]; /* last completion of each */
    uint64_t receive_ns[OPTIONS_BLOCKS_MAX];  /* on the clock that counts */
};

/* Runs the round until the target reported. party, shape, blocks, region, first_iteration and
 * slots are set by the caller. */
int round_run(struct round *round);
/* Time of one iteration, and from the first submit to the last end of the round. */
uint64_t round_time_ns(const struct round *round, uint32_t slot);
uint64_t round_busy_ns(const struct round *round);

#endif
