/* `tesup topology` as a user meets it: exit code, JSON and tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "supervisor/cmd.h"

#define WORDS_MAX 8

static const char devices_xml[] = TESUP_FIXTURES "/topology/devices.xml";
static const char nothing_allowed_xml[] = TESUP_FIXTURES "/topology/nothing_allowed.xml";

/* Runs the command with both outputs in one file, and returns what it wrote. */
static char *command_run(const char *const *words, int *code)
{
    FILE *capture = tmpfile();
    char *argv[WORDS_MAX] = {0};
    char *text = calloc(1, 16384);
    int argc = 0;

    assert_non_null(capture);
    assert_non_null(text);
    for (; words[argc]; argc++)
        argv[argc] = strdup(words[argc]);
    fflush(NULL);
    int out = dup(STDOUT_FILENO);
    int err = dup(STDERR_FILENO);
    dup2(fileno(capture), STDOUT_FILENO);
    dup2(fileno(capture), STDERR_FILENO);
    *code = cmd_topology(argc, argv);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);

    rewind(capture);
    assert_in_range(fread(text, 1, 16383, capture), 1, 16382);
    fclose(capture);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return text;
}

#define COMMAND_RUN(code, ...) \
    command_run((const char *const[]){"topology", __VA_ARGS__, NULL}, code)

static void text_check(const json_t *object, const char *key, const char *expected)
{
    const json_t *value = json_object_get(object, key);

    if (!expected)
        assert_true(json_is_null(value));
    else
        assert_string_equal(json_string_value(value), expected);
}

static void number_check(const json_t *object, const char *key, json_int_t expected)
{
    const json_t *value = json_object_get(object, key);

    assert_true(json_is_integer(value));
    assert_int_equal(json_integer_value(value), expected);
}

static json_t *json_run(void)
{
    int code;
    char *text = COMMAND_RUN(&code, "--json", "--workers", "3", "--xml", devices_xml);
    json_t *root = json_loads(text, 0, NULL);

    assert_int_equal(code, 0);
    assert_non_null(root);
    free(text);
    return root;
}

static void json_has_nodes_and_devices(void **state)
{
    json_t *root = json_run();
    const json_t *nodes = json_object_get(root, "nodes");
    const json_t *devices = json_object_get(root, "devices");

    (void)state;
    assert_int_equal(json_array_size(nodes), 2);
    number_check(json_array_get(nodes, 1), "node", 1);
    text_check(json_array_get(nodes, 1), "cpus", "4-7");
    number_check(json_array_get(nodes, 1), "memory_bytes", 1000000000);

    assert_int_equal(json_array_size(devices), 6);
    text_check(json_array_get(devices, 2), "name", "mlx5_0");
    text_check(json_array_get(devices, 2), "kind", "openfabrics");
    text_check(json_array_get(devices, 2), "bus_id", "0000:08:00.0");
    number_check(json_array_get(devices, 2), "numa_node", 0);
    text_check(json_array_get(devices, 5), "numa_node", NULL);
    json_decref(root);
}

static void json_has_pairs(void **state)
{
    json_t *root = json_run();
    const json_t *pairs = json_object_get(root, "pairs");
    const json_t *last = json_array_get(pairs, 2);

    (void)state;
    assert_int_equal(json_array_size(pairs), 3);
    text_check(last, "name", "tcp@node0.1");
    text_check(last, "gpu", NULL);
    text_check(last, "nic", NULL);
    number_check(last, "numa_node", 0);
    text_check(last, "cpus", "2");
    text_check(last, "fabric", "tcp");
    text_check(last, "reason", "tcp worker 3 of 3, spread over the NUMA nodes");
    json_decref(root);
}

static void tree_shows_all_of_it(void **state)
{
    static const char *const expected[] = {
        "node1", "mlx5_0", "0000:04:00.0", "unknown node", "953.7 MiB", "mlx5_0+04:00.0", "vnet0"};
    int code;
    char *text = COMMAND_RUN(&code, "--xml", devices_xml);

    (void)state;
    assert_int_equal(code, 0);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        if (!strstr(text, expected[i]))
            fail_msg("'%s' is not in the tree:\n%s", expected[i], text);
    free(text);
}

static void refusal_check(char *text, int code, int expected_code, const char *expected)
{
    assert_int_equal(code, expected_code);
    if (!strstr(text, "tesup topology: ") || !strstr(text, expected))
        fail_msg("'%s' is not in: %s", expected, text);
    free(text);
}

static void bad_arguments_are_refused(void **state)
{
    static const char *const numbers[] = {"65", "-1", "2x", "", " 1", "99999999999999999999"};
    int code;
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        text = COMMAND_RUN(&code, "--workers", numbers[i]);
        refusal_check(text, code, 2, "from 0 to 64");
    }
    text = COMMAND_RUN(&code, "machine.xml");
    refusal_check(text, code, 2, "--xml FILE");
    text = COMMAND_RUN(&code, "--xml", TESUP_FIXTURES);
    refusal_check(text, code, 1, "is a directory");
    text = COMMAND_RUN(&code, "--xml", nothing_allowed_xml);
    refusal_check(text, code, 1, "cpuset.mems");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_nodes_and_devices),
        cmocka_unit_test(json_has_pairs),
        cmocka_unit_test(tree_shows_all_of_it),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
