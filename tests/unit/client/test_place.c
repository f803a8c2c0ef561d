/* Which worker a job asks for: the option, the environment, and indexes of GPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/internal.h"

static int environment_clear(void **state)
{
    (void)state;
    return unsetenv("TESUP_PAIR") || unsetenv("CUDA_VISIBLE_DEVICES");
}

static void place_check(const char *option, const char *expected)
{
    char pair[PROTO_LABEL_MAX];

    if (place_read(option, pair) != TS_OK)
        fail_msg("%s: %s", option ? option : "(none)", tesup_last_error());
    assert_string_equal(pair, expected);
}

static void option_goes_over_environment(void **state)
{
    (void)state;
    place_check(NULL, "");
    place_check("mlx5_0+44:00.0", "mlx5_0+44:00.0");
    setenv("TESUP_PAIR", "numa:1", 1);
    place_check(NULL, "numa:1");
    place_check("numa:0", "numa:0");
    setenv("TESUP_PAIR", "", 1);
    place_check(NULL, "");
}

/* This process knows which GPU it calls the first; the supervisor does not. */
static void index_becomes_what_the_list_says(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 1);
    place_check("gpu:0", "gpu:GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
    setenv("TESUP_PAIR", "gpu:0", 1);
    place_check(NULL, "gpu:GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
    place_check("gpu:0000:44:00.0", "gpu:0000:44:00.0");
    place_check("gpu:GPU-1", "gpu:GPU-1");
}

static void wrong_ones_are_refused(void **state)
{
    char pair[PROTO_LABEL_MAX];

    (void)state;
    assert_int_equal(place_read("", pair), TESUP_ERR_INVALID);
    assert_int_equal(place_read("a b", pair), TESUP_ERR_INVALID);
    assert_non_null(strstr(tesup_last_error(), "'a b' is no name"));
    setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2", 1);
    assert_int_equal(place_read("gpu:2", pair), TESUP_ERR_NOT_FOUND);
    assert_non_null(strstr(tesup_last_error(), "CUDA_VISIBLE_DEVICES=GPU-1,GPU-2 has 2 GPUs"));
    assert_int_equal(place_read("gpu:99999999999999999999", pair), TESUP_ERR_NOT_FOUND);
    setenv("CUDA_VISIBLE_DEVICES", "GPU-(", 1);
    assert_int_equal(place_read("gpu:0", pair), TESUP_ERR_INVALID);
}

#define TEST(function) \
    cmocka_unit_test_setup_teardown(function, environment_clear, environment_clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(option_goes_over_environment),
        TEST(index_becomes_what_the_list_says),
        TEST(wrong_ones_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
