/* `cmake --install` into a folder of its own: the programs find each other there, and what a job
 * needs to be built is there, too. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/harness/command.h"

static struct command command; /* large */

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
    char words[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    command_run(&command, words);
    command_expect_code(&command, 0);
}

static void works_where_it_was_put(void **state)
{
    static const char *const files[] = {"include/tesup.h",
                                        "include/tesup_device.cuh",
                                        "include/tesup_device_layout.h",
                                        "include/transfer_engine_c.h",
                                        "lib/libtesup.so",
                                        "lib/libtransfer_engine.so",
                                        "lib/pkgconfig/libtesup.pc"};
    const char *there = command_scratch();

    (void)state;
    run("cmake --install %s/.. --prefix %s/tesup", TESUP_BIN_DIR, there);
    run("%s/tesup/bin/tesup bench local --fabric tcp --op write --sizes 4K --iters 3 --json",
        there);
    command_expect_text(command.out, "\"verified\": true");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        run("test -f %s/tesup/%s", there, files[i]);
    run("rm -r %s/tesup", there);
    command_expect_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(works_where_it_was_put)};

    return cmocka_run_group_tests(tests, command_scratch_create, command_scratch_remove);
}
