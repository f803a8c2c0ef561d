/* compat_bench: two processes, one buffer each, and a way to move a block with a notification.
 *
 * The initiator is the process that was started; the target is its child, which does what commands
 * on a pipe say.  The board is memory that both share: what they tell each other, and how many
 * notifications the target has received.  It carries no block.
 */
#ifndef TESUP_COMPAT_BENCH_BENCH_H
#define TESUP_COMPAT_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/atomics.h"

#define BENCH_NAME_MAX 320
#define BENCH_WAIT_MS  20000u /* for one iteration */
#define BENCH_SPIN     8u     /* looks before the CPU is given away once */

enum bench_op { BENCH_READ, BENCH_WRITE, BENCH_OPS };
enum bench_way { BENCH_ABI, BENCH_DIRECT, BENCH_TCP, BENCH_WAYS };

struct bench_options {
    uint64_t min, max; /* bytes, powers of two times `min` */
    uint32_t warmup, iterations;
    bool ops[BENCH_OPS];
    bool direct;            /* the same over libtesup */
    const char *json;       /* file, "-" is standard output, NULL: none */
    const char *host;       /* where engines listen */
    const char *sockets[2]; /* supervisors of initiator and target; NULL: the environment's */
};

struct bench_board {
    _Atomic uint64_t received; /* notifications of this round */
    char name[BENCH_WAYS][BENCH_NAME_MAX];
    uint64_t address; /* of the target's buffer */
};

struct bench_side {
    const struct bench_options *options;
    struct bench_board *board;
    uint8_t *bytes; /* malloc'ed, options->max long */
    bool target;
};

/* One way to move blocks. Functions return 0, or -1 after a sentence on standard error. */
struct bench_method {
    const char *label;
    int (*begin)(struct bench_side *side); /* the target's first */
    /* Initiator: a block there or back, with a notification behind it, until it is done here. */
    int (*move)(struct bench_side *side, enum bench_op op, uint64_t length);
    /* Target: takes what has arrived; how many notifications, or -1. */
    int (*take)(struct bench_side *side, uint64_t length);
    void (*end)(void);
};
extern const struct bench_method bench_abi, bench_direct, bench_tcp;

/* Says what failed; -1. */
int bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Looks of a loop that found nothing. False when it is too late. */
struct bench_spin {
    uint64_t deadline;
    uint32_t looks;
};
bool bench_spin(struct bench_spin *spin);

uint8_t bench_byte(uint64_t at, uint64_t seed);
void bench_fill(uint8_t *bytes, uint64_t length, uint64_t seed);
bool bench_filled(const uint8_t *bytes, uint64_t length, uint64_t seed);

/* ---- target.c ---- */

struct bench_target {
    int commands, answers; /* pipes */
    int pid;
};
/* Starts the child, which sets up each way that `options` want. */
int target_start(struct bench_target *target, const struct bench_side *side);
/* It begins to receive `count` notifications of blocks of `length` bytes. */
int target_receive(struct bench_target *target, enum bench_way way, uint64_t length,
                   uint64_t count);
/* It has received them all. */
int target_received(struct bench_target *target);
int target_fill(struct bench_target *target, uint64_t length, uint64_t seed);
int target_check(struct bench_target *target, uint64_t length, uint64_t seed);
int target_stop(struct bench_target *target);

/* ---- measure.c, report.c ---- */

struct bench_times {
    double avg_us, p50_us, p99_us;
};

struct bench_row {
    enum bench_op op;
    uint64_t length;
    struct bench_times abi, direct, tcp;
    double copy_us; /* memcpy of the block */
};

int measure_run(struct bench_side *side, struct bench_target *target, struct bench_row *rows,
                unsigned *count);
#define MEASURE_ROWS_MAX 128u

void report_header(const struct bench_options *options);
void report_row(const struct bench_options *options, const struct bench_row *row);
int report_json(const struct bench_options *options, const struct bench_row *rows, unsigned count);

#endif
