/* The life of a worker: every cell of the table against what operators were promised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

#include "supervisor/worker/fsm.h"

struct cell {
    enum worker_state from;
    enum worker_event event;
    enum worker_state to;
    enum worker_action action;
};

/* The cells in which something happens. All others leave the state and do nothing. */
static const struct cell moving[] = {
    {WORKER_STATE_DOWN, WORKER_EVENT_START, WORKER_STATE_STARTING, WORKER_ACTION_SPAWN},
    {WORKER_STATE_DOWN, WORKER_EVENT_DRAIN, WORKER_STATE_DOWN, WORKER_ACTION_GONE},
    {WORKER_STATE_STARTING, WORKER_EVENT_READY, WORKER_STATE_READY, WORKER_ACTION_SERVE},
    {WORKER_STATE_STARTING, WORKER_EVENT_EXIT_HEALTHY, WORKER_STATE_STARTING, WORKER_ACTION_SPAWN},
    {WORKER_STATE_STARTING, WORKER_EVENT_EXIT_EARLY, WORKER_STATE_BACKOFF, WORKER_ACTION_WAIT},
    {WORKER_STATE_STARTING, WORKER_EVENT_TOO_MANY, WORKER_STATE_FAILED, WORKER_ACTION_GIVE_UP},
    {WORKER_STATE_STARTING, WORKER_EVENT_TIMER, WORKER_STATE_STARTING, WORKER_ACTION_KILL},
    {WORKER_STATE_STARTING, WORKER_EVENT_DRAIN, WORKER_STATE_DRAINING, WORKER_ACTION_DRAIN},
    {WORKER_STATE_STARTING, WORKER_EVENT_START_FAILED, WORKER_STATE_BACKOFF, WORKER_ACTION_WAIT},
    {WORKER_STATE_READY, WORKER_EVENT_EXIT_HEALTHY, WORKER_STATE_STARTING, WORKER_ACTION_SPAWN},
    {WORKER_STATE_READY, WORKER_EVENT_EXIT_EARLY, WORKER_STATE_BACKOFF, WORKER_ACTION_WAIT},
    {WORKER_STATE_READY, WORKER_EVENT_TOO_MANY, WORKER_STATE_FAILED, WORKER_ACTION_GIVE_UP},
    {WORKER_STATE_READY, WORKER_EVENT_DRAIN, WORKER_STATE_DRAINING, WORKER_ACTION_DRAIN},
    {WORKER_STATE_BACKOFF, WORKER_EVENT_TOO_MANY, WORKER_STATE_FAILED, WORKER_ACTION_GIVE_UP},
    {WORKER_STATE_BACKOFF, WORKER_EVENT_TIMER, WORKER_STATE_STARTING, WORKER_ACTION_SPAWN},
    {WORKER_STATE_BACKOFF, WORKER_EVENT_DRAIN, WORKER_STATE_DOWN, WORKER_ACTION_GONE},
    {WORKER_STATE_FAILED, WORKER_EVENT_DRAIN, WORKER_STATE_DOWN, WORKER_ACTION_GONE},
    {WORKER_STATE_DRAINING, WORKER_EVENT_EXIT_HEALTHY, WORKER_STATE_DOWN, WORKER_ACTION_GONE},
    {WORKER_STATE_DRAINING, WORKER_EVENT_EXIT_EARLY, WORKER_STATE_DOWN, WORKER_ACTION_GONE},
    {WORKER_STATE_DRAINING, WORKER_EVENT_TOO_MANY, WORKER_STATE_DOWN, WORKER_ACTION_GONE},
    {WORKER_STATE_DRAINING, WORKER_EVENT_TIMER, WORKER_STATE_DRAINING, WORKER_ACTION_KILL},
    {WORKER_STATE_DRAINING, WORKER_EVENT_DRAIN, WORKER_STATE_DRAINING, WORKER_ACTION_KILL},
    {WORKER_STATE_DRAINING, WORKER_EVENT_START_FAILED, WORKER_STATE_DOWN, WORKER_ACTION_GONE},
};

static struct cell cell_expected(enum worker_state from, enum worker_event event)
{
    for (size_t i = 0; i < sizeof(moving) / sizeof(moving[0]); i++)
        if (moving[i].from == from && moving[i].event == event)
            return moving[i];
    return (struct cell){from, event, from, WORKER_ACTION_NONE};
}

static void every_cell_is_as_promised(void **state)
{
    (void)state;
    for (int from = 0; from < WORKER_STATE_COUNT; from++)
        for (int event = 0; event < WORKER_EVENT_COUNT; event++) {
            struct cell want = cell_expected((enum worker_state)from, (enum worker_event)event);
            struct worker_step step =
                worker_fsm_step((enum worker_state)from, (enum worker_event)event);

            if (step.next != want.to || step.action != want.action)
                fail_msg("%s, event %d: goes to %s with action %d, not to %s with %d",
                         worker_state_name((uint64_t)from), event,
                         worker_state_name((uint64_t)step.next), (int)step.action,
                         worker_state_name((uint64_t)want.to), (int)want.action);
        }
}

/* A process is only ever started where none is. */
static void spawn_needs_no_process(void **state)
{
    (void)state;
    for (int from = 0; from < WORKER_STATE_COUNT; from++)
        for (int event = 0; event < WORKER_EVENT_COUNT; event++) {
            struct worker_step step =
                worker_fsm_step((enum worker_state)from, (enum worker_event)event);
            bool exited = event == WORKER_EVENT_EXIT_HEALTHY || event == WORKER_EVENT_EXIT_EARLY;
            bool none = from == WORKER_STATE_DOWN || from == WORKER_STATE_BACKOFF;

            if (step.action == WORKER_ACTION_SPAWN)
                assert_true(exited || none);
        }
}

/* A drain ends in DOWN by each way out, and nothing starts again on the way. */
static void drain_always_ends(void **state)
{
    static const enum worker_event ways_out[] = {WORKER_EVENT_EXIT_HEALTHY, WORKER_EVENT_EXIT_EARLY,
                                                 WORKER_EVENT_TOO_MANY};

    (void)state;
    for (int from = 0; from < WORKER_STATE_COUNT; from++) {
        struct worker_step step = worker_fsm_step((enum worker_state)from, WORKER_EVENT_DRAIN);

        assert_true(step.next == WORKER_STATE_DOWN || step.next == WORKER_STATE_DRAINING);
    }
    for (size_t i = 0; i < sizeof(ways_out) / sizeof(ways_out[0]); i++)
        assert_int_equal(worker_fsm_step(WORKER_STATE_DRAINING, ways_out[i]).next,
                         WORKER_STATE_DOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_is_as_promised),
        cmocka_unit_test(spawn_needs_no_process),
        cmocka_unit_test(drain_always_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
