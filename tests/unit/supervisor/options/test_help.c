/* What the program and the manual say about the options is what the program takes. */
#include "tests/unit/supervisor/options/options_fixture.h"

#include <sys/wait.h>

/* Runs `tesup serve ARGUMENT` in a child that must exit(0); what it printed, to be freed. */
static char *printed_by_child(const char *argument)
{
    struct serve_options o;
    FILE *out = tmpfile();
    int wait_status;

    assert_non_null(out);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        PARSE(&o, argument);
        _exit(100); /* it returned */
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    assert_int_equal(WEXITSTATUS(wait_status), 0);

    long size = ftell(out);
    char *text = calloc(1, (size_t)size + 1);
    rewind(out);
    assert_int_equal(fread(text, 1, (size_t)size, out), size);
    fclose(out);
    return text;
}

/* The reference is a config file; with its comment marks taken away it gives the defaults. */
static void test_reference_parses(void **state)
{
    struct serve_options from_reference;
    struct serve_options defaults;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    options_reference_print(out);
    fclose(out);
    for (char *at = text; (at = strstr(at, "\n;")) != NULL;) {
        const char *end = strchr(at + 1, '\n');

        /* Defaults that the system gives have no value there. */
        if (end[-1] != '=')
            at[1] = ' ';
        at++;
    }
    options_defaults(&defaults);
    if (config_text(text, size, &from_reference))
        fail_msg("%s", printed);
    assert_string_equal(from_reference.rules.file, "x.conf");
    memset(from_reference.rules.file, 0, sizeof(from_reference.rules.file));
    assert_memory_equal(&from_reference, &defaults, sizeof(defaults));
    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        if (options_table[i].config)
            assert_non_null(strstr(text, option_key(&options_table[i])));
    free(text);
}

/* What operators read is what the program takes. */
static void test_reference_in_the_manual(void **state)
{
    FILE *manual = fopen(TESUP_FIXTURES "/../../docs/operations.md", "re");
    char *reference = printed_by_child("--help-config");
    static char text[128 * 1024];

    (void)state;
    assert_non_null(manual);
    size_t size = fread(text, 1, sizeof(text) - 1, manual);
    assert_true(size < sizeof(text) - 1);
    text[size] = '\0';
    fclose(manual);
    if (!strstr(text, reference))
        fail_msg("docs/operations.md does not hold what `tesup serve --help-config` prints now");
    free(reference);
}

static void test_help_names_every_flag(void **state)
{
    char *help = printed_by_child("--help");
    char *reference = printed_by_child("--help-config");
    char flag[64];

    (void)state;
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        if (!options_table[i].flag)
            continue;
        snprintf(flag, sizeof(flag), "--%s", options_table[i].flag);
        if (!strstr(help, flag))
            fail_msg("%s is not in --help", flag);
    }
    assert_non_null(strstr(help, "MC_RDMA_NOTIFY_ENABLED"));
    assert_non_null(strstr(help, "4K..16M"));
    assert_non_null(strstr(reference, "[limits]"));
    free(help);
    free(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(test_reference_parses),
        OPTION_TEST(test_reference_in_the_manual),
        OPTION_TEST(test_help_names_every_flag),
    };

    return cmocka_run_group_tests(tests, NULL, printed_free);
}
