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

#include "supervisor/command/cmd.h"

#define WORDS_MAX  8
#define OUTPUT_MAX 65536

static const char devices_xml[] = TESUP_FIXTURES "/topology/devices.xml";
static const char nps4_xml[] = TESUP_FIXTURES "/topology/nps4.xml";
static const char nothing_allowed_xml[] = TESUP_FIXTURES "/topology/nothing_allowed.xml";

/* Runs the command with both outputs in one file, and returns what it wrote. */
static char *command_run(const char *const *words, int *code)
{
    FILE *capture = tmpfile();
    char *argv[WORDS_MAX] = {0};
    char *text = calloc(1, OUTPUT_MAX);
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
    assert_in_range(fread(text, 1, OUTPUT_MAX - 1, capture), 1, OUTPUT_MAX - 2);
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

/* The keys that other programs rely on. */
static void json_pairs_have_devices(void **state)
{
    int code;
    char *text = COMMAND_RUN(&code, "--json", "--xml", nps4_xml);
    json_t *root = json_loads(text, 0, NULL);
    const json_t *pairs = json_object_get(root, "pairs");
    const json_t *pair = json_array_get(pairs, 1);

    (void)state;
    assert_int_equal(code, 0);
    assert_int_equal(json_array_size(pairs), 4);
    text_check(pair, "name", "mlx5_0+44:00.0");
    text_check(pair, "gpu", "0000:44:00.0");
    text_check(pair, "nic", "mlx5_0");
    text_check(pair, "distance", "PIX");
    number_check(pair, "numa_node", 1);
    text_check(pair, "cpus", "8");
    text_check(pair, "fabric", "verbs");
    text_check(pair, "port", "active");
    text_check(pair, "link", "InfiniBand");
    assert_non_null(strstr(json_string_value(json_object_get(pair, "reason")), "nearest NIC"));
    json_decref(root);
    free(text);
}

static void words_check(char *text, const char *const *expected)
{
    for (; *expected; expected++)
        if (!strstr(text, *expected))
            fail_msg("'%s' is not in:\n%s", *expected, text);
    free(text);
}

static void tree_shows_switches_and_ports(void **state)
{
    static const char *const expected[] = {"switch 41:00.0", "active InfiniBand", "card e1:00",
                                           "mlx5_0+44:00.0", "nearest NIC (PIX",  NULL};
    int code;

    (void)state;
    words_check(COMMAND_RUN(&code, "--xml", nps4_xml), expected);
    assert_int_equal(code, 0);
}

static void matrix_is_like_that_of_nvidia_smi(void **state)
{
    static const char *const expected[] = {
        "       GPU0  GPU1  GPU2  GPU3  NIC0  NIC1  NIC2  NIC3  CPUS             NODE\n",
        "GPU1   SYS   X     SYS   SYS   PIX   SYS   SYS   SYS   8-15             1\n",
        "NIC3   SYS   SYS   PIX   SYS   SYS   SYS   SYS   X     56-63            7\n",
        "  GPU1   0000:44:00.0\n",
        "  NIC3   mlx5_3\n",
        "PIX  one PCIe switch",
        NULL};
    int code;

    (void)state;
    words_check(COMMAND_RUN(&code, "--matrix", "--xml", nps4_xml), expected);
    assert_int_equal(code, 0);
}

/* Each element is closed by its own name, and no & or < is left in a text. */
static void xml_check(const char *text)
{
    char open[16][16];
    size_t depth = 0;

    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        size_t length = strcspn(at + 1 + (at[1] == '/'), " />");
        assert_non_null(end);
        assert_in_range(length, 1, 15);
        if (at[1] == '/') {
            assert_true(depth > 0);
            depth--;
            if (strncmp(open[depth], at + 2, length) != 0 || open[depth][length] != '\0')
                fail_msg("</%.*s> closes <%s>", (int)length, at + 2, open[depth]);
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            snprintf(open[depth++], sizeof(open[0]), "%.*s", (int)length, at + 1);
        }
        at = end;
    }
    assert_int_equal(depth, 0);
    for (const char *at = strchr(text, '&'); at; at = strchr(at + 1, '&'))
        assert_true(strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&lt;", 4) == 0 ||
                    strncmp(at, "&gt;", 4) == 0);
}

static void picture_is_sound_xml(void **state)
{
    static const char *const expected[] = {"<svg xmlns=",    "NUMA node 7", "switch 41:00.0",
                                           "GPU 44:00.0",    "mlx5_0 PIX",  "eno2",
                                           "mlx5_0+44:00.0", NULL};
    int code;
    char *text = COMMAND_RUN(&code, "--svg", "-", "--xml", nps4_xml);

    (void)state;
    assert_int_equal(code, 0);
    xml_check(text);
    words_check(text, expected);
    text = COMMAND_RUN(&code, "--svg", "-", "--xml", devices_xml);
    xml_check(text);
    free(text);
}

/* The picture in the manual is what the command draws of the fixture. */
static void picture_in_the_manual(void **state)
{
    static char manual[OUTPUT_MAX];
    FILE *file = fopen(TESUP_FIXTURES "/../../docs/topology.svg", "re");
    int code;
    char *text = COMMAND_RUN(&code, "--svg", "-", "--xml", nps4_xml);

    (void)state;
    assert_non_null(file);
    assert_in_range(fread(manual, 1, sizeof(manual) - 1, file), 1, sizeof(manual) - 2);
    fclose(file);
    if (strcmp(manual, text) != 0)
        fail_msg("draw it again: tesup topology --xml %s --svg docs/topology.svg", nps4_xml);
    free(text);
}

static void file_write(char *path, const char *text)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void config_file_is_heeded(void **state)
{
    static const char *const expected[] = {"prefill", "\"cpus\": \"3\"", "\"nic\": \"mlx5_3\"",
                                           NULL};
    char path[] = "/tmp/tesup-config-XXXXXX";
    int code;

    (void)state;
    file_write(path, "[worker]\nexclude = mlx5_0\n[pair prefill]\nnic = mlx5_3\ncpus = 3\n");
    char *text = COMMAND_RUN(&code, "--json", "--config", path, "--xml", nps4_xml);
    assert_int_equal(code, 0);
    assert_null(strstr(text, "mlx5_0+"));
    words_check(text, expected);
    unlink(path);
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
    text = COMMAND_RUN(&code, "--json", "--matrix");
    refusal_check(text, code, 2, "use one");
    text = COMMAND_RUN(&code, "--config", "/nowhere/x.conf");
    refusal_check(text, code, 1, "/nowhere/x.conf: No such file");
    text = COMMAND_RUN(&code, "--svg", "/nowhere/x.svg", "--xml", nps4_xml);
    refusal_check(text, code, 1, "/nowhere/x.svg: No such file");
    text = COMMAND_RUN(&code, "--xml", nothing_allowed_xml);
    refusal_check(text, code, 1, "cpuset.mems");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_nodes_and_devices),
        cmocka_unit_test(json_has_pairs),
        cmocka_unit_test(json_pairs_have_devices),
        cmocka_unit_test(tree_shows_all_of_it),
        cmocka_unit_test(tree_shows_switches_and_ports),
        cmocka_unit_test(matrix_is_like_that_of_nvidia_smi),
        cmocka_unit_test(picture_is_sound_xml),
        cmocka_unit_test(picture_in_the_manual),
        cmocka_unit_test(config_file_is_heeded),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
