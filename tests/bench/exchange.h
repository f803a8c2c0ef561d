/* Two supervisors and a job at each: WRITE of 4 KiB with a notification over tcp, answered by a
 * notification of 64 B.
 *
 * One exchange wakes four times from an eventfd: worker, job, worker, job; and crosses TCP twice.
 */
#ifndef TESUP_TESTS_BENCH_EXCHANGE_H
#define TESUP_TESTS_BENCH_EXCHANGE_H

#include "tests/bench/target.h"

#define EXCHANGE_BLOCK 4096u

struct stage {
    struct daemon left, right;
    pid_t left_worker, right_worker;
    struct party party; /* of the left job, which is this process */
    struct party_region region;
    struct target *target;
    struct tesup_request write;
    bool sleep;
};

/* Places of the left and the right job, of the left and the right worker. */
void stage_open(struct stage *stage, const char *options, bool sleep, const unsigned at[4]);
void stage_close(struct stage *stage);
/* One exchange: its whole time, and that until the target held the notification, in ns. */
void stage_exchange(struct stage *stage, uint64_t *whole, uint64_t *one_way);

#endif
