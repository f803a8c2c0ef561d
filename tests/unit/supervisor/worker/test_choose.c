/* Which worker a job gets, for every way to ask for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/err.h"
#include "supervisor/worker/choose.h"

/* Of the fixture: GPU 03:00.0 and mlx5_1 on node 3, 44:00.0 and mlx5_0 on node 1, c4:00.0 and
 * mlx5_2 on node 5, 84:00.0 and mlx5_3 on node 7; nodes 0 to 3 are package 0. */
static const char machine_xml[] = TESUP_FIXTURES "/topology/nps4.xml";

static int supervisor_make(void **state)
{
    struct supervisor *supervisor = calloc(1, sizeof(*supervisor));
    char text[512];

    *state = supervisor;
    if (!supervisor || topology_load(machine_xml, &supervisor->topology, text, sizeof(text)) < 0 ||
        topology_plan_make(supervisor->topology, NULL, 0, &supervisor->plan, text, sizeof(text)) <
            0)
        return -1;
    supervisor->worker_count = (unsigned)supervisor->plan.count;
    supervisor->workers = calloc(supervisor->worker_count, sizeof(*supervisor->workers));
    for (unsigned i = 0; i < supervisor->worker_count; i++) {
        supervisor->workers[i].pair = &supervisor->plan.pair[i];
        supervisor->workers[i].state = WORKER_STATE_READY;
    }
    return 0;
}

static int supervisor_free(void **state)
{
    struct supervisor *supervisor = *state;

    topology_free(supervisor->topology);
    free(supervisor->workers);
    free(supervisor);
    return 0;
}

static struct worker_process *worker_find(struct supervisor *supervisor, const char *name)
{
    for (unsigned i = 0; i < supervisor->worker_count; i++)
        if (strcmp(supervisor->workers[i].pair->name, name) == 0)
            return &supervisor->workers[i];
    fail_msg("no worker is named %s", name);
    return NULL;
}

static void chosen_check(struct supervisor *supervisor, const char *wanted, int cpu,
                         const char *expected)
{
    char text[PROTO_TEXT_MAX] = "";
    int status = TS_OK;
    struct worker_process *worker =
        worker_choose(supervisor, wanted, cpu, &status, text, sizeof(text));

    if (!worker)
        fail_msg("'%s' on CPU %d: %s", wanted, cpu, text);
    if (strcmp(worker->pair->name, expected) != 0)
        fail_msg("'%s' on CPU %d: %s instead of %s", wanted, cpu, worker->pair->name, expected);
    assert_int_equal(status, TS_OK);
}

static void refusal_check(struct supervisor *supervisor, const char *wanted, int expected,
                          const char *phrase)
{
    char text[PROTO_TEXT_MAX] = "";
    int status = TS_OK;

    assert_null(worker_choose(supervisor, wanted, 0, &status, text, sizeof(text)));
    assert_int_equal(status, expected);
    if (!strstr(text, phrase))
        fail_msg("'%s': '%s' does not say '%s'", wanted, text, phrase);
}

static void by_names(void **state)
{
    chosen_check(*state, "mlx5_2+c4:00.0", 0, "mlx5_2+c4:00.0");
    chosen_check(*state, "mlx5_2", 0, "mlx5_2+c4:00.0");
    chosen_check(*state, "nic:mlx5_2", 0, "mlx5_2+c4:00.0");
    refusal_check(*state, "mlx5_9", TS_ERR_NOT_FOUND, "mlx5_1+03:00.0, mlx5_0+44:00.0");
    refusal_check(*state, "nic:", TS_ERR_NOT_FOUND, "no worker has the name");
    refusal_check(*state, "mlx5_", TS_ERR_NOT_FOUND, "no worker has the name");
}

static void by_bus_id_in_every_spelling(void **state)
{
    static const char *const spellings[] = {"0000:84:00.0",     "84:00.0",
                                            "00000000:84:00.0", "gpu:0000:84:00.0",
                                            "gpu:84:00.0",      "gpu:00000000:84:00.0"};

    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
        chosen_check(*state, spellings[i], 0, "mlx5_3+84:00.0");
    chosen_check(*state, "gpu:C4:00.0", 0, "mlx5_2+c4:00.0");
    refusal_check(*state, "gpu:05:00.0", TS_ERR_NOT_FOUND,
                  "there are: 0000:03:00.0, 0000:44:00.0, 0000:84:00.0, 0000:c4:00.0");
    refusal_check(*state, "gpu:", TS_ERR_NOT_FOUND, "no GPU is");
}

/* As CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID. */
static void by_index_in_pci_order(void **state)
{
    chosen_check(*state, "gpu:0", 0, "mlx5_1+03:00.0");
    chosen_check(*state, "gpu:1", 0, "mlx5_0+44:00.0");
    chosen_check(*state, "gpu:3", 0, "mlx5_2+c4:00.0");
    refusal_check(*state, "gpu:4", TS_ERR_NOT_FOUND, "no GPU is 4");
    refusal_check(*state, "gpu:-1", TS_ERR_NOT_FOUND, "no GPU is -1");
}

/* The list is the topology's own; the test writes into it what a driver would have said. */
static void uuid_set(struct supervisor *supervisor, size_t gpu, const char *uuid)
{
    const struct topology_device *device;

    topology_devices(supervisor->topology, &device);
    memcpy((char *)(uintptr_t)device[gpu].uuid, uuid, strlen(uuid) + 1);
}

static void by_uuid(void **state)
{
    refusal_check(*state, "GPU-8932", TS_ERR_NOT_FOUND, "there are: none");
    uuid_set(*state, 1, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
    uuid_set(*state, 2, "GPU-8932ffff-d72c-4106-c12f-20bd9faed9f6");
    chosen_check(*state, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 0, "mlx5_0+44:00.0");
    chosen_check(*state, "gpu:GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 0, "mlx5_0+44:00.0");
    chosen_check(*state, "gpu-8932FFFF", 0, "mlx5_3+84:00.0");
    refusal_check(*state, "GPU-8932", TS_ERR_NOT_FOUND,
                  "or more than one; there are: GPU-8932f937");
}

/* A node without a worker takes the nearest: of its package first. */
static void by_node(void **state)
{
    struct supervisor *supervisor = *state;

    chosen_check(supervisor, "numa:5", 0, "mlx5_2+c4:00.0");
    chosen_check(supervisor, "numa:1", 0, "mlx5_0+44:00.0");
    worker_find(supervisor, "mlx5_3+84:00.0")->job_count = 1;
    chosen_check(supervisor, "numa:4", 0, "mlx5_2+c4:00.0");
    worker_find(supervisor, "mlx5_2+c4:00.0")->job_count = 2;
    chosen_check(supervisor, "numa:4", 0, "mlx5_3+84:00.0");
    refusal_check(supervisor, "numa:8", TS_ERR_NOT_FOUND, "there are: 0, 1, 2, 3, 4, 5, 6, 7");
    refusal_check(supervisor, "numa:", TS_ERR_NOT_FOUND, "no NUMA node is");
    refusal_check(supervisor, "numa:x", TS_ERR_NOT_FOUND, "no NUMA node is x");
}

/* CPU 9 is of node 1, CPU 50 of node 6; -1: unknown. */
static void by_the_node_it_runs_on(void **state)
{
    struct supervisor *supervisor = *state;

    chosen_check(supervisor, "", 9, "mlx5_0+44:00.0");
    worker_find(supervisor, "mlx5_3+84:00.0")->job_count = 1;
    chosen_check(supervisor, "", 50, "mlx5_2+c4:00.0");
    worker_find(supervisor, "mlx5_1+03:00.0")->job_count = 1;
    worker_find(supervisor, "mlx5_0+44:00.0")->job_count = 1;
    chosen_check(supervisor, "", -1, "mlx5_2+c4:00.0");
    chosen_check(supervisor, "", 4096, "mlx5_2+c4:00.0");
}

static void one_that_was_given_up_is_the_last_choice(void **state)
{
    struct supervisor *supervisor = *state;
    struct worker_process *near = worker_find(supervisor, "mlx5_0+44:00.0");

    near->state = WORKER_STATE_STARTING;
    chosen_check(supervisor, "", 9, "mlx5_0+44:00.0"); /* it will be ready soon */
    near->state = WORKER_STATE_FAILED;
    chosen_check(supervisor, "", 9, "mlx5_1+03:00.0");
    refusal_check(supervisor, "mlx5_0", TS_ERR_UNREACHABLE, "has failed");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, supervisor_make, supervisor_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(by_names),
        TEST(by_bus_id_in_every_spelling),
        TEST(by_index_in_pci_order),
        TEST(by_uuid),
        TEST(by_node),
        TEST(by_the_node_it_runs_on),
        TEST(one_that_was_given_up_is_the_last_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
