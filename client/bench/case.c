#include "client/bench/case.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/bench/blocks.h"
#include "client/bench/clock.h"
#include "client/bench/round.h"

#define CASE_ITERS        1000u
#define CASE_ITERS_LEAST  16u
#define CASE_WARMUP       100u
#define CASE_BYTES_ENOUGH (UINT64_C(1) << 30)

struct case_plan case_iterations(const struct bench_options *options, uint64_t block_bytes)
{
    uint64_t enough = CASE_BYTES_ENOUGH / (block_bytes * options->batch);
    struct case_plan plan = {.iters = options->iters, .warmup = options->warmup};

    if (plan.iters == 0) {
        plan.iters = enough < CASE_ITERS ? (uint32_t)enough : CASE_ITERS;
        plan.iters = plan.iters < CASE_ITERS_LEAST ? CASE_ITERS_LEAST : plan.iters;
    }
    if (!options->warmup_given)
        plan.warmup = plan.iters / 10 < CASE_WARMUP ? plan.iters / 10 + 1 : CASE_WARMUP;
    plan.warmup = (plan.warmup + options->depth - 1) / options->depth * options->depth;
    return plan;
}

struct case_run {
    struct party *party;
    const struct bench_options *options;
    struct message_case shape;
    struct case_plan plan;
    struct blocks blocks;
    struct round round;
    uint64_t *times_ns; /* of the timed iterations so far */
    uint32_t timed;
    uint64_t busy_ns;
};

/* Region of the target for this case. */
static int case_announce(struct case_run *run, tesup_region_t *region)
{
    struct party_event event;

    if (party_message_send(run->party, &run->shape.head, sizeof(run->shape), MESSAGE_CASE) ||
        party_message_wait(run->party, MESSAGE_READY, clock_now_ns() + PARTY_REPLY_NS, &event))
        return -1;
    *region = ((const struct message_ready *)event.message)->region;
    return 0;
}

/* Sets the error and returns 1: a row that is not verified. */
static int fault_fail(struct case_run *run, const struct pattern_fault *fault, const char *where)
{
    char counted[64] = "";

    if (fault->wrong != 0)
        snprintf(counted, sizeof(counted), " on its GPU, %llu wrong in the block",
                 (unsigned long long)fault->wrong);
    party_fail(run->party,
               "wrong byte: %s of %llu bytes, iteration %llu, block %u, offset %llu: "
               "0x%02x instead of 0x%02x (found by the %s%s)",
               options_op_name((enum bench_op)run->shape.op),
               (unsigned long long)run->shape.block_bytes, (unsigned long long)fault->iteration,
               fault->block, (unsigned long long)fault->offset, fault->found, fault->expected,
               where, counted);
    return 1;
}

static void case_corrupt(struct case_run *run)
{
    if (run->options->corrupt)
        blocks_corrupt(&run->blocks, run->round.first_iteration, run->round.slots,
                       run->options->corrupt_iteration, run->options->corrupt_offset);
}

/* Fill, move, check: 0, 1 for a wrong byte, -1 for a failure. */
static int round_verify(struct case_run *run)
{
    struct round *round = &run->round;
    bool reads = run->shape.op == BENCH_OP_READ;
    struct pattern_fault fault;

    if (!reads) {
        blocks_fill(&run->blocks, round->first_iteration, round->slots);
        case_corrupt(run);
    }
    if (round_run(round))
        return -1;
    if (reads)
        case_corrupt(run);
    if (!round->verified)
        return fault_fail(run, &round->fault, "target");
    if (reads && !blocks_check(&run->blocks, round->first_iteration, round->slots, &fault))
        return fault_fail(run, &fault, "initiator");
    return 0;
}

static void round_account(struct case_run *run)
{
    if (run->round.first_iteration < run->plan.warmup)
        return;
    for (uint32_t slot = 0; slot < run->round.slots; slot++)
        run->times_ns[run->timed++] = round_time_ns(&run->round, slot);
    run->busy_ns += round_busy_ns(&run->round);
}

static int rounds_run(struct case_run *run, case_progress_fn *progress, void *context)
{
    struct round *round = &run->round;

    while (round->first_iteration < run->shape.iterations) {
        uint64_t left = run->shape.iterations - round->first_iteration;
        round->slots = left < run->shape.depth ? (uint32_t)left : run->shape.depth;
        int failed = round_verify(run);
        if (failed)
            return failed;
        round_account(run);
        round->first_iteration += round->slots;
        progress(context, round->first_iteration, run->shape.iterations);
    }
    return 0;
}

static struct message_case case_shape(const struct bench_options *options, enum bench_op op,
                                      uint64_t block_bytes, bool receipts,
                                      const struct case_plan *plan)
{
    return (struct message_case){
        .block_bytes = block_bytes,
        .iterations = (uint64_t)plan->warmup + plan->iters,
        .op = op,
        .batch = options->batch,
        .depth = options->depth,
        .notify = options->notify,
        .memory = options->memory,
        .idle = options->idle,
        .receipts = receipts && options->notify != BENCH_NOTIFY_NONE,
        .gpu = options->peer_gpu,
    };
}

static int case_execute(struct case_run *run, case_progress_fn *progress, void *context,
                        struct result *result)
{
    struct round *round = &run->round;

    if (blocks_create(&run->blocks, run->party, &run->shape, TESUP_ACCESS_LOCAL, run->options->gpu))
        return -1;
    round->party = run->party;
    round->shape = &run->shape;
    round->blocks = &run->blocks;
    if (case_announce(run, &round->region))
        return -1;
    int failed = rounds_run(run, progress, context);
    uint64_t bytes = run->shape.block_bytes * run->shape.batch * run->timed;
    result_summarise(result, run->times_ns, run->timed, bytes, run->busy_ns);
    result->verified = failed == 0;
    /* Who received the blocks checked them: the other number is 0. */
    result->verified_on_gpu = round->verified_on_gpu + run->blocks.verified_on_gpu;
    return failed ? failed : blocks_destroy(&run->blocks, run->party);
}

int case_run(struct party *party, const struct bench_options *options, enum bench_op op,
             uint64_t block_bytes, bool receipts, case_progress_fn *progress, void *context,
             struct result *result)
{
    struct case_run *run = calloc(1, sizeof(*run));

    if (!run)
        return party_fail(party, "out of memory");
    run->party = party;
    run->options = options;
    run->plan = case_iterations(options, block_bytes);
    run->shape = case_shape(options, op, block_bytes, receipts, &run->plan);
    *result = (struct result){
        .op = op, .notify = options->notify, .block_bytes = block_bytes, .batch = options->batch};
    run->times_ns = calloc(run->plan.iters, sizeof(run->times_ns[0]));
    int failed = run->times_ns ? case_execute(run, progress, context, result)
                               : party_fail(party, "out of memory");
    free(run->times_ns);
    free(run);
    return failed;
}
