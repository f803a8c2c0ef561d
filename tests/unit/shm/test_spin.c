/* Spinning that gives way: what it learns from its offers, and that it finds a neighbour on its
 * CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "shm/spin.h"

#define DEADLINE_NS (20 * CLOCK_NS_PER_S)

static void test_one_taken_offer_is_no_neighbour(void **state)
{
    struct spin spin = {.switches = 5};

    (void)state;
    spin_learn(&spin, 6, 1000);
    assert_true(spin_is_alone(&spin, 1000));
}

static void test_a_second_one_is(void **state)
{
    struct spin spin = {.switches = 0};

    (void)state;
    spin_learn(&spin, 1, 1000);
    spin_learn(&spin, 1, 1500); /* nobody wanted it just then */
    spin_learn(&spin, 3, 2000);
    assert_false(spin_is_alone(&spin, 2000 + SPIN_FIRST_NS - 1));
    assert_true(spin_is_alone(&spin, 2000 + SPIN_FIRST_NS));
}

static void test_the_while_doubles_to_a_bound(void **state)
{
    struct spin spin = {.switches = 0};
    uint64_t last = 0, while_ns = 0, now = 0;

    (void)state;
    spin_learn(&spin, 1, now);
    for (long offers = 2; offers < 40; offers++) {
        spin_learn(&spin, offers, now);
        while_ns = spin.sleep_until - now;
        assert_true(offers == 2 ? while_ns == SPIN_FIRST_NS
                                : while_ns == 2 * last || while_ns == last);
        last = while_ns;
        now = spin.sleep_until;
    }
    assert_int_equal(while_ns, SPIN_FIRST_NS << (SPIN_MET_MOST - 2));
    assert_true(while_ns < CLOCK_NS_PER_S);
}

static void test_who_is_alone_again_spins_again(void **state)
{
    struct spin spin = {.switches = 0};

    (void)state;
    for (long offers = 1; offers < 9; offers++)
        spin_learn(&spin, offers, spin.sleep_until);
    for (unsigned i = 0; i < SPIN_FORGET; i++)
        spin_learn(&spin, 8, spin.sleep_until);
    spin_learn(&spin, 9, spin.sleep_until);
    assert_true(spin_is_alone(&spin, spin.sleep_until));
    spin_learn(&spin, 10, 0);
    assert_int_equal(spin.sleep_until, SPIN_FIRST_NS);
}

static void test_no_offer_before_its_time(void **state)
{
    struct spin spin = {.offered = 100};

    (void)state;
    spin_pause(&spin, 0, 100 + SPIN_OFFER_NS - 1);
    assert_int_equal(spin.offered, 100);
    spin_pause(&spin, 100 + SPIN_OFFER_NS,
               100 + 2 * SPIN_OFFER_NS - 1); /* idle for less than that */
    assert_int_equal(spin.offered, 100);
    spin_pause(&spin, 0, 100 + SPIN_OFFER_NS);
    assert_int_not_equal(spin.offered, 100);
}

static void *neighbour(void *stop)
{
    while (!atomic_load_explicit((atomic_bool *)stop, memory_order_relaxed))
        cpu_relax();
    return NULL;
}

static void test_a_neighbour_on_the_same_cpu_is_found(void **state)
{
    atomic_bool stop = false;
    struct spin spin = {0};
    cpu_set_t before, one;
    uint64_t began = clock_now(), now = began;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
    assert_int_equal(pthread_create(&thread, NULL, neighbour, &stop), 0); /* inherits the CPU */
    while (spin_is_alone(&spin, now) && now - began < DEADLINE_NS) {
        spin_pause(&spin, began, now);
        now = clock_now();
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(before), &before), 0);
    assert_false(spin_is_alone(&spin, now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_taken_offer_is_no_neighbour),
        cmocka_unit_test(test_a_second_one_is),
        cmocka_unit_test(test_the_while_doubles_to_a_bound),
        cmocka_unit_test(test_who_is_alone_again_spins_again),
        cmocka_unit_test(test_no_offer_before_its_time),
        cmocka_unit_test(test_a_neighbour_on_the_same_cpu_is_found),
    };

    return cmocka_run_group_tests_name("shm/spin", tests, NULL, NULL);
}
