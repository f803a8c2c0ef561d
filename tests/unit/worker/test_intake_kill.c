/* A session that is killed in the middle of a batch: what was accepted before and never started
 * goes with it, and the worker goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fuzz/worker_fixture.h"

static int group_setup(void **state)
{
    (void)state;
    fixture_start();
    return 0;
}

static void submit(const struct sqe *sqes, uint32_t count)
{
    struct channel_header *header = fixture.map.header;
    struct sqe *ring = channel_bytes(&fixture.map, &fixture.map.sq);
    uint64_t tail = atomic_peek(&header->sq_words.tail);

    for (uint32_t i = 0; i < count; i++)
        ring[(tail + i) & (FIXTURE_SLOTS - 1)] = sqes[i];
    atomic_publish(&header->sq_words.tail, tail + count);
    fixture_turns(1);
}

/* `bad` at each place of a batch, in a session that is new and in one that was at work. */
static void bad_try(const struct sqe *bad)
{
    for (uint32_t before = 0; before < FIXTURE_SLOTS - 1; before++) {
        struct sqe batch[FIXTURE_SLOTS] = {0};
        const struct sqe work = {.op = SQE_NOP, .slot = (uint16_t)(before / 2)};

        fixture_attach();
        if (before % 2 == 1)
            submit(&work, 1);
        for (uint32_t slot = 0; slot < before; slot++)
            batch[slot] = (struct sqe){.op = SQE_NOP, .slot = (uint16_t)slot};
        batch[before] = *bad;
        submit(batch, before + 1);
        assert_true(fixture.session->killed);
        assert_true(fixture_channel()->in_flight <= before + 1);
        fixture_detach();
        fixture_expect_no_regions();
    }
}

static void test_unknown_op(void **state)
{
    const struct sqe bad = {.op = SQE_OP_COUNT, .slot = 15};

    (void)state;
    bad_try(&bad);
}

static void test_unknown_flag(void **state)
{
    const struct sqe bad = {.op = SQE_WRITE, .flags = 0x80, .slot = 15};

    (void)state;
    bad_try(&bad);
}

static void test_slot_out_of_range(void **state)
{
    const struct sqe bad = {.op = SQE_NOP, .slot = FIXTURE_SLOTS};

    (void)state;
    bad_try(&bad);
}

static void test_forged_record(void **state)
{
    const struct sqe bad = {
        .op = SQE_NOTIFY, .flags = SQE_FLAG_NOTIFY, .slot = 15, .notify_pos = 8, .notify_len = 64};

    (void)state;
    bad_try(&bad);
}

static void test_slot_in_use(void **state)
{
    struct sqe batch[FIXTURE_SLOTS] = {0};

    (void)state;
    for (uint16_t count = 2; count < FIXTURE_SLOTS; count++) {
        fixture_attach();
        for (uint16_t i = 0; i < count; i++)
            batch[i] = (struct sqe){.op = SQE_NOP, .slot = i};
        batch[count - 1].slot = (uint16_t)(count / 2 - 1);
        submit(batch, count);
        assert_true(fixture.session->killed);
        fixture_detach();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_op),        cmocka_unit_test(test_unknown_flag),
        cmocka_unit_test(test_slot_out_of_range), cmocka_unit_test(test_forged_record),
        cmocka_unit_test(test_slot_in_use),
    };

    return cmocka_run_group_tests_name("killed in the middle of a batch", tests, group_setup, NULL);
}
