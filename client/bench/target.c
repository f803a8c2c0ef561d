#include "client/bench/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/blocks.h"
#include "client/bench/clock.h"
#include "client/bench/gpu.h"
#include "client/bench/party.h"

struct target {
    struct party party;
    struct message_case shape; /* block_bytes 0: no case yet */
    struct blocks blocks;
    uint64_t first_iteration; /* of the round that is awaited */
    uint32_t slots;           /* iterations of that round */
    uint32_t blocks_missing;  /* notifications still to come in it */
    uint32_t slot_missing[OPTIONS_BLOCKS_MAX];
    uint64_t received_ns[OPTIONS_BLOCKS_MAX];
};

static void round_begin(struct target *target, uint64_t first_iteration)
{
    const struct message_case *shape = &target->shape;
    uint64_t left = shape->iterations - first_iteration;

    target->first_iteration = first_iteration;
    target->slots = left < shape->depth ? (uint32_t)left : shape->depth;
    target->blocks_missing = target->slots * shape->batch;
    for (uint32_t slot = 0; slot < target->slots; slot++)
        target->slot_missing[slot] = shape->batch;
    if (shape->op == BENCH_OP_READ)
        blocks_fill(&target->blocks, first_iteration, target->slots);
}

static int case_begin(struct target *target, const struct message_case *shape)
{
    struct party *party = &target->party;
    struct message_ready ready = {.pad = 0};

    if (shape->block_bytes == 0 || shape->block_bytes > SIZES_BLOCK_MAX || shape->batch == 0 ||
        shape->depth == 0 || shape->iterations == 0 || shape->op >= BENCH_OP_COUNT ||
        shape->batch > OPTIONS_BLOCKS_MAX || shape->depth > OPTIONS_BLOCKS_MAX / shape->batch)
        return party_fail(party, "%s asks for a case that no tesup bench would", party->peer);
    if (blocks_destroy(&target->blocks, party))
        return -1;
    target->shape = *shape;
    party->idle = (enum bench_idle)shape->idle;
    if (blocks_create(&target->blocks, party, shape,
                      shape->op == BENCH_OP_READ ? TESUP_ACCESS_REMOTE_READ
                                                 : TESUP_ACCESS_REMOTE_WRITE,
                      shape->gpu))
        return -1;
    /* WRITE: touch the pages now, not in the first iteration. READ: the fill does. */
    if (shape->op == BENCH_OP_WRITE)
        blocks_clear(&target->blocks);
    round_begin(target, 0);
    ready.region = target->blocks.region;
    return party_message_send(party, &ready.head, sizeof(ready), MESSAGE_READY);
}

static int report_send(struct target *target)
{
    union {
        struct message_report report;
        uint8_t bytes[MESSAGE_SIZE_MAX];
    } message;
    size_t times = target->slots * sizeof(target->received_ns[0]);
    uint64_t first = target->first_iteration;

    memset(&message.report, 0, sizeof(message.report));
    message.report.first_iteration = first;
    message.report.iterations = target->slots;
    message.report.verified =
        target->shape.op == BENCH_OP_READ ||
        blocks_check(&target->blocks, first, target->slots, &message.report.fault);
    message.report.verified_on_gpu = target->blocks.verified_on_gpu;
    memcpy(message.bytes + sizeof(message.report), target->received_ns, times);
    /* For READ the bound notifications say that every block was read: it may be overwritten. */
    if (first + target->slots < target->shape.iterations)
        round_begin(target, first + target->slots);
    return party_message_send(&target->party, &message.report.head, sizeof(message.report) + times,
                              MESSAGE_REPORT);
}

static int block_take(struct target *target, const struct party_event *event)
{
    const struct message_block *block = (const struct message_block *)event->message;
    const struct tesup_notification *note = &event->notification;
    struct party *party = &target->party;
    uint64_t slot = block->iteration - target->first_iteration;

    if (slot >= target->slots || block->block >= target->shape.batch ||
        target->slot_missing[slot] == 0)
        return party_fail(party,
                          "the notification of block %u of iteration %llu came at the wrong "
                          "time or twice",
                          block->block, (unsigned long long)block->iteration);
    if (note->status != TESUP_OK || note->bytes != target->shape.block_bytes)
        return party_fail(party, "block %u of iteration %llu: %s, %llu bytes of %llu", block->block,
                          (unsigned long long)block->iteration, tesup_strerror(note->status),
                          (unsigned long long)note->bytes,
                          (unsigned long long)target->shape.block_bytes);
    target->blocks_missing--;
    if (--target->slot_missing[slot] > 0)
        return 0;
    target->received_ns[slot] = event->at_ns;
    if (target->shape.receipts) {
        struct message_iteration receipt = {.iteration = block->iteration};
        if (party_message_send(party, &receipt.head, sizeof(receipt), MESSAGE_RECEIPT))
            return -1;
    }
    return target->blocks_missing == 0 ? report_send(target) : 0;
}

static int check_take(struct target *target, const struct message_iteration *check)
{
    if (check->iteration != target->first_iteration)
        return party_fail(&target->party, "asked to check iteration %llu instead of %llu",
                          (unsigned long long)check->iteration,
                          (unsigned long long)target->first_iteration);
    memset(target->received_ns, 0, sizeof(target->received_ns));
    return report_send(target);
}

/* 1: the initiator is done; 0: go on; -1: failed. */
static int message_take(struct target *target, const struct party_event *event)
{
    bool running = target->shape.block_bytes != 0;
    bool bound = target->shape.notify != BENCH_NOTIFY_NONE;

    if (event->message->kind == MESSAGE_CASE)
        return case_begin(target, (const struct message_case *)event->message);
    if (event->message->kind == MESSAGE_BYE)
        return 1;
    if (running && bound && event->message->kind == MESSAGE_BLOCK)
        return block_take(target, event);
    if (running && !bound && event->message->kind == MESSAGE_CHECK)
        return check_take(target, (const struct message_iteration *)event->message);
    return party_fail(&target->party, "%s sent a message of kind %u out of turn",
                      target->party.peer, event->message->kind);
}

static int hello_wait(struct target *target)
{
    struct message_clock clock;
    struct party_event event;
    char from[PARTY_NAME_MAX];

    if (party_message_wait(&target->party, MESSAGE_HELLO, PARTY_FOREVER, &event))
        return -1;
    snprintf(from, sizeof(from), "%.*s", (int)event.notification.from_len, event.notification.from);
    if (party_peer_open(&target->party, from))
        return -1;
    clock_identify(&clock);
    return party_message_send(&target->party, &clock.head, sizeof(clock), MESSAGE_WELCOME);
}

/* The initiator sets the pace (it may check 64 MiB blocks for long), and its death is an event. */
static int target_serve(struct target *target)
{
    struct party_event event;
    int taken = 0;

    if (hello_wait(target))
        return -1;
    while (taken == 0) {
        if (party_event_wait(&target->party, PARTY_FOREVER, &event))
            return -1;
        if (event.kind != PARTY_MESSAGE)
            return party_fail(&target->party, "a completion came that nothing was submitted for");
        taken = message_take(target, &event);
    }
    return taken < 0 ? -1 : 0;
}

int target_run(const struct bench_options *options)
{
    struct target *target = calloc(1, sizeof(*target));
    int result = -1;

    if (!target) {
        fprintf(stderr, "tesup bench target: out of memory\n");
        return EXIT_FAILURE;
    }
    if (party_open(&target->party, options->socket, options->segment, BENCH_IDLE_SLEEP))
        goto out;
    printf("target %s\n", tesup_segment_name(target->party.session));
    fflush(stdout);
    result = target_serve(target);
    if (result == 0)
        result = blocks_destroy(&target->blocks, &target->party);
    else
        party_failure_send(&target->party);

out:
    if (result)
        fprintf(stderr, "tesup bench target: %s\n", target->party.error);
    party_close(&target->party);
    gpu_close();
    free(target);
    return result ? EXIT_FAILURE : EXIT_SUCCESS;
}
