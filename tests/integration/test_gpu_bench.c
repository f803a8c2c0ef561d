/* `tesup bench --memory gpu`: every byte verified, over tcp and local, on one GPU and on two; a
 * wrong one is found; and without a driver it says what is missing. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/command.h"
#include "tests/harness/standin.h"

static struct command run;

static void bench(int code, const char *words)
{
    char line[512];

    snprintf(line, sizeof(line), TESUP_BIN_DIR "/tesup bench local --memory gpu --csv %s", words);
    command_run(&run, line);
    command_expect_code(&run, code);
    command_expect_nothing_left();
}

static void expect_rows(unsigned count)
{
    unsigned rows = 0;

    for (const char *at = run.out; (at = strstr(at, ",true")) != NULL; at++)
        rows++;
    assert_int_equal(rows, count);
    assert_null(strstr(run.out, ",false"));
}

static void over_tcp(void **state)
{
    (void)state;
    bench(0, "--fabric tcp --sizes 1,4K,1M --iters 20");
    expect_rows(6);
}

static void over_local(void **state)
{
    (void)state;
    bench(0, "--fabric local --sizes 4K,5M --iters 10 --batch 2 --depth 2");
    expect_rows(4);
    bench(0, "--fabric local --sizes 1M --iters 10 --gpu 1 --peer-gpu 0");
    expect_rows(2);
}

static void a_wrong_byte_is_found(void **state)
{
    (void)state;
    bench(1, "--fabric tcp --op write --sizes 64K --iters 10 --corrupt 3:7");
    command_expect_text(run.err, "iteration 3, block 0, offset 7");
    bench(1, "--fabric tcp --op read --sizes 64K --iters 10 --corrupt 3:7");
    command_expect_text(run.err, "iteration 3, block 0, offset 7");
}

static void what_is_not_there(void **state)
{
    (void)state;
    bench(1, "--fabric tcp --sizes 4K --iters 10 --gpu 2");
    command_expect_text(run.err, "there is no GPU 2: CUDA sees 2");
    setenv("STANDIN_CUDA_DEVICES", "none", 1);
    bench(1, "--fabric tcp --sizes 4K --iters 10");
    command_expect_text(run.err, "cuInit: CUDA_ERROR_NO_DEVICE");
    unsetenv("STANDIN_CUDA_DEVICES");
    command_run(&run, TESUP_BIN_DIR "/tesup bench local --gpu 1");
    command_expect_code(&run, 2);
    command_expect_text(run.err, "--memory gpu");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_tcp),
        cmocka_unit_test(over_local),
        cmocka_unit_test(a_wrong_byte_is_found),
        cmocka_unit_test(what_is_not_there),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, command_scratch_create, command_scratch_remove);
}
