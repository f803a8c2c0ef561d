/* What the two jobs of a benchmark say to each other: the messages of tesup notifications.
 *
 *   initiator                         target
 *   HELLO ------------------------->        which clock, which version
 *         <------------------------- WELCOME
 *   CASE -------------------------->        op, block, batch, depth, ...: fresh memory
 *         <------------------------- READY   its handle; for READ the first round is filled in
 *   BLOCK, bound to each transfer ->        of one round: `depth` iterations of `batch` blocks
 *   CHECK ------------------------->        instead of BLOCK where transfers carry none
 *         <------------------------- RECEIPT each iteration, where the clocks differ
 *         <------------------------- REPORT  round checked (WRITE) or the next filled in (READ)
 *   BYE --------------------------->
 *   FAILED goes either way, with a sentence, and ends both.
 */
#ifndef TESUP_BENCH_MESSAGES_H
#define TESUP_BENCH_MESSAGES_H

#include <assert.h>
#include <stdint.h>

#include "client/bench/pattern.h"

/* Both hosts must agree; a foreign byte order shows as an unknown magic. */
#define MESSAGE_MAGIC    UINT32_C(0x32424254) /* "TBB2" */
#define MESSAGE_NAME     "tesup-bench"
#define MESSAGE_TEXT_MAX 640u
#define MESSAGE_SIZE_MAX 16384u

enum message_kind {
    MESSAGE_HELLO = 1,
    MESSAGE_WELCOME,
    MESSAGE_CASE,
    MESSAGE_READY,
    MESSAGE_BLOCK,
    MESSAGE_CHECK,
    MESSAGE_RECEIPT,
    MESSAGE_REPORT,
    MESSAGE_BYE,
    MESSAGE_FAILED,
    MESSAGE_KIND_COUNT
};

struct message_head {
    uint32_t magic;
    uint32_t kind; /* enum message_kind */
};

/* HELLO and WELCOME: two equal clocks are one clock. */
struct message_clock {
    struct message_head head;
    char boot_id[40];
    char time_namespace[40];
};

struct message_case {
    struct message_head head;
    uint64_t block_bytes;
    uint64_t iterations; /* warm-up included */
    uint32_t op;         /* enum bench_op */
    uint32_t batch;
    uint32_t depth;
    uint32_t notify;   /* enum bench_notify */
    uint32_t memory;   /* enum bench_memory */
    uint32_t idle;     /* enum bench_idle */
    uint32_t receipts; /* 1: send RECEIPT for each iteration */
    uint32_t gpu;      /* index of the target's, for memory of a GPU */
};

struct message_ready {
    struct message_head head;
    uint32_t region;
    uint32_t pad;
};

struct message_block {
    struct message_head head;
    uint64_t iteration;
    uint32_t block; /* of the batch */
    uint32_t pad;
};

/* CHECK and RECEIPT: the iteration meant; for CHECK the first of the round. */
struct message_iteration {
    struct message_head head;
    uint64_t iteration;
};

struct message_report {
    struct message_head head;
    uint64_t first_iteration; /* of the round */
    uint32_t iterations;      /* how many received_ns follow */
    uint32_t verified;        /* 0: fault says where */
    struct pattern_fault fault;
    uint64_t verified_on_gpu; /* blocks of the case so far */
    uint64_t
        received_ns[]; /* target's CLOCK_MONOTONIC when it held the last notification of each */
};
static_assert(sizeof(struct message_report) + 1024 * 8 <= MESSAGE_SIZE_MAX, "a report fits");

struct message_failed {
    struct message_head head;
    char text[MESSAGE_TEXT_MAX];
};

#endif
