/* The library as a file: its symbols, its name, what it needs, and that it takes the place of
 * another one by LD_LIBRARY_PATH alone. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/command.h"
#include "tests/harness/daemon.h"

#define LIBRARY TESUP_LIB_DIR "/libtransfer_engine.so"

static void file_read(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t got;

    assert_non_null(file);
    got = fread(text, 1, size - 1, file);
    text[got] = '\0';
    fclose(file);
}

static void test_symbols(void **state)
{
    static char expected[4096];
    static struct command command;

    (void)state;
    file_read(TESUP_COMPAT_DIR "/symbols.txt", expected, sizeof(expected));
    command_run(&command, "nm --dynamic --defined-only --format=just-symbols " LIBRARY);
    command_expect_code(&command, 0);
    assert_string_equal(command.out, expected); /* nm sorts by name */
}

/* Found by programs that ask for this name; finds libtesup beside itself and nowhere else. */
static void test_dynamic_section(void **state)
{
    static struct command command;

    (void)state;
    command_run(&command, "readelf --dynamic " LIBRARY);
    command_expect_code(&command, 0);
    command_expect_text(command.out, "soname: [libtransfer_engine.so]");
    command_expect_text(command.out, "runpath: [$ORIGIN]");
    command_expect_text(command.out, "Shared library: [libtesup.so.0]");
    assert_null(strstr(command.out, "TEXTREL"));
}

static void test_swap(void **state)
{
    static struct command command;
    struct daemon daemon;

    (void)state;
    command_run(&command, TESUP_TEST_DIR "/compat-swap-client");
    command_expect_code(&command, 0);
    assert_string_equal(command.out, "stand-in\n");
    daemon_start(&daemon, "swap", "");
    setenv("TESUP_SOCKET", daemon.socket, 1);
    setenv("LD_LIBRARY_PATH", TESUP_LIB_DIR, 1);
    command_run(&command, TESUP_TEST_DIR "/compat-swap-client");
    unsetenv("LD_LIBRARY_PATH");
    command_expect_code(&command, 0);
    assert_memory_equal(command.out, "127.0.0.1:", strlen("127.0.0.1:"));
    daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_dynamic_section),
        cmocka_unit_test_teardown(test_swap, daemon_test_teardown),
    };

    return cmocka_run_group_tests_name("swap", tests, daemon_group_setup, daemon_group_teardown);
}
