/* The plan is what runs, and a job gets the worker that it asks for: on the machine of a fixture,
 * whose CPUs this one may not have: its workers say so and run nevertheless.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/harness/command.h"
#include "tests/harness/daemon.h"
#include "tests/harness/party.h"
#include "tests/harness/test.h"
#include "tests/harness/wait.h"

#define MACHINE TESUP_FIXTURES "/topology/nps4.xml"
#define TESUP   TESUP_BIN_DIR "/tesup "
#define WORKERS 4

static const char *const names[WORKERS] = {"mlx5_1+03:00.0", "mlx5_0+44:00.0", "mlx5_3+84:00.0",
                                           "mlx5_2+c4:00.0"};

static struct command command;
static struct daemon daemon_here;

static int group_setup(void **state)
{
    if (command_scratch_create(state) < 0 || daemon_group_setup(state) < 0)
        return -1;
    daemon_start(&daemon_here, "placed", "--workers 0 --topology " MACHINE);
    return 0;
}

static int group_teardown(void **state)
{
    daemon_stop(&daemon_here);
    return daemon_group_teardown(state) | command_scratch_remove(state);
}

/* Free it with json_decref(). */
static json_t *json_run(const char *words)
{
    command_run(&command, words);
    json_t *json = json_loads(command.out, 0, NULL);
    if (!json)
        fail_msg("%s: no JSON: %s%s", words, command.out, command.err);
    return json;
}

static json_t *status_run(void)
{
    char words[512];

    snprintf(words, sizeof(words), TESUP "status --json --name %s --runtime-dir %s",
             daemon_here.name, daemon_directory());
    return json_run(words);
}

static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_null(value) ? "" : json_string_value(value);
}

static void the_plan_runs(void **state)
{
    static const char *const keys[] = {"name", "gpu", "nic", "fabric", "cpus", "reason"};
    json_t *plan = json_run(TESUP "topology --json --xml " MACHINE), *status = status_run();
    const json_t *planned = json_object_get(plan, "pairs");
    const json_t *running = json_object_get(status, "pairs");

    (void)state;
    assert_int_equal(json_array_size(planned), WORKERS);
    assert_int_equal(json_array_size(running), WORKERS);
    for (size_t i = 0; i < WORKERS; i++) {
        const json_t *one = json_array_get(planned, i), *other = json_array_get(running, i);
        assert_string_equal(text_of(one, "name"), names[i]);
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            assert_string_equal(text_of(one, keys[k]), text_of(other, keys[k]));
        assert_int_equal(json_integer_value(json_object_get(one, "numa_node")),
                         json_integer_value(json_object_get(other, "numa_node")));
    }
    json_decref(plan);
    json_decref(status);
}

/* The worker of the only session that is attached. */
static void session_expect(const char *pair, const char *name)
{
    json_t *status = status_run();
    const json_t *sessions = json_object_get(status, "sessions");

    assert_int_equal(json_array_size(sessions), 1);
    if (strcmp(text_of(json_array_get(sessions, 0), "pair"), name) != 0)
        fail_msg("'%s' got worker %s instead of %s", pair,
                 text_of(json_array_get(sessions, 0), "pair"), name);
    json_decref(status);
}

static void no_session_wait(void)
{
    struct wait wait = wait_begin("the end of the session", WAIT_MS);

    for (;;) {
        json_t *status = status_run();
        size_t left = json_array_size(json_object_get(status, "sessions"));
        json_decref(status);
        if (left == 0)
            return;
        wait_step(&wait);
    }
}

static void attach_expect(const char *pair, const char *name)
{
    const struct tesup_options options = {.socket = daemon_here.socket, .pair = pair};
    struct tesup_session *session;

    if (tesup_attach(&options, &session))
        fail_msg("%s: %s", pair ? pair : "(none)", tesup_last_error());
    session_expect(pair, name);
    tesup_detach(session);
    no_session_wait();
}

static void job_gets_the_worker_that_it_names(void **state)
{
    (void)state;
    attach_expect("mlx5_3+84:00.0", names[2]);
    attach_expect("mlx5_0", names[1]);
    attach_expect("nic:mlx5_2", names[3]);
    attach_expect("0000:03:00.0", names[0]);
    attach_expect("gpu:00000000:C4:00.0", names[3]);
    attach_expect("numa:7", names[2]);
}

static void job_counts_gpus_as_cuda_does(void **state)
{
    (void)state;
    attach_expect("gpu:1", names[1]);
    setenv("CUDA_VISIBLE_DEVICES", "3,0", 1);
    attach_expect("gpu:0", names[3]);
    attach_expect("gpu:1", names[0]);
    setenv("TESUP_PAIR", "gpu:0", 1);
    attach_expect(NULL, names[3]);
    unsetenv("TESUP_PAIR");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void run_names_the_worker(void **state)
{
    char words[512];

    (void)state;
    snprintf(words, sizeof(words),
             TESUP "run --name %s --runtime-dir %s --gpu 84:00.0 -- printenv TESUP_PAIR",
             daemon_here.name, daemon_directory());
    command_run(&command, words);
    command_expect_code(&command, 0);
    command_expect_text(command.out, "gpu:84:00.0");
    command_run(&command, TESUP "run --pair a --numa 1 -- true");
    command_expect_code(&command, 2);
    command_expect_text(command.err, "use one of them");
    command_run(&command, TESUP "run --bind -- true");
    command_expect_code(&command, 2);
    command_expect_text(command.err, "--pair, --gpu or --numa");
}

/* On this machine itself: beside the worker, not on its core, with memory of its node. */
static void run_binds_the_job(void **state)
{
    (void)state;
    command_run(&command,
                TESUP "run --private --serve-arg=--workers=1 --pair tcp@node0 --bind -- nproc");
    command_expect_code(&command, 0);
    long cpus = strtol(command.out, NULL, 10), all = sysconf(_SC_NPROCESSORS_ONLN);
    assert_true(cpus >= 1 && (all == 1 || cpus < all));
    command_run(&command, TESUP "run --private --serve-arg=--workers=1 --pair tcp@node0 --bind -- "
                                "head -n1 /proc/self/numa_maps");
    command_expect_code(&command, 0);
    command_expect_text(command.out, " prefer:0 ");
    command_run(&command, TESUP "run --private --pair mlx5_9 --bind -- true");
    command_expect_code(&command, 125);
    command_expect_text(command.err, "no worker has the name, NIC or GPU mlx5_9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_runs),
        cmocka_unit_test(job_gets_the_worker_that_it_names),
        cmocka_unit_test(job_counts_gpus_as_cuda_does),
        cmocka_unit_test(run_names_the_worker),
        cmocka_unit_test(run_binds_the_job),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
