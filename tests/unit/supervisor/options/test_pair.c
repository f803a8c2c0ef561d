/* [pair NAME] sections of the config file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "supervisor/options/options.h"

static struct serve_options options;
static char printed[OPTIONS_TEXT_MAX];

static int config(const char *text)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    assert_non_null(file);
    options_defaults(&options);
    printed[0] = '\0';
    int rc = options_config_read(file, "x.conf", &options, printed, sizeof(printed));
    fclose(file);
    return rc;
}

static void sections_are_read(void **state)
{
    (void)state;
    if (config("[worker]\n"
               "exclude = mlx5_3, 0000:62:00.0\n"
               "reserved_cpus = 0-1,64\n"
               "[pair mlx5_0+44:00.0]\n"
               "nic = mlx5_1\n"
               "cpus = 3,5-7\n"
               "\n"
               "[pair prefill]\n"
               "gpu = 0000:03:00.0\n"
               "node = 12\n"))
        fail_msg("%s", printed);
    assert_string_equal(options.rules.file, "x.conf");
    assert_string_equal(options.rules.exclude, "mlx5_3, 0000:62:00.0");
    assert_string_equal(options.rules.reserved_cpus, "0-1,64");
    assert_int_equal(options.rules.count, 2);

    const struct topology_rule *rule = &options.rules.rule[0];
    assert_string_equal(rule->name, "mlx5_0+44:00.0");
    assert_string_equal(rule->nic, "mlx5_1");
    assert_string_equal(rule->gpu, "");
    assert_string_equal(rule->cpus, "3,5-7");
    assert_int_equal(rule->node, -1);
    assert_int_equal(rule->line, 5);
    assert_int_equal(rule->at.cpus, 6);

    rule = &options.rules.rule[1];
    assert_string_equal(rule->name, "prefill");
    assert_string_equal(rule->gpu, "0000:03:00.0");
    assert_int_equal(rule->node, 12);
    assert_int_equal(rule->at.node, 10);
}

static void wrong_ones_name_what_is_right(void **state)
{
    static const struct {
        const char *text, *phrase;
    } wrong[] = {
        {"[pair a]\nnci = mlx5_0\n", "x.conf:2: unknown key 'nci'; keys of [pair a]: nic, gpu"},
        {"[pair a]\nnic = x\nnic = y\n", "x.conf:3: nic is set twice; first on line 2"},
        {"[pair a]\nnic = x\n[pair b]\nnic = x\n[pair a]\nnic = y\n", "x.conf:6: nic is set twice"},
        {"[pair a]\ncpus = 3-\n", "x.conf:2: cpus: '3-' is not possible; allowed: numbers and"},
        {"[pair a]\nnode = -1\n", "x.conf:2: node: '-1' is not possible; allowed: a NUMA node"},
        {"[pair a]\nnode = 1x\n", "node: '1x' is not possible"},
        {"[pair a]\ngpu =\n", "x.conf:2: gpu: '' is not possible; allowed: a bus id"},
        {"[pair]\nnic = x\n", "x.conf:2: [pair]: [pair NAME] needs a name of 1..43 letters"},
        {"[pair a b]\nnic = x\n", "[pair NAME] needs a name"},
        {"[pair 01234567890123456789012345678901234567890123]\nnic = x\n", "needs a name of 1..43"},
        {"[pairs a]\nnic = x\n", "unknown section [pairs a]; sections: daemon"},
        {"[pear]\nnic = x\n", "pair NAME"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(config(wrong[i].text), -1);
        if (!strstr(printed, wrong[i].phrase))
            fail_msg("'%s' does not say '%s'", printed, wrong[i].phrase);
    }
}

static void longest_name_has_room(void **state)
{
    (void)state;
    if (config("[pair 0123456789012345678901234567890123456789012]\nnic = x\n"))
        fail_msg("%s", printed);
    assert_int_equal(strlen(options.rules.rule[0].name), 43);
}

static void too_many_are_refused(void **state)
{
    static char text[64 * 1024];
    size_t length = 0;

    (void)state;
    for (int i = 0; i <= TOPOLOGY_PAIRS_MAX; i++)
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "[pair p%d]\nnic = x\n", i);
    assert_int_equal(config(text), -1);
    assert_non_null(strstr(printed, "more than 64 [pair] sections"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_are_read),
        cmocka_unit_test(wrong_ones_name_what_is_right),
        cmocka_unit_test(longest_name_has_room),
        cmocka_unit_test(too_many_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
