/* Variables of the environment: honoured, or said. */
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "client/compat/mooncake/environment.h"
#include "client/compat/mooncake/say.h"
#include "tests/compat/stderr_fixture.h"

static const char *const names[] = {"MC_TRANSFER_TIMEOUT",
                                    "MC_USE_IPV6",
                                    "MC_LEGACY_RPC_PORT_BINDING",
                                    "MC_FORCE_TCP",
                                    "MC_CUSTOM_TOPO_JSON",
                                    "MC_RDMA_NOTIFY_ENABLED",
                                    "MC_RDMA_NOTIFY_OOB_FALLBACK",
                                    "MC_GID_INDEX",
                                    "MC_MTU",
                                    "TESUP_AUTOSTART"};

static int environment_clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    return 0;
}

static struct environment read_with(const char *name, const char *value, const char *sentence)
{
    struct environment environment;
    struct stderr_catch caught;

    environment_clear(NULL);
    setenv(name, value, 1);
    stderr_catch_begin(&caught);
    environment_read(&environment);
    stderr_catch_end(&caught);
    if (sentence == NULL ? caught.text[0] != '\0' : strstr(caught.text, sentence) == NULL)
        fail_msg("%s=%s says '%s'", name, value, caught.text);
    return environment;
}

static void defaults(void **state)
{
    struct environment environment = read_with("MC_TRANSFER_TIMEOUT", "", NULL);

    (void)state;
    assert_int_equal(environment.timeout_ms, 60000);
    assert_int_equal(environment.deadline_ms, 0);
    assert_true(environment.autostart);
    assert_false(environment.ipv6 || environment.fixed_port || environment.force_tcp);
}

static void timeouts(void **state)
{
    (void)state;
    assert_int_equal(read_with("MC_TRANSFER_TIMEOUT", "5", NULL).timeout_ms, 5000);
    assert_int_equal(read_with("MC_TRANSFER_TIMEOUT", "5", NULL).deadline_ms, 5000);
    assert_int_equal(read_with("MC_TRANSFER_TIMEOUT", "86400", NULL).timeout_ms, 86400000);
    assert_int_equal(read_with("MC_TRANSFER_TIMEOUT", "0", "'0' is ignored").timeout_ms, 60000);
    assert_int_equal(read_with("MC_TRANSFER_TIMEOUT", "5s", "'5s' is ignored").timeout_ms, 60000);
    assert_int_equal(read_with("MC_TRANSFER_TIMEOUT", "-1", "ignored").timeout_ms, 60000);
    assert_int_equal(read_with("MC_TRANSFER_TIMEOUT", "99999999999999999999", "ignored").timeout_ms,
                     60000);
}

static void switches(void **state)
{
    (void)state;
    assert_true(read_with("MC_FORCE_TCP", "1", NULL).force_tcp);
    assert_true(read_with("MC_FORCE_TCP", "TRUE", NULL).force_tcp);
    assert_false(read_with("MC_FORCE_TCP", "0", "elsewhere any value").force_tcp);
    assert_false(read_with("MC_USE_IPV6", "false", "elsewhere any value").ipv6);
    assert_false(read_with("MC_USE_IPV6", "yes", "'yes' is ignored").ipv6);
    assert_true(read_with("MC_LEGACY_RPC_PORT_BINDING", "true", NULL).fixed_port);
    assert_false(read_with("TESUP_AUTOSTART", "0", NULL).autostart);
    assert_true(read_with("TESUP_AUTOSTART", "no", "'no' is ignored").autostart);
}

static void what_is_not_read(void **state)
{
    (void)state;
    read_with("MC_CUSTOM_TOPO_JSON", "/x.json", "tesup topology");
    read_with("MC_CUSTOM_TOPO_JSON", "/x.json", NULL); /* said once in a process */
}

static void expect_compared(const char *name, const char *value, const char *sentence)
{
    struct stderr_catch caught;

    environment_clear(NULL);
    setenv(name, value, 1);
    stderr_catch_begin(&caught);
    environment_compare(false);
    stderr_catch_end(&caught);
    if (sentence == NULL ? caught.text[0] != '\0' : strstr(caught.text, sentence) == NULL)
        fail_msg("%s=%s says '%s'", name, value, caught.text);
}

/* Of a supervisor that ran before us, without the fallback. */
static void what_is_the_supervisors(void **state)
{
    (void)state;
    expect_compared("MC_RDMA_NOTIFY_OOB_FALLBACK", "0", NULL);
    expect_compared("MC_RDMA_NOTIFY_OOB_FALLBACK", "1", "1 here and 0 at the supervisor");
    expect_compared("MC_RDMA_NOTIFY_ENABLED", "1", "has no effect");
    expect_compared("MC_GID_INDEX", "3", "has no effect");
    expect_compared("MC_MTU", "4096", "has no effect");
    expect_compared("MC_FORCE_TCP", "1", "has no effect");
}

static void log_levels(void **state)
{
    (void)state;
    assert_int_equal(say_level_parse("trace"), LOG_LEVEL_INFO);
    assert_int_equal(say_level_parse("INFO"), LOG_LEVEL_INFO);
    assert_int_equal(say_level_parse("Warning"), LOG_LEVEL_WARNING);
    assert_int_equal(say_level_parse("ERROR"), LOG_LEVEL_ERROR);
    assert_true(say_level_parse("FATAL") < LOG_LEVEL_ERROR);
    assert_int_equal(say_level_parse("loud"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(defaults, environment_clear),
        cmocka_unit_test_teardown(timeouts, environment_clear),
        cmocka_unit_test_teardown(switches, environment_clear),
        cmocka_unit_test_teardown(what_is_not_read, environment_clear),
        cmocka_unit_test_teardown(what_is_the_supervisors, environment_clear),
        cmocka_unit_test(log_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
