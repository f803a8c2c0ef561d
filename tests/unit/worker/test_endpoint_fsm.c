/* Every cell of the endpoint's table: nothing leaves CLOSED, nothing is undefined, late words are
 * ignored, and each state that waits has a way out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/endpoint_fsm.h"

static const struct endpoint_step *step(enum endpoint_state state, enum endpoint_event event)
{
    return &endpoint_steps[state][event];
}

static void test_every_cell_is_written(void **state)
{
    (void)state;
    for (int from = 0; from < ENDPOINT_STATE_COUNT; from++)
        for (int event = 0; event < ENDPOINT_EVENT_COUNT; event++) {
            const struct endpoint_step *cell = &endpoint_steps[from][event];

            assert_true(cell->next < ENDPOINT_STATE_COUNT && cell->action < ACTION_COUNT);
            if (cell->action == ACTION_IGNORE || cell->action == ACTION_NONE)
                assert_true((int)cell->next == from || cell->next == ENDPOINT_HANDSHAKE);
            /* IDLE with no action is what an unwritten cell would look like. */
            if (from != ENDPOINT_IDLE)
                assert_int_not_equal(cell->next, ENDPOINT_IDLE);
        }
}

static void test_nothing_leaves_closed(void **state)
{
    (void)state;
    for (int event = 0; event < ENDPOINT_EVENT_COUNT; event++) {
        assert_int_equal(endpoint_steps[ENDPOINT_CLOSED][event].next, ENDPOINT_CLOSED);
        assert_int_equal(endpoint_steps[ENDPOINT_CLOSED][event].action, ACTION_IGNORE);
    }
}

static void test_a_late_reply_never_touches_a_ready_endpoint(void **state)
{
    static const enum endpoint_event late[] = {
        ENDPOINT_EVENT_CONNECTED, ENDPOINT_EVENT_WELCOME, ENDPOINT_EVENT_LINKING,
        ENDPOINT_EVENT_LINKED,    ENDPOINT_EVENT_REFUSED,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++)
        assert_int_equal(step(ENDPOINT_READY, late[i])->action, ACTION_IGNORE);
}

/* Its timer asks whether anybody needs it: that alone never ends it. */
static void test_the_timer_of_a_ready_endpoint_only_asks(void **state)
{
    const struct endpoint_step *asks = step(ENDPOINT_READY, ENDPOINT_EVENT_TIMER);

    (void)state;
    assert_int_equal(asks->next, ENDPOINT_READY);
    assert_int_equal(asks->action, ACTION_LINGER);
    assert_int_equal(step(ENDPOINT_DRAINING, ENDPOINT_EVENT_TIMER)->action, ACTION_IGNORE);
}

static void test_whatever_waits_can_time_out(void **state)
{
    static const enum endpoint_state waiting[] = {ENDPOINT_CONNECTING, ENDPOINT_HANDSHAKE,
                                                  ENDPOINT_LINKING, ENDPOINT_BACKOFF};

    (void)state;
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        assert_int_not_equal(step(waiting[i], ENDPOINT_EVENT_TIMER)->next, waiting[i]);
}

static void test_only_live_links_are_lost_with_their_transfers(void **state)
{
    (void)state;
    for (int from = 0; from < ENDPOINT_STATE_COUNT; from++) {
        enum endpoint_action action = endpoint_steps[from][ENDPOINT_EVENT_LOST].action;
        int live = from == ENDPOINT_READY || from == ENDPOINT_DRAINING;

        assert_int_equal(action == ACTION_LOSE, live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell_is_written),
        cmocka_unit_test(test_nothing_leaves_closed),
        cmocka_unit_test(test_a_late_reply_never_touches_a_ready_endpoint),
        cmocka_unit_test(test_the_timer_of_a_ready_endpoint_only_asks),
        cmocka_unit_test(test_whatever_waits_can_time_out),
        cmocka_unit_test(test_only_live_links_are_lost_with_their_transfers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
