/* `tesup bench --memory gpu`: every byte verified on the GPU, over tcp (or verbs:
 * tests/CMakeLists.txt) and local, on one GPU and on two; a wrong one is found; and what is missing
 * or fails is said. */
#include "tests/harness/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/pattern.h"
#include "tests/harness/command.h"
#include "tests/harness/standin.h"

static struct command run;

static const char *wire(void)
{
    const char *fabric = getenv("TESUP_TEST_FABRIC");

    return fabric != NULL ? fabric : "tcp";
}

static void bench_over(const char *fabric, int code, const char *words)
{
    char line[512];

    snprintf(line, sizeof(line),
             TESUP_BIN_DIR "/tesup bench local --memory gpu --fabric %s --csv %s", fabric, words);
    command_run(&run, line);
    command_expect_code(&run, code);
    command_expect_nothing_left();
}

static void bench(int code, const char *words)
{
    bench_over(wire(), code, words);
}

static void expect_rows(unsigned count)
{
    unsigned rows = 0;

    for (const char *at = run.out; (at = strstr(at, ",true")) != NULL; at++)
        rows++;
    assert_int_equal(rows, count);
    assert_null(strstr(run.out, ",false"));
}

/* Blocks of a row that were checked on the GPU: the warm-up's, too. */
static void verified_on_gpu(void **state)
{
    json_t *root, *row;
    char line[512];
    size_t i;

    (void)state;
    snprintf(line, sizeof(line),
             TESUP_BIN_DIR "/tesup bench local --memory gpu --fabric %s --sizes 7,1048579 "
                           "--batch 3 --depth 2 --iters 10 --warmup 4 --json",
             wire());
    command_run(&run, line);
    command_expect_code(&run, 0);
    root = json_loads(run.out, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 4);
    json_array_foreach(json_object_get(root, "results"), i, row)
    {
        assert_true(json_is_true(json_object_get(row, "verified")));
        assert_int_equal(json_integer_value(json_object_get(row, "verified_on_gpu")), 14 * 3);
    }
    json_decref(root);
    command_expect_nothing_left();
}

static void over_the_wire(void **state)
{
    (void)state;
    bench(0, "--sizes 1,4K,1M --iters 20");
    expect_rows(6);
}

static void over_local(void **state)
{
    (void)state;
    bench_over("local", 0, "--sizes 4K,5M --iters 10 --batch 2 --depth 2");
    expect_rows(4);
    bench_over("local", 0, "--sizes 1M --iters 10 --gpu 1 --peer-gpu 0");
    expect_rows(2);
}

/* Of block 0 of iteration 3: all of the sentence but the operation. */
static void expect_fault(const char *who, uint64_t offset)
{
    uint8_t expected = pattern_byte(pattern_start(3, 0), offset);
    char text[160];

    snprintf(text, sizeof(text),
             "iteration 3, block 0, offset %llu: 0x%02x instead of 0x%02x (found by the %s on its "
             "GPU, 1 wrong in the block)",
             (unsigned long long)offset, expected ^ 1, expected, who);
    command_expect_text(run.err, text);
}

static void a_wrong_byte_is_found(void **state)
{
    (void)state;
    bench(1, "--op write --sizes 64K --iters 10 --corrupt 3:7");
    expect_fault("target", 7);
    bench(1, "--op read --sizes 65537 --iters 10 --corrupt 3:65536");
    expect_fault("initiator", 65536);
    /* Iterations have their blocks one behind the other: this one begins at byte 27. */
    bench(1, "--op write --sizes 9 --depth 4 --iters 8 --corrupt 3:0");
    expect_fault("target", 0);
}

static void what_is_not_there(void **state)
{
    (void)state;
    bench(1, "--sizes 4K --iters 10 --gpu 2");
    command_expect_text(run.err, "there is no GPU 2: CUDA sees 2");
    setenv("STANDIN_CUDA_DEVICES", "none", 1);
    bench(1, "--sizes 4K --iters 10");
    command_expect_text(run.err, "cuInit: CUDA_ERROR_NO_DEVICE");
    unsetenv("STANDIN_CUDA_DEVICES");
    setenv("LD_LIBRARY_PATH", TESUP_STANDIN_DIR "/no-range", 1);
    bench(1, "--sizes 4K --iters 10");
    command_expect_text(run.err,
                        "a kernel has to check it, and this driver has no cuModuleLoadData");
    setenv("LD_LIBRARY_PATH", TESUP_STANDIN_DIR, 1);
    command_run(&run, TESUP_BIN_DIR "/tesup bench local --gpu 1");
    command_expect_code(&run, 2);
    command_expect_text(run.err, "--memory gpu");
}

static void what_fails(void **state)
{
    (void)state;
    setenv("STANDIN_CUDA_FAIL", "cuModuleLoadData:1:218", 1);
    bench(1, "--sizes 4K --iters 10");
    command_expect_text(run.err, "no GPU memory: cuModuleLoadData: CUDA_ERROR_INVALID_PTX");
    /* In the middle of a row there is no way back: what the job had is left to the driver. */
    setenv("STANDIN_CUDA_FAIL", "cuLaunchKernel:5:1", 1);
    setenv("STANDIN_CUDA_LEAKS", "allow", 1);
    bench(1, "--sizes 4K --iters 10");
    command_expect_text(run.err, "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE");
    unsetenv("STANDIN_CUDA_LEAKS");
    unsetenv("STANDIN_CUDA_FAIL");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verified_on_gpu),   cmocka_unit_test(over_the_wire),
        cmocka_unit_test(over_local),        cmocka_unit_test(a_wrong_byte_is_found),
        cmocka_unit_test(what_is_not_there), cmocka_unit_test(what_fails),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, command_scratch_create, command_scratch_remove);
}
