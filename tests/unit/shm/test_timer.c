/* Timers fire in the order of their deadlines, whatever happened to them before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shm/timer.h"

#define TIMERS 500

static uint64_t last;
static int fired;

static void on_fire(struct timer *timer)
{
    assert_true(timer->when >= last);
    assert_false(timer_is_set(timer));
    last = timer->when;
    fired++;
}

static void test_order_survives_moves_and_removals(void **state)
{
    static struct timer timers[TIMERS];
    struct timer_heap heap;
    unsigned seed = 42;
    int left = 0;

    (void)state;
    timer_heap_init(&heap);
    for (int i = 0; i < TIMERS; i++) {
        timers[i] = (struct timer){.fire = on_fire};
        assert_int_equal(timer_set(&heap, &timers[i], (uint64_t)rand_r(&seed) % 1000), 0);
    }
    for (int i = 0; i < TIMERS; i += 3)
        assert_int_equal(timer_set(&heap, &timers[i], (uint64_t)rand_r(&seed) % 1000), 0);
    for (int i = 0; i < TIMERS; i += 7) {
        timer_clear(&heap, &timers[i]);
        timer_clear(&heap, &timers[i]); /* clearing twice is fine */
    }
    for (int i = 0; i < TIMERS; i++)
        left += timer_is_set(&timers[i]);
    last = 0;
    fired = 0;
    for (uint64_t now = 0; now <= 1000; now += 10) {
        timer_heap_run(&heap, now);
        assert_true(timer_heap_next(&heap) > now);
    }
    assert_int_equal(fired, left);
    assert_int_equal(timer_heap_next(&heap), UINT64_MAX);
    timer_heap_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_survives_moves_and_removals)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
