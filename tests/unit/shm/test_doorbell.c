/* The doorbell: when it makes a system call, when it does not, and what eventfds do at the edges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/doorbell.h"

struct bell_fixture {
    struct doorbell_shared word;
    struct doorbell bell;
};

static int bell_open(void **state)
{
    static struct bell_fixture fixture;

    atomic_store(&fixture.word.armed, 0);
    fixture.bell.word = &fixture.word;
    fixture.bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    *state = &fixture;
    return fixture.bell.fd < 0 ? -1 : 0;
}

static int bell_close(void **state)
{
    struct bell_fixture *fixture = *state;

    return close(fixture->bell.fd);
}

static bool would_wake(const struct doorbell *bell)
{
    struct pollfd ready = {.fd = bell->fd, .events = POLLIN};

    return poll(&ready, 1, 0) == 1;
}

static void ringing_an_awake_consumer_costs_no_system_call(void **state)
{
    struct bell_fixture *fixture = *state;

    assert_false(doorbell_ring(&fixture->bell));
    assert_false(would_wake(&fixture->bell));
}

static void ringing_a_sleeper_wakes_it_once(void **state)
{
    struct bell_fixture *fixture = *state;

    doorbell_arm(&fixture->bell);
    assert_true(doorbell_ring(&fixture->bell));
    assert_true(would_wake(&fixture->bell));
    assert_false(doorbell_ring(&fixture->bell));
    doorbell_drain(fixture->bell.fd);
    assert_false(would_wake(&fixture->bell));
}

static void disarmed_bell_stays_silent(void **state)
{
    struct bell_fixture *fixture = *state;

    doorbell_arm(&fixture->bell);
    doorbell_disarm(&fixture->bell);
    assert_false(doorbell_ring(&fixture->bell));
    assert_false(would_wake(&fixture->bell));
}

static void bell_can_be_armed_again(void **state)
{
    struct bell_fixture *fixture = *state;

    for (int i = 0; i < 3; i++) {
        doorbell_arm(&fixture->bell);
        assert_true(doorbell_ring(&fixture->bell));
        doorbell_drain(fixture->bell.fd);
    }
}

/* The other side may write anything into the word: it costs it a wake-up, nothing else. */
static void forged_word_is_a_spurious_wakeup(void **state)
{
    struct bell_fixture *fixture = *state;

    atomic_store(&fixture->word.armed, UINT32_MAX);
    assert_true(doorbell_ring(&fixture->bell));
    assert_int_equal(atomic_load(&fixture->word.armed), 0);
    doorbell_drain(fixture->bell.fd);
    assert_false(would_wake(&fixture->bell));
}

static void draining_an_empty_bell_does_not_block(void **state)
{
    struct bell_fixture *fixture = *state;

    doorbell_drain(fixture->bell.fd);
    assert_false(would_wake(&fixture->bell));
}

/* A peer can fill its copy of the eventfd to the brim; signalling must not block, sleepers wake. */
static void full_eventfd_neither_blocks_nor_loses_the_wakeup(void **state)
{
    struct bell_fixture *fixture = *state;
    uint64_t brim = UINT64_MAX - 1;

    assert_int_equal(write(fixture->bell.fd, &brim, sizeof(brim)), sizeof(brim));
    doorbell_arm(&fixture->bell);
    assert_true(doorbell_ring(&fixture->bell));
    assert_true(would_wake(&fixture->bell));
    doorbell_drain(fixture->bell.fd);
    assert_false(would_wake(&fixture->bell));
}

#define bell_test(name) cmocka_unit_test_setup_teardown(name, bell_open, bell_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        bell_test(ringing_an_awake_consumer_costs_no_system_call),
        bell_test(ringing_a_sleeper_wakes_it_once),
        bell_test(disarmed_bell_stays_silent),
        bell_test(bell_can_be_armed_again),
        bell_test(forged_word_is_a_spurious_wakeup),
        bell_test(draining_an_empty_bell_does_not_block),
        bell_test(full_eventfd_neither_blocks_nor_loses_the_wakeup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
