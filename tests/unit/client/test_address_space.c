/* Address space that runs out: the limit is named.  Not in a sanitizer's build, whose shadow is
 * beyond any limit. */
#include "tests/unit/client/attached_fixture.h"

#include <sys/resource.h>

static void test_address_space_limit_is_named(void **state)
{
    struct rlimit before, small;
    tesup_region_t region;
    void *address;
    int rc;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    small = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    rc = tesup_mem_alloc(session, 8 << 20, 0, &address, &region);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(rc, TESUP_ERR_NO_MEMORY);
    assert_sentence("RLIMIT_AS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ATTACHED_TEST(test_address_space_limit_is_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
