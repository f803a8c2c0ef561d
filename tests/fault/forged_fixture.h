/* Who must not notice a forgery: two supervisors with a load between them, and the worker of the
 * one that is attacked. */
#ifndef TESUP_TESTS_FAULT_FORGED_FIXTURE_H
#define TESUP_TESTS_FAULT_FORGED_FIXTURE_H

#include "tests/harness/test.h"

#include "tests/harness/load.h"
#include "tests/harness/status.h"

static struct daemon left, right;
static const struct daemon *attacked;
static struct load *load;
static pid_t worker;

static inline int forged_group_setup(void **state, const struct daemon *attack,
                                     const char *right_options)
{
    if (daemon_group_setup(state) < 0)
        return -1;
    daemon_start(&left, "left", "--fabric tcp");
    daemon_start(&right, "right", right_options);
    load = load_start(&left, &right, 1, PARTY_MEMORY_ALLOC);
    attacked = attack;
    worker = status_worker_ready(attacked, 0);
    return 0;
}

static inline int group_teardown(void **state)
{
    load_stop_clean(load);
    daemon_stop(&left);
    daemon_stop(&right);
    return daemon_group_teardown(state);
}

/* What is true after each forgery. */
static inline void others_expect_unharmed(void)
{
    load_expect_progress(load);
    assert_int_equal(status_worker_ready(attacked, 0), worker);
}

#endif
