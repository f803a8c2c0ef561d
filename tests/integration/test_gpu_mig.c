/* MIG instances: a pair names one by its UUID, and the jobs that use it come to that pair's worker.
 * The machine is that of a fixture; NVML and CUDA are the stand-ins. */
#include "tests/harness/test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/nvml.h"
#include "tests/harness/command.h"
#include "tests/harness/gpu.h"
#include "tests/harness/job.h"
#include "tests/harness/standin.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define MACHINE    TESUP_FIXTURES "/topology/nps4.xml"
#define SIZE       (UINT64_C(1) << 20)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define WHOLE      "mlx5_1+03:00.0" /* the pair of the GPU without instances */

static struct daemon tcp_left, tcp_right, auto_left, auto_right;
static char instance[2][NVML_UUID], whole[NVML_UUID];
static char config[200]; /* --config FILE */

/* ---- the machine ---- */

static void names_read(void)
{
    struct nvml_gpu gpus[NVML_GPUS_MAX];
    char text[200] = "";
    struct nvml *nvml = nvml_open(text, sizeof(text));

    if (nvml == NULL)
        fail_msg("%s", text);
    assert_int_equal(nvml_gpus(nvml, gpus), 2);
    assert_int_equal(gpus[0].mig_count, 2);
    memcpy(instance, gpus[0].mig, sizeof(instance));
    memcpy(whole, gpus[1].uuid, sizeof(whole));
    nvml_close(nvml);
}

static void start(struct daemon *daemon, const char *name, const char *fabric)
{
    char options[500];

    snprintf(options, sizeof(options),
             "--fabric %s --exclude 0000:84:00.0,0000:c4:00.0,mlx5_2,mlx5_3 --topology " MACHINE
             " %s",
             fabric, config);
    daemon_start(daemon, name, options);
}

/* The second one in the letters of somebody who types. */
static void config_write(void)
{
    char text[400], typed[NVML_UUID];

    memcpy(typed, instance[1], sizeof(typed));
    for (char *c = typed + 4; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    snprintf(text, sizeof(text), "[pair one]\ngpu = %s\n[pair two]\ngpu = %s\n", instance[0],
             typed);
    snprintf(config, sizeof(config), "%s", daemon_config(text));
}

/* ---- jobs, each a process whose CUDA is fresh ---- */

struct visit {
    const char *visible; /* CUDA_VISIBLE_DEVICES */
    const char *pair;    /* TESUP_PAIR */
    const struct daemon *left, *right;
    const char *worker; /* that the job must come to */
};

static void visit_begin(const struct visit *visit)
{
    setenv("CUDA_VISIBLE_DEVICES", visit->visible, 1);
    setenv("TESUP_PAIR", visit->pair, 1);
}

static void run(const char *label, job_function *function, struct visit *visit)
{
    struct job job;

    job_start(&job, label, function, visit);
    job_expect_success(&job, WAIT_MS);
}

static void move(const struct party *left, struct tesup_request request, uint32_t op,
                 cuda_pointer from, cuda_pointer to, uint64_t seed)
{
    request.op = op;
    gpu_fill(from, SIZE, seed);
    gpu_set(to, SIZE, 0xee);
    party_check(party_do(left->channel, &request).status, "a transfer");
    gpu_verify(to, SIZE, seed, "what was moved");
}

static void transfer_run(void *argument)
{
    const struct visit *visit = argument;
    struct tesup_request request = {.length = SIZE};
    struct party left, right;
    cuda_pointer here, there;

    visit_begin(visit);
    gpu_begin();
    party_attach(&left, visit->left, NULL);
    party_attach(&right, visit->right, NULL);
    here = gpu_alloc(SIZE);
    there = gpu_alloc(SIZE);
    request.local_region = gpu_register(&left, here, SIZE, READ_WRITE);
    request.remote_region = gpu_register(&right, there, SIZE, READ_WRITE);
    request.remote = party_open(&left, tesup_segment_name(right.session));
    move(&left, request, TESUP_OP_WRITE, here, there, 1);
    move(&left, request, TESUP_OP_READ, there, here, 2);
    party_check(tesup_mem_unregister(left.session, request.local_region), "unregister");
    party_check(tesup_mem_unregister(right.session, request.remote_region), "unregister");
    gpu_free(here);
    gpu_free(there);
    party_detach(&left);
    party_detach(&right);
    gpu_end();
}

static void transfers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        run("over tcp", transfer_run,
            &(struct visit){instance[i], "gpu:0", &tcp_left, &tcp_right, NULL});
        run("over local", transfer_run,
            &(struct visit){instance[i], "gpu:0", &auto_left, &auto_right, NULL});
    }
    run("of a whole GPU", transfer_run,
        &(struct visit){whole, "gpu:0", &auto_left, &auto_right, NULL});
}

/* The sentence has the words to come back with. */
static void wrong_instance_run(void *argument)
{
    const struct visit *visit = argument;
    tesup_region_t handle = 0;
    struct party party;
    char pair[100];
    cuda_pointer at;

    visit_begin(visit);
    gpu_begin();
    at = gpu_alloc(SIZE);
    party_attach(&party, visit->left, NULL);
    party_expect(
        tesup_mem_register_gpu(party.session, (void *)(uintptr_t)at, SIZE, READ_WRITE, &handle),
        TESUP_ERR_UNSUPPORTED);
    snprintf(pair, sizeof(pair), "attach with the pair gpu:%s", visit->visible);
    command_expect_text(tesup_last_error(), pair);
    party_detach(&party);
    setenv("TESUP_PAIR", strstr(pair, "gpu:"), 1);
    party_attach(&party, visit->left, NULL);
    handle = gpu_register(&party, at, SIZE, READ_WRITE);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    party_detach(&party);
    gpu_free(at);
    gpu_end();
}

static void another_instance_is_refused(void **state)
{
    (void)state;
    run("the second at the first's", wrong_instance_run,
        &(struct visit){instance[1], "one", &tcp_left, NULL, NULL});
    run("the first at the second's", wrong_instance_run,
        &(struct visit){instance[0], "two", &tcp_left, NULL, NULL});
}

/* ---- which worker, without CUDA ---- */

static bool cuda_is_loaded(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[600];
    bool found = false;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        found = found || strstr(line, "libcuda") != NULL;
    fclose(maps);
    return found;
}

static void placed_run(void *argument)
{
    const struct visit *visit = argument;
    struct party party;
    const json_t *session;
    json_t *document;

    visit_begin(visit);
    party_attach(&party, visit->left, NULL);
    document = status_document(visit->left);
    session = json_array_get(json_object_get(document, "sessions"), 0);
    assert_string_equal(json_string_value(json_object_get(session, "pair")), visit->worker);
    json_decref(document);
    party_detach(&party);
    assert_false(cuda_is_loaded());
}

static void jobs_come_to_their_instance(void **state)
{
    char old[80];

    (void)state;
    run("first", placed_run, &(struct visit){instance[0], "gpu:0", &tcp_left, NULL, "one"});
    run("second", placed_run, &(struct visit){instance[1], "gpu:0", &tcp_left, NULL, "two"});
    run("whole", placed_run, &(struct visit){whole, "gpu:0", &tcp_left, NULL, WHOLE});
    snprintf(old, sizeof(old), "MIG-%s/1/0", whole);
    run("old words", placed_run, &(struct visit){old, "gpu:0", &tcp_left, NULL, WHOLE});
}

static void unknown_run(void *argument)
{
    const struct visit *visit = argument;
    const struct tesup_options options = {.socket = visit->left->socket};
    struct tesup_session *session;

    visit_begin(visit);
    party_expect(tesup_attach(&options, &session), TESUP_ERR_NOT_FOUND);
    command_expect_text(tesup_last_error(), "no worker has the name, NIC or GPU gpu:");
    command_expect_text(tesup_last_error(), "one, two");
}

/* An instance that no pair names, and the GPU that is cut into instances. */
static void others_are_told_what_there_is(void **state)
{
    (void)state;
    run("instance", unknown_run,
        &(struct visit){"MIG-1c2d3e4f-0000-1111-2222-333344445555", "gpu:0", &tcp_left, NULL,
                        NULL});
    run("GPU", unknown_run, &(struct visit){"", "gpu:0000:44:00.0", &tcp_left, NULL, NULL});
}

/* ---- what is shown ---- */

static void shown(void **state)
{
    static struct command command; /* large */
    char words[700];

    (void)state;
    snprintf(words, sizeof(words), TESUP_BIN_DIR "/tesup status --name %s --runtime-dir %s",
             tcp_left.name, daemon_directory());
    command_run(&command, words);
    command_expect_text(command.out, instance[0]);
    command_expect_text(command.out, instance[1]);
    snprintf(words, sizeof(words), TESUP_BIN_DIR "/tesup topology --json --xml " MACHINE " %s",
             config);
    command_run(&command, words);
    snprintf(words, sizeof(words), "\"gpu\": \"%s\"", instance[1]);
    command_expect_text(command.out, words);
    command_expect_text(command.out, "MIG instance of 44:00.0");
}

/* ---- what a file may say ---- */

static void rules_refused(void **state)
{
    static const char *const texts[][2] = {
        {"[pair a]\ngpu = MIG-1c2d3e4f-0000-1111-2222-333344445555\n",
         "is not here; MIG instances: "
         "MIG-"},
        {"[pair a]\ngpu = %s\n[pair b]\ngpu = 44:00.0\n", "a GPU has one worker"},
        {"[pair a]\ngpu = %s\n[pair b]\ngpu = %s\n", "a GPU has one worker"},
    };
    static struct command command;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[400] = "", words[700];
        const char *at = texts[i][0], *gap;

        while ((gap = strstr(at, "%s")) != NULL) {
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s%s", (int)(gap - at),
                     at, instance[0]);
            at = gap + 2;
        }
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", at);
        snprintf(words, sizeof(words), TESUP_BIN_DIR "/tesup topology --xml " MACHINE " %s",
                 daemon_config(text));
        command_run(&command, words);
        command_expect_code(&command, 1);
        command_expect_text(command.err, texts[i][1]);
    }
}

static int group_setup(void **state)
{
    setenv("STANDIN_CUDA_DEVICES", "0000:44:00.0/mig0,0000:44:00.0/mig1,0000:03:00.0", 1);
    names_read();
    gpu_counters_begin();
    if (command_scratch_create(state) < 0 || daemon_group_setup(state) < 0)
        return -1;
    config_write();
    start(&tcp_left, "tcp-left", "tcp");
    start(&tcp_right, "tcp-right", "tcp");
    start(&auto_left, "auto-left", "auto");
    start(&auto_right, "auto-right", "auto");
    return 0;
}

static int group_teardown(void **state)
{
    daemon_stop(&tcp_left);
    daemon_stop(&tcp_right);
    daemon_stop(&auto_left);
    daemon_stop(&auto_right);
    gpu_counters_expect_clean();
    gpu_counters_end();
    return daemon_group_teardown(state) | command_scratch_remove(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(transfers, job_test_teardown),
        cmocka_unit_test_teardown(another_instance_is_refused, job_test_teardown),
        cmocka_unit_test_teardown(jobs_come_to_their_instance, job_test_teardown),
        cmocka_unit_test_teardown(others_are_told_what_there_is, job_test_teardown),
        cmocka_unit_test(shown),
        cmocka_unit_test(rules_refused),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
