/* One row after the other: this library, what lies below it, and what the machine itself needs. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/compat/bench/bench.h"
#include "shm/clock.h"

#define LIMIT_BYTES (UINT64_C(1) << 30) /* that the limits move per row */
#define LIMIT_MIN   20u

static const struct bench_method *const methods[BENCH_WAYS] = {&bench_abi, &bench_direct,
                                                               &bench_tcp};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct bench_times times_of(double *us, uint32_t count)
{
    struct bench_times times = {0};

    for (uint32_t i = 0; i < count; i++)
        times.avg_us += us[i] / count;
    qsort(us, count, sizeof(*us), by_size);
    times.p50_us = us[count / 2];
    times.p99_us = us[count - 1 - count / 100];
    return times;
}

/* Until the block is moved and the target holds notification number `nth`. */
static int measure_one(struct bench_side *side, const struct bench_method *method, enum bench_op op,
                       uint64_t length, uint64_t nth, double *us)
{
    struct bench_spin spin = {0};
    uint64_t begin = clock_now();

    if (method->move(side, op, length) < 0)
        return -1;
    while (atomic_observe(&side->board->received) < nth) /* pairs with the target's publish */
        if (!bench_spin(&spin))
            return bench_fail("the target did not get a notification");
    *us = (double)(clock_now() - begin) / (double)CLOCK_NS_PER_US;
    return 0;
}

static int measure_way(struct bench_side *side, struct bench_target *target, enum bench_way way,
                       const struct bench_row *row, uint32_t warmup, uint32_t iterations,
                       struct bench_times *times)
{
    uint32_t count = warmup + iterations;
    double *us = calloc(count, sizeof(*us));
    int rc;

    if (us == NULL)
        return bench_fail("no memory for %u times", count);
    atomic_set(&side->board->received, 0);
    rc = target_receive(target, way, row->length, count);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = measure_one(side, methods[way], row->op, row->length, i + 1, &us[i]);
    if (rc == 0)
        rc = target_received(target);
    if (rc == 0)
        *times = times_of(us + warmup, iterations);
    free(us);
    return rc;
}

static uint32_t limit_count(uint64_t length, uint32_t wanted)
{
    uint64_t count = LIMIT_BYTES / length;

    if (count < LIMIT_MIN)
        count = LIMIT_MIN;
    return count < wanted ? (uint32_t)count : wanted;
}

static void measure_copy(const struct bench_side *side, uint8_t *to, struct bench_row *row)
{
    uint32_t count = limit_count(row->length, side->options->iterations);
    uint64_t begin;

    memcpy(to, side->bytes, row->length);
    begin = clock_now();
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to, side->bytes, row->length);
        __asm__ __volatile__("" : : "r"(to) : "memory");
    }
    row->copy_us = (double)(clock_now() - begin) / (double)CLOCK_NS_PER_US / count;
}

/* What was moved last is compared; each way overwrites what the one before has left. */
static int measure_checked(struct bench_side *side, struct bench_target *target, enum bench_way way,
                           const struct bench_row *row, struct bench_times *times)
{
    const struct bench_options *options = side->options;
    uint64_t seed = row->length + way;
    int rc;

    if (row->op == BENCH_WRITE) {
        bench_fill(side->bytes, row->length, seed);
        rc = target_fill(target, row->length, 0);
    } else {
        bench_fill(side->bytes, row->length, 0);
        rc = target_fill(target, row->length, seed);
    }
    if (rc == 0)
        rc = measure_way(side, target, way, row, options->warmup, options->iterations, times);
    if (rc == 0 && row->op == BENCH_WRITE)
        rc = target_check(target, row->length, seed);
    if (rc == 0 && row->op == BENCH_READ && !bench_filled(side->bytes, row->length, seed))
        rc = bench_fail("a block that was read has wrong bytes");
    return rc;
}

static int measure_row(struct bench_side *side, struct bench_target *target, uint8_t *copy,
                       struct bench_row *row)
{
    uint32_t limit = limit_count(row->length, side->options->iterations);
    int rc = measure_way(side, target, BENCH_TCP, row, limit / 10, limit, &row->tcp);

    measure_copy(side, copy, row);
    if (rc == 0 && side->options->direct)
        rc = measure_checked(side, target, BENCH_DIRECT, row, &row->direct);
    if (rc == 0)
        rc = measure_checked(side, target, BENCH_ABI, row, &row->abi);
    return rc;
}

static int measure_rows(struct bench_side *side, struct bench_target *target, uint8_t *copy,
                        struct bench_row *rows, unsigned *count)
{
    const struct bench_options *options = side->options;

    report_header(options);
    for (unsigned op = BENCH_OPS; op-- > 0;) {
        for (uint64_t length = options->min;
             options->ops[op] && length <= options->max && *count < MEASURE_ROWS_MAX; length *= 2) {
            struct bench_row *row = &rows[(*count)++];

            *row = (struct bench_row){.op = (enum bench_op)op, .length = length};
            if (measure_row(side, target, copy, row) < 0)
                return -1;
            report_row(options, row);
        }
    }
    return 0;
}

int measure_run(struct bench_side *side, struct bench_target *target, struct bench_row *rows,
                unsigned *count)
{
    uint8_t *copy = malloc(side->options->max);
    int rc = 0;

    if (copy == NULL)
        return bench_fail("no memory for a copy");
    memset(side->bytes, 0, side->options->max); /* as clients have it when they register it */
    signal(SIGPIPE, SIG_IGN);                   /* a target that has ended is told in words */
    for (unsigned way = 0; rc == 0 && way < BENCH_WAYS; way++)
        if (way != BENCH_DIRECT || side->options->direct)
            rc = methods[way]->begin(side);
    if (rc == 0)
        rc = measure_rows(side, target, copy, rows, count);
    for (unsigned way = 0; way < BENCH_WAYS; way++)
        if (way != BENCH_DIRECT || side->options->direct)
            methods[way]->end();
    free(copy);
    return rc;
}
