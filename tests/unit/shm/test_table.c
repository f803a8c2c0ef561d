/* Handles: given out once, refused when stale, never valid when made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/err.h"
#include "shm/table.h"

static int things[4];

static void test_a_handle_finds_its_object_until_removed(void **state)
{
    struct table table;
    uint32_t handle;
    void *object = NULL;

    (void)state;
    table_init(&table, 4);
    handle = table_add(&table, &things[0]);
    assert_int_not_equal(handle, 0);
    assert_int_equal(table_get(&table, handle, &object), TS_OK);
    assert_ptr_equal(object, &things[0]);
    table_remove(&table, handle);
    assert_int_equal(table_get(&table, handle, &object), TS_ERR_GONE);
    table_remove(&table, handle); /* a second time does nothing */
    assert_int_equal(table.used, 0);
    table_fini(&table);
}

static void test_made_up_handles_are_not_found(void **state)
{
    struct table table;
    uint32_t handle;
    void *object = NULL;

    (void)state;
    table_init(&table, 4);
    assert_int_equal(table_get(&table, 0, &object), TS_ERR_NOT_FOUND);
    assert_int_equal(table_get(&table, UINT32_MAX, &object), TS_ERR_NOT_FOUND);
    handle = table_add(&table, &things[0]);
    assert_int_equal(table_get(&table, handle + (1u << TABLE_INDEX_BITS), &object),
                     TS_ERR_NOT_FOUND);
    assert_int_equal(table_get(&table, handle + 1, &object), TS_ERR_NOT_FOUND);
    table_fini(&table);
}

static void test_a_full_table_refuses_and_recovers(void **state)
{
    struct table table;
    uint32_t handles[4];

    (void)state;
    table_init(&table, 4);
    for (int i = 0; i < 4; i++)
        handles[i] = table_add(&table, &things[i]);
    assert_int_equal(table_add(&table, &things[0]), 0);
    table_remove(&table, handles[2]);
    assert_int_not_equal(table_add(&table, &things[2]), 0);
    table_fini(&table);
}

static void test_a_reused_slot_has_another_generation(void **state)
{
    struct table table;
    uint32_t old, now = 0;
    void *object = NULL;

    (void)state;
    table_init(&table, 1);
    old = table_add(&table, &things[0]);
    for (int i = 0; i < 1000; i++) {
        table_remove(&table, now != 0 ? now : old);
        now = table_add(&table, &things[1]);
        assert_int_not_equal(now, old);
        assert_int_equal(table_get(&table, old, &object), TS_ERR_GONE);
    }
    table_fini(&table);
}

static void test_put_takes_the_handle_of_another_table(void **state)
{
    struct table giver, taker;
    uint32_t handle;
    void *object = NULL;

    (void)state;
    table_init_random(&giver, 64);
    table_init(&taker, 64);
    for (int i = 0; i < 20; i++)
        handle = table_add(&giver, &things[0]);
    assert_int_equal(table_put(&taker, handle, &things[3]), TS_OK);
    assert_int_equal(table_put(&taker, handle, &things[3]), TS_ERR_EXISTS);
    assert_int_equal(table_put(&taker, 5, &things[3]), TS_ERR_INVALID);
    assert_int_equal(table_get(&taker, handle, &object), TS_OK);
    assert_ptr_equal(object, &things[3]);
    table_remove(&taker, handle);
    assert_int_equal(table_get(&taker, handle, &object), TS_ERR_GONE);
    assert_int_equal(table_put(&taker, handle + (1u << TABLE_INDEX_BITS), &things[1]), TS_OK);
    table_fini(&giver);
    table_fini(&taker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_handle_finds_its_object_until_removed),
        cmocka_unit_test(test_made_up_handles_are_not_found),
        cmocka_unit_test(test_a_full_table_refuses_and_recovers),
        cmocka_unit_test(test_a_reused_slot_has_another_generation),
        cmocka_unit_test(test_put_takes_the_handle_of_another_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
