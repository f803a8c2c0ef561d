/* HOST:PORT/SEGMENT in all its forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shm/err.h"
#include "shm/name.h"

static void test_good_names(void **state)
{
    static const struct {
        const char *text, *host, *port, *segment;
    } good[] = {
        {"10.0.0.1:7400/kv", "10.0.0.1", "7400", "kv"},
        {"[fe80::1%eth0]:1/a.b_c-d@e:f+g", "fe80::1%eth0", "1", "a.b_c-d@e:f+g"},
        {"host.example:65535/x", "host.example", "65535", "x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct segment_name name;
        const char *why = NULL;

        assert_int_equal(name_parse(good[i].text, &name, &why), TS_OK);
        assert_string_equal(name.host, good[i].host);
        assert_string_equal(name.port, good[i].port);
        assert_string_equal(name.segment, good[i].segment);
    }
}

static void test_bad_names_say_why(void **state)
{
    static const char *const bad[] = {
        "",           "host",        "host:1",     "host/seg",      "host:/seg",
        ":1/seg",     "h:65536/seg", "h:-1/seg",   "h:1/",          "h:1/with space",
        "::1:7400/s", "[::1]/s",     "[::1:1/s",   "[]:1/s",        "h:1x/s",
        "h:1/\xff",   "h:1/a\nb",    "h:123456/s", "[::1]x:7400/s",
    };
    char longer[400];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct segment_name name;
        const char *why = NULL;

        assert_int_equal(name_parse(bad[i], &name, &why), TS_ERR_INVALID);
        assert_non_null(why);
    }
    memset(longer, 'a', sizeof(longer));
    memcpy(longer + 300, ":1/s", 5);
    assert_int_equal(name_parse(longer, &(struct segment_name){.port = ""}, &(const char *){NULL}),
                     TS_ERR_INVALID);
    assert_false(name_label_valid(longer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_names),
        cmocka_unit_test(test_bad_names_say_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
