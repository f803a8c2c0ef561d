/* Memory of a GPU in the drop-in: "*" finds it out, "cuda:N" says it; bytes move, and what is no
 * such memory is refused. */
#include "tests/compat/agent.h"

#include "tests/harness/gpu.h"
#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/standin.h"

#define SIZE (UINT64_C(1) << 20)

static void *pointer_of(cuda_pointer at)
{
    return (void *)(uintptr_t)at;
}

static void move(const struct agent *left, cuda_pointer here, int opcode, int target,
                 cuda_pointer there)
{
    struct agent mover = *left;

    mover.bytes = pointer_of(here);
    assert_int_equal(agent_do(&mover, opcode, target, there, SIZE, 1, NULL), STATUS_COMPLETED);
}

static void gpu_to_gpu(const char *location)
{
    const struct site *site = &sites[SITE_TCP];
    struct agent left, right;
    cuda_pointer here = gpu_alloc(SIZE), there = gpu_alloc(SIZE);
    int target;

    agent_begin(&left, site->left, 4096);
    agent_begin(&right, site->right, 4096);
    assert_int_equal(registerLocalMemory(left.engine, pointer_of(here), SIZE, location, 1), 0);
    assert_int_equal(registerLocalMemory(right.engine, pointer_of(there), SIZE, location, 1), 0);
    target = agent_open(&left, right.name);
    gpu_fill(here, SIZE, 1);
    move(&left, here, OPCODE_WRITE, target, there);
    gpu_verify(there, SIZE, 1, "written");
    gpu_fill(there, SIZE, 2);
    move(&left, here, OPCODE_READ, target, there);
    gpu_verify(here, SIZE, 2, "read");
    assert_int_equal(unregisterLocalMemory(left.engine, pointer_of(here)), 0);
    assert_int_equal(unregisterLocalMemory(right.engine, pointer_of(there)), 0);
    agent_end(&left);
    agent_end(&right);
    gpu_free(here);
    gpu_free(there);
}

static void found_out(void **state)
{
    (void)state;
    gpu_to_gpu("*");
}

static void said(void **state)
{
    (void)state;
    gpu_to_gpu("cuda:0");
}

static void refused(void **state)
{
    cuda_pointer at = gpu_alloc(SIZE);
    struct agent agent;

    (void)state;
    agent_begin(&agent, sites[SITE_TCP].left, 4096);
    assert_int_equal(registerLocalMemory(agent.engine, pointer_of(at), SIZE + 1, "*", 1), -1);
    assert_int_equal(registerLocalMemory(agent.engine, pointer_of(at), SIZE + 1, "cuda:0", 1), -1);
    gpu_free(at);
    assert_int_equal(registerLocalMemory(agent.engine, pointer_of(at), SIZE, "cuda:0", 1), -1);
    agent_end(&agent);
}

static int group_setup(void **state)
{
    gpu_counters_begin();
    if (site_group_setup(state) < 0)
        return -1;
    gpu_begin();
    return 0;
}

static int group_teardown(void **state)
{
    int rc;

    gpu_end();
    rc = site_group_teardown(state);
    gpu_counters_expect_clean();
    gpu_counters_end();
    return rc;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_out),
        cmocka_unit_test(said),
        cmocka_unit_test(refused),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
