/* Two workers with a device each, jobs on both, and a verbs link between them. */
#ifndef TESUP_TESTS_UNIT_WORKER_FABRIC_VERBS_FIXTURE_H
#define TESUP_TESTS_UNIT_WORKER_FABRIC_VERBS_FIXTURE_H

#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/pair.h"
#include "worker/fabric/verbs/link.h"

static struct pair pair;
static struct job_channel *const channel = &pair.user.main;

static inline int setup(void **state)
{
    (void)state;
    pair_begin(&pair, PAIR_VERBS);
    return 0;
}

/* The test starts it. */
static inline int setup_prepared(void **state)
{
    (void)state;
    pair_prepare(&pair, PAIR_VERBS);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    pair_end(&pair);
    return 0;
}

static inline struct verbs_nic *nic_of(struct host *host)
{
    return host->worker.verbs;
}

static inline struct verbs_link *user_link(void)
{
    return verbs_of(pair.link.a->link);
}

static inline struct verbs_link *owner_link(void)
{
    return verbs_of(pair.link.b->link);
}

static inline uint32_t qp_number(const struct verbs_qp *qp)
{
    return qp->qp->qp_num;
}

static inline uint64_t move_submit(enum sqe_op op, uint64_t offset, uint64_t length)
{
    const struct sqe sqe = pair_move(op, offset, length);

    return job_submit(channel, &sqe, NULL);
}

static inline int move(enum sqe_op op, uint64_t offset, uint64_t length)
{
    return job_completion(channel, move_submit(op, offset, length)).status;
}

static inline uint64_t notify_submit(const void *msg, uint32_t size)
{
    const struct sqe sqe = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(0)};
    const struct job_note note = {.msg = msg, .msg_len = size};

    return job_submit(channel, &sqe, &note);
}

/* An endpoint that nobody wants goes with its link. */
static inline bool has_links(struct host *host)
{
    return !list_empty(&nic_of(host)->links);
}

/* Did this worker say a sentence with `part` in it? */
static inline bool host_said(const struct host *host, const char *part)
{
    const struct counters_error *error = host->worker.block->error;

    for (unsigned i = 0; i < COUNTERS_ERRORS; i++)
        if (strstr(error[i].text, part) != NULL)
            return true;
    return false;
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_PREPARED(name) cmocka_unit_test_setup_teardown(name, setup_prepared, teardown)

#endif
