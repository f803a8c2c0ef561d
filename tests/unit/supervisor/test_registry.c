/* Names of segments: one owner each, free again after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "shm/err.h"
#include "supervisor/registry.h"

#define MANY 2000 /* several in each bucket */

static struct registry registry;

static int registry_clear(void **state)
{
    (void)state;
    registry_init(&registry);
    return 0;
}

static void entry_name(struct registry_entry *entry, const char *name)
{
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    list_init(&entry->node);
}

static void a_name_is_found_by_its_whole_text(void **state)
{
    struct registry_entry one, two;

    (void)state;
    entry_name(&one, "decode-1");
    entry_name(&two, "decode-10");
    assert_null(registry_find(&registry, "decode-1"));
    assert_int_equal(registry_add(&registry, &one), TS_OK);
    assert_null(registry_find(&registry, "decode-10"));
    assert_int_equal(registry_add(&registry, &two), TS_OK);
    assert_ptr_equal(registry_find(&registry, "decode-1"), &one);
    assert_ptr_equal(registry_find(&registry, "decode-10"), &two);
    assert_null(registry_find(&registry, "DECODE-1"));
    assert_null(registry_find(&registry, ""));
}

static void a_taken_name_is_refused_and_stays_its_owners(void **state)
{
    struct registry_entry first, second;

    (void)state;
    entry_name(&first, "a");
    entry_name(&second, "a");
    assert_int_equal(registry_add(&registry, &first), TS_OK);
    assert_int_equal(registry_add(&registry, &second), TS_ERR_EXISTS);
    registry_remove(&second); /* was never in */
    assert_ptr_equal(registry_find(&registry, "a"), &first);
    registry_remove(&first);
    assert_null(registry_find(&registry, "a"));
    assert_int_equal(registry_add(&registry, &second), TS_OK);
    assert_ptr_equal(registry_find(&registry, "a"), &second);
}

static void many_names_do_not_disturb_each_other(void **state)
{
    static struct registry_entry entries[MANY];
    char name[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "pid-%d", i);
        entry_name(&entries[i], name);
        assert_int_equal(registry_add(&registry, &entries[i]), TS_OK);
    }
    for (int i = 0; i < MANY; i += 2)
        registry_remove(&entries[i]);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "pid-%d", i);
        assert_ptr_equal(registry_find(&registry, name), i % 2 == 0 ? NULL : &entries[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_name_is_found_by_its_whole_text, registry_clear),
        cmocka_unit_test_setup(a_taken_name_is_refused_and_stays_its_owners, registry_clear),
        cmocka_unit_test_setup(many_names_do_not_disturb_each_other, registry_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
