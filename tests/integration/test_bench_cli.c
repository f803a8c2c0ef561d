/* `tesup bench local` as a user runs it: its report, its checks, its refusals, and what it leaves.
 */
#include "tests/harness/test.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/command.h"
#include "tests/harness/process.h"
#include "tests/harness/wait.h"

#define BENCH          TESUP_BIN_DIR "/tesup bench "
#define BENCH_CHILDREN 4 /* two supervisors, target, initiator */

static struct command run;

static void bench_run(const char *words)
{
    char line[512];

    snprintf(line, sizeof(line), BENCH "%s", words);
    command_run(&run, line);
}

static json_t *report_parse(void)
{
    json_error_t error;
    json_t *root = json_loads(run.out, 0, &error);

    if (!root)
        fail_msg("no JSON (%s): %s", error.text, run.out);
    assert_int_equal(json_object_size(root), 1);
    return root;
}

/* Row `index`: exactly the promised keys, with sensible values. */
static const json_t *row_expect(const json_t *root, size_t index, const char *op,
                                json_int_t block_bytes, const char *fabric, bool verified)
{
    static const char *const numbers[] = {"avg_us", "p50_us", "p99_us", "gb_per_s"};
    const json_t *row = json_array_get(json_object_get(root, "results"), index);

    assert_int_equal(json_object_size(row), 12);
    assert_string_equal(json_string_value(json_object_get(row, "op")), op);
    assert_int_equal(json_integer_value(json_object_get(row, "block_bytes")), block_bytes);
    assert_string_equal(json_string_value(json_object_get(row, "fabric")), fabric);
    assert_true(json_is_integer(json_object_get(row, "batch")));
    assert_true(json_is_string(json_object_get(row, "notify")));
    assert_true(json_is_integer(json_object_get(row, "iters")));
    assert_true(json_is_boolean(json_object_get(row, "verified")));
    assert_int_equal(json_is_true(json_object_get(row, "verified")), verified);
    assert_true(json_is_integer(json_object_get(row, "verified_on_gpu")));
    assert_int_equal(json_integer_value(json_object_get(row, "verified_on_gpu")), 0);
    for (size_t i = 0; verified && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        assert_true(json_real_value(json_object_get(row, numbers[i])) > 0);
    if (verified)
        assert_true(json_real_value(json_object_get(row, "p50_us")) <=
                    json_real_value(json_object_get(row, "p99_us")));
    return row;
}

static json_int_t row_integer(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static void sweep_over(const char *fabric)
{
    char words[128];

    snprintf(words, sizeof(words), "local --fabric %s --sizes 4K:16K,1M --iters 20 --json", fabric);
    bench_run(words);
    command_expect_code(&run, 0);
    json_t *root = report_parse();
    assert_int_equal(json_array_size(json_object_get(root, "results")), 8);
    for (size_t i = 0; i < 8; i++) {
        static const json_int_t sizes[] = {4096, 8192, 16384, 1048576};
        const json_t *row =
            row_expect(root, i, i < 4 ? "write" : "read", sizes[i % 4], fabric, true);
        assert_int_equal(row_integer(row, "iters"), 20);
        assert_int_equal(row_integer(row, "batch"), 1);
        assert_string_equal(json_string_value(json_object_get(row, "notify")), "native");
    }
    json_decref(root);
    command_expect_nothing_left();
}

static void test_sweep_tcp(void **state)
{
    (void)state;
    sweep_over("tcp");
}

static void test_sweep_local(void **state)
{
    (void)state;
    sweep_over("local");
}

static void test_batch_and_depth(void **state)
{
    (void)state;
    bench_run("local --fabric tcp --op read,write --sizes 1,4097 --batch 4 --depth 3 --iters 10 "
              "--warmup 1 --json");
    command_expect_code(&run, 0);
    json_t *root = report_parse();
    row_expect(root, 0, "read", 1, "tcp", true);
    row_expect(root, 1, "read", 4097, "tcp", true);
    const json_t *row = row_expect(root, 3, "write", 4097, "tcp", true);
    assert_int_equal(row_integer(row, "iters"), 10);
    assert_int_equal(row_integer(row, "batch"), 4);
    json_decref(root);
}

/* As many blocks in flight as are allowed: rings and mailbox fill up, and nothing is lost. */
static void test_many_in_flight(void **state)
{
    (void)state;
    bench_run("local --fabric tcp --sizes 64 --batch 8 --depth 128 --iters 512 --json");
    command_expect_code(&run, 0);
    json_t *root = report_parse();
    row_expect(root, 1, "read", 64, "tcp", true);
    json_decref(root);
}

static void test_notify_kinds(void **state)
{
    static const char *const kinds[] = {"none", "native", "oob"};
    char words[128];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(words, sizeof(words), "local --notify %s --sizes 8K --iters 10 --json", kinds[i]);
        bench_run(words);
        command_expect_code(&run, 0);
        json_t *root = report_parse();
        const json_t *row = json_array_get(json_object_get(root, "results"), 1);
        assert_string_equal(json_string_value(json_object_get(row, "notify")), kinds[i]);
        assert_true(json_is_true(json_object_get(row, "verified")));
        json_decref(root);
    }
}

static void test_private_memory(void **state)
{
    (void)state;
    bench_run("local --memory private --fabric tcp --sizes 100,1M --iters 10 --csv");
    command_expect_code(&run, 0);
    command_expect_text(run.out,
                        "op,block_bytes,batch,notify,fabric,iters,avg_us,p50_us,p99_us,gb_per_s,"
                        "verified\nwrite,100,1,native,tcp,10,");
    command_expect_text(run.out, "\nread,1048576,1,native,tcp,10,");
    assert_null(strstr(run.out, "false"));
}

static void test_idle_kinds(void **state)
{
    (void)state;
    bench_run("local --idle sleep --op write --sizes 4K --iters 10");
    command_expect_code(&run, 0);
    command_expect_text(run.out, "write");
    command_expect_text(run.out, "yes");
    command_expect_text(run.out, "one clock");
    bench_run("local --idle busy --op write --sizes 4K --iters 10");
    command_expect_code(&run, 0);
}

static void test_wrong_byte(void **state)
{
    static const char *const ops[] = {"write", "read"};
    char words[160];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        snprintf(words, sizeof(words),
                 "local --op %s --sizes 4K,64K --iters 20 --corrupt 7:4095 --json", ops[i]);
        bench_run(words);
        command_expect_code(&run, 1);
        command_expect_text(run.err, "wrong byte");
        command_expect_text(run.err, "iteration 7, block 0, offset 4095");
        json_t *root = report_parse();
        assert_int_equal(json_array_size(json_object_get(root, "results")), 1);
        const json_t *row = json_array_get(json_object_get(root, "results"), 0);
        assert_true(json_is_false(json_object_get(row, "verified")));
        json_decref(root);
        command_expect_nothing_left();
    }
}

static void test_usage_errors(void **state)
{
    static const struct {
        const char *words;
        const char *says;
    } cases[] = {
        {"", "local, target or initiator"},
        {"remote", "local, target, initiator"},
        {"local again", "one argument too many"},
        {"initiator", "HOST:PORT/SEGMENT"},
        {"local --op move", "write, read"},
        {"local --op write,write", "twice"},
        {"local --op ,", "write, read"},
        {"local --sizes 4X", "4K:64M"},
        {"local --sizes 4K;8K", "commas"},
        {"local --sizes 8K:4K", "upwards"},
        {"local --sizes 0", "1 to 1G"},
        {"local --sizes 2G", "1 to 1G"},
        {"local --sizes 99999999999999999999", "not a size"},
        {"local --iters 0", "1 to 10000000"},
        {"local --iters -1", "1 to 10000000"},
        {"local --warmup ten", "0 to 10000000"},
        {"local --batch 33 --depth 32", "1024"},
        {"local --depth 1025", "1 to 1024"},
        {"local --notify yes", "none, native, oob"},
        {"local --memory disk", "shared, private, gpu"},
        {"local --fabric ib", "auto, tcp, local, verbs"},
        {"local --idle lazy", "adaptive, busy, sleep"},
        {"local --json --csv", "exclude each other"},
        {"local --corrupt 3", "ITERATION:OFFSET"},
        {"local --segment x", "belongs to: target"},
        {"target --iters 3", "belongs to: local initiator"},
        {"local --nonsense", "nonsense"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_run(cases[i].words);
        command_expect_code(&run, 2);
        command_expect_text(run.err, cases[i].says);
        assert_string_equal(run.out, "");
    }
}

static void test_help(void **state)
{
    static const char *const ways[] = {"--help", "-h", "local --help"};

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        bench_run(ways[i]);
        command_expect_code(&run, 0);
        command_expect_text(run.out, "--sizes=LIST");
    }
}

static void test_no_supervisor(void **state)
{
    (void)state;
    bench_run("initiator --socket /nonexistent/tesup.sock 127.0.0.1:1/bench");
    command_expect_code(&run, 1);
    command_expect_text(run.err, "/nonexistent/tesup.sock");
    bench_run("target --socket /nonexistent/tesup.sock");
    command_expect_code(&run, 1);
    command_expect_text(run.err, "/nonexistent/tesup.sock");
}

/* Until `tesup bench local` has that many of its four processes, and the last one works. */
static void progress_wait(size_t children, uint64_t cpu_ms)
{
    struct wait wait = wait_begin("the processes of `tesup bench local`", WAIT_MS);
    pid_t pids[BENCH_CHILDREN];

    while (process_children(run.pid, pids, BENCH_CHILDREN) < children ||
           process_cpu_ms(pids[children - 1]) < cpu_ms)
        wait_step(&wait);
}

/* Interrupted before its supervisors are there, before its jobs are, and in the middle of a row. */
static void test_signal_cleans_up(void **state)
{
    static const struct {
        int number;
        size_t children;
        uint64_t cpu_ms;
    } signals[] = {{SIGINT, 1, 0}, {SIGTERM, 2, 0}, {SIGHUP, BENCH_CHILDREN, 100}};

    (void)state;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        command_start(&run, BENCH "local --sizes 4K --iters 10000000");
        progress_wait(signals[i].children, signals[i].cpu_ms);
        kill(run.pid, signals[i].number);
        command_end(&run);
        command_expect_code(&run, 128 + signals[i].number);
        command_expect_nothing_left();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage_errors),   cmocka_unit_test(test_help),
        cmocka_unit_test(test_no_supervisor),  cmocka_unit_test(test_sweep_tcp),
        cmocka_unit_test(test_sweep_local),    cmocka_unit_test(test_batch_and_depth),
        cmocka_unit_test(test_many_in_flight), cmocka_unit_test(test_notify_kinds),
        cmocka_unit_test(test_private_memory), cmocka_unit_test(test_idle_kinds),
        cmocka_unit_test(test_wrong_byte),     cmocka_unit_test(test_signal_cleans_up),

    };

    return cmocka_run_group_tests(tests, command_scratch_create, command_scratch_remove);
}
