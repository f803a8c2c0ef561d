/* The assignment against all assignments, on thousands of small machines. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "topology/assign.h"

enum { GPUS_MAX = 5, NICS_MAX = 4, MACHINES = 20000 };

static const uint64_t seed = 0x746f706f6c6f6779;

struct machine {
    size_t gpus, nics;
    unsigned rank[GPUS_MAX * NICS_MAX];
    size_t forced[GPUS_MAX];
};

/* xorshift64*: the same numbers on every machine. */
static uint32_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(0x2545f4914f6cdd1d)) >> 32);
}

static void machine_random(struct machine *machine, uint64_t *state)
{
    unsigned ranks = 1 + random_next(state) % 4; /* few, so that there are ties */

    machine->gpus = 1 + random_next(state) % GPUS_MAX;
    machine->nics = 1 + random_next(state) % NICS_MAX;
    for (size_t i = 0; i < machine->gpus * machine->nics; i++)
        machine->rank[i] = random_next(state) % ranks;
    for (size_t gpu = 0; gpu < machine->gpus; gpu++)
        machine->forced[gpu] =
            random_next(state) % 8 == 0 ? random_next(state) % machine->nics : ASSIGN_FREE;
}

/* Smaller is better: the sum of ranks, then the sum of squares of loads. */
static size_t worth(const struct machine *machine, const size_t *nic_of)
{
    size_t load[NICS_MAX] = {0};
    size_t ranks = 0, squares = 0;

    for (size_t gpu = 0; gpu < machine->gpus; gpu++) {
        load[nic_of[gpu]]++;
        ranks += machine->rank[gpu * machine->nics + nic_of[gpu]];
    }
    for (size_t nic = 0; nic < machine->nics; nic++)
        squares += load[nic] * load[nic];
    return ranks * 1000 + squares;
}

static bool is_possible(const struct machine *machine, const size_t *nic_of)
{
    for (size_t gpu = 0; gpu < machine->gpus; gpu++)
        if (machine->forced[gpu] != ASSIGN_FREE && machine->forced[gpu] != nic_of[gpu])
            return false;
    return true;
}

/* The next one in the order of nic_of[0], nic_of[1], … */
static bool next(const struct machine *machine, size_t *nic_of)
{
    for (size_t gpu = machine->gpus; gpu-- > 0;) {
        if (++nic_of[gpu] < machine->nics)
            return true;
        nic_of[gpu] = 0;
    }
    return false;
}

/* All of them in order, so the first of the best ones is also the first by name. */
static void brute_force(const struct machine *machine, size_t *best)
{
    size_t nic_of[GPUS_MAX] = {0};
    size_t best_worth = SIZE_MAX;

    do {
        size_t own = is_possible(machine, nic_of) ? worth(machine, nic_of) : SIZE_MAX;
        if (own < best_worth) {
            best_worth = own;
            memcpy(best, nic_of, sizeof(nic_of));
        }
    } while (next(machine, nic_of));
}

static void solve(const struct machine *machine, size_t *nic_of)
{
    const struct assign_problem problem = {machine->gpus, machine->nics, machine->rank,
                                           machine->forced};

    assert_int_equal(assign_solve(&problem, nic_of), 0);
}

static void equals_brute_force(void **state)
{
    uint64_t random = seed;
    struct machine machine;

    (void)state;
    print_message("seed 0x%" PRIx64 ", %d machines\n", seed, MACHINES);
    for (int i = 0; i < MACHINES; i++) {
        size_t expected[GPUS_MAX] = {0}, nic_of[GPUS_MAX] = {0};
        machine_random(&machine, &random);
        brute_force(&machine, expected);
        solve(&machine, nic_of);
        for (size_t gpu = 0; gpu < machine.gpus; gpu++)
            if (nic_of[gpu] != expected[gpu])
                fail_msg("machine %d: GPU %zu of %zu has NIC %zu of %zu, brute force says %zu", i,
                         gpu, machine.gpus, nic_of[gpu], machine.nics, expected[gpu]);
    }
}

/* Greedy would give NIC 0 to GPU 0, and GPU 1, which has no choice, would share it. */
static void looks_ahead(void **state)
{
    const struct machine machine = {2, 2, {0, 0, 0, 1}, {ASSIGN_FREE, ASSIGN_FREE}};
    size_t nic_of[2];

    (void)state;
    solve(&machine, nic_of);
    assert_int_equal(nic_of[0], 1);
    assert_int_equal(nic_of[1], 0);
}

/* The most that a plan can have, all alike: done at once, one each, in order. */
static void many_equals_are_spread_in_order(void **state)
{
    enum { MANY = 64 };
    static unsigned rank[MANY * MANY];
    size_t forced[MANY], nic_of[MANY];
    const struct assign_problem problem = {MANY, MANY, rank, forced};

    (void)state;
    for (size_t i = 0; i < MANY; i++)
        forced[i] = ASSIGN_FREE;
    assert_int_equal(assign_solve(&problem, nic_of), 0);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(nic_of[i], i);
}

static void eight_gpus_and_four_nics_are_two_each(void **state)
{
    const unsigned rank[8 * 4] = {0};
    const size_t expected[8] = {0, 0, 1, 1, 2, 2, 3, 3};
    size_t forced[8], nic_of[8];
    const struct assign_problem problem = {8, 4, rank, forced};

    (void)state;
    for (size_t i = 0; i < 8; i++)
        forced[i] = ASSIGN_FREE;
    assert_int_equal(assign_solve(&problem, nic_of), 0);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(nic_of[i], expected[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_brute_force),
        cmocka_unit_test(looks_ahead),
        cmocka_unit_test(many_equals_are_spread_in_order),
        cmocka_unit_test(eight_gpus_and_four_nics_are_two_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
