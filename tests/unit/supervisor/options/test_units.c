/* Sizes and durations: read with their units, written the shortest way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/options/units.h"

static void test_units(void **state)
{
    uint64_t value;
    char text[64];
    static const char *const bad_sizes[] = {
        "", "K", "1k", "1 K", "-1", "0x10", "1.5K", "1KB", "18446744073709551615K"};
    static const char *const bad_times[] = {"",    "s",    "5",   "5m",
                                            "5 s", "1.5s", "+5s", "18446744073709551615s"};

    (void)state;
    assert_int_equal(units_size_parse("0", &value, text, sizeof(text)), 0);
    assert_int_equal(units_size_parse("3G", &value, text, sizeof(text)), 0);
    assert_true(value == UINT64_C(3) << 30);
    assert_int_equal(units_size_parse("4KiB", &value, text, sizeof(text)), 0);
    assert_int_equal(value, 4096);
    assert_int_equal(units_duration_parse("2s", &value, text, sizeof(text)), 0);
    assert_int_equal(value, 2000);
    for (size_t i = 0; i < sizeof(bad_sizes) / sizeof(bad_sizes[0]); i++)
        assert_int_equal(units_size_parse(bad_sizes[i], &value, text, sizeof(text)), -1);
    for (size_t i = 0; i < sizeof(bad_times) / sizeof(bad_times[0]); i++)
        assert_int_equal(units_duration_parse(bad_times[i], &value, text, sizeof(text)), -1);

    units_size_format(256 * 1024, text, sizeof(text));
    assert_string_equal(text, "256K");
    units_size_format(1500, text, sizeof(text));
    assert_string_equal(text, "1500");
    units_duration_format(1500, text, sizeof(text));
    assert_string_equal(text, "1500ms");
    units_duration_format(60000, text, sizeof(text));
    assert_string_equal(text, "60s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_units)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
