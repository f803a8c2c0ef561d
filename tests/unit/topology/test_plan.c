/* Which worker goes where: expected plans of small machines, and rules that hold for every plan. */
#include "topology_fixture.h"

struct expected_pair {
    const char *name;
    int node;
    int cpu;
    const char *reason; /* a part of it */
};

static void plan_load(const struct topology *topology, unsigned workers, struct topology_plan *plan)
{
    char text[512] = "";

    if (topology_plan_make(topology, NULL, workers, plan, text, sizeof(text)) < 0)
        fail_msg("%u workers: %s", workers, text);
}

static void plan_check(const char *path, unsigned workers, const struct expected_pair *expected,
                       size_t count)
{
    struct topology *topology = fixture_load(path);
    struct topology_plan plan;

    plan_load(topology, workers, &plan);
    assert_int_equal(plan.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(plan.pair[i].name, expected[i].name);
        assert_int_equal(plan.pair[i].node, expected[i].node);
        assert_int_equal(plan.pair[i].cpu, expected[i].cpu);
        if (!strstr(plan.pair[i].reason, expected[i].reason))
            fail_msg("'%s' does not say '%s'", plan.pair[i].reason, expected[i].reason);
    }
    topology_free(topology);
}

#define PLAN_CHECK(path, workers, ...)                                   \
    do {                                                                 \
        const struct expected_pair list[] = {__VA_ARGS__};               \
        plan_check(path, workers, list, sizeof(list) / sizeof(list[0])); \
    } while (0)

static void one_worker_per_node(void **state)
{
    (void)state;
    PLAN_CHECK(FIXTURE("two_nodes_smt.xml"), 0, {"tcp@node0", 0, 0, "one tcp worker per NUMA node"},
               {"tcp@node1", 1, 4, "one tcp worker per NUMA node"});
}

static void pair_is_complete(void **state)
{
    struct topology *topology = fixture_load(FIXTURE("two_nodes_smt.xml"));
    struct topology_plan plan;

    (void)state;
    plan_load(topology, 0, &plan);
    assert_int_equal(plan.count, 2);
    assert_string_equal(plan.pair[1].fabric, "tcp");
    assert_string_equal(plan.pair[1].nic, "");
    assert_string_equal(plan.pair[1].gpu, "");
    assert_string_equal(plan.pair[1].cpus, "4");
    topology_free(topology);
}

static void memory_nodes_get_no_worker(void **state)
{
    (void)state;
    PLAN_CHECK(FIXTURE("memory_nodes.xml"), 0, {"tcp@node0", 0, 0, ""}, {"tcp@node1", 1, 2, ""});
}

static void nodes_outside_the_cpuset_get_no_worker(void **state)
{
    (void)state;
    PLAN_CHECK(FIXTURE("cpuset_one_node.xml"), 0, {"tcp@node0", 0, 0, ""});
    PLAN_CHECK(FIXTURE("mems_one_node.xml"), 0, {"tcp@node1", 1, 4, ""});
}

/* Cores first (0, 4, 2, 6), then their siblings, then sharing; each said. */
static void workers_spread_over_cores(void **state)
{
    (void)state;
    PLAN_CHECK(FIXTURE("two_nodes_smt.xml"), 9, {"tcp@node0", 0, 0, "worker 1 of 9"},
               {"tcp@node1", 1, 4, "spread over the NUMA nodes"}, {"tcp@node0.1", 0, 2, ""},
               {"tcp@node1.1", 1, 6, ""}, {"tcp@node0.2", 0, 1, "SMT sibling of tcp@node0:"},
               {"tcp@node1.2", 1, 5, "SMT sibling of tcp@node1:"},
               {"tcp@node0.3", 0, 3, "SMT sibling of tcp@node0.1:"},
               {"tcp@node1.3", 1, 7, "SMT sibling of tcp@node1.1:"},
               {"tcp@node0.4", 0, 0, "shares CPU 0 with tcp@node0:"});
}

/* One CPU on node 0, two cores with two CPUs on node 1: a free core beats an even spread. */
static void free_core_beats_even_spread(void **state)
{
    (void)state;
    PLAN_CHECK(FIXTURE("cpuset_narrow.xml"), 4, {"tcp@node0", 0, 0, ""}, {"tcp@node1", 1, 4, ""},
               {"tcp@node1.1", 1, 6, ""}, {"tcp@node1.2", 1, 5, "SMT sibling of tcp@node1:"});
}

static void refusal_check(const struct topology *topology, unsigned workers, const char *why)
{
    struct topology_plan plan;
    char text[512] = "";

    assert_int_equal(topology_plan_make(topology, NULL, workers, &plan, text, sizeof(text)), -1);
    if (!strstr(text, why))
        fail_msg("'%s' does not say '%s'", text, why);
}

static void impossible_plans_are_refused(void **state)
{
    char path[64];

    (void)state;
    struct topology *topology = fixture_load(FIXTURE("two_nodes_smt.xml"));
    refusal_check(topology, TOPOLOGY_PAIRS_MAX + 1, "at most 64");
    topology_free(topology);

    topology = fixture_load(FIXTURE("nothing_allowed.xml"));
    refusal_check(topology, 0, "cpuset.cpus");
    refusal_check(topology, 1, "cpuset.cpus");
    topology_free(topology);

    fixture_synthetic("numa:65 pu:1", path, sizeof(path));
    topology = fixture_load(path);
    refusal_check(topology, 0, "--workers");
    topology_free(topology);
    unlink(path);
}

static const struct topology_node *node_by_index(const struct topology *topology, int os_index)
{
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node);

    for (size_t i = 0; i < count; i++)
        if (node[i].os_index == os_index)
            return &node[i];
    fail_msg("the plan names node %d, which does not exist", os_index);
    return NULL;
}

/* The worker's CPU is its node's own and allowed; names differ. */
static void pair_rules_check(const struct topology *topology, const struct topology_plan *plan,
                             size_t own)
{
    const struct topology_pair *pair = &plan->pair[own];
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    char list[16];

    assert_non_null(cpus);
    hwloc_bitmap_list_sscanf(cpus, node_by_index(topology, pair->node)->cpus);
    assert_true(pair->cpu >= 0);
    assert_true(hwloc_bitmap_isset(cpus, (unsigned)pair->cpu));
    hwloc_bitmap_free(cpus);
    snprintf(list, sizeof(list), "%d", pair->cpu);
    assert_string_equal(pair->cpus, list);
    for (size_t i = 0; i < own; i++)
        assert_string_not_equal(plan->pair[i].name, pair->name);
}

static size_t workers_on_cpu(const struct topology_plan *plan, int cpu)
{
    size_t found = 0;

    for (size_t i = 0; i < plan->count; i++)
        if (plan->pair[i].cpu == cpu)
            found++;
    return found;
}

/* No CPU has two workers more than another: so none is shared while a free one is left. */
static void plan_rules_check(const struct topology *topology, const struct topology_plan *plan)
{
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node);
    size_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += node[i].cpu_count;
    for (size_t i = 0; i < plan->count; i++) {
        pair_rules_check(topology, plan, i);
        assert_true((workers_on_cpu(plan, plan->pair[i].cpu) - 1) * total < plan->count);
    }
}

static void rules_check(const struct topology *topology)
{
    struct topology_plan plan;

    for (unsigned workers = 0; workers <= TOPOLOGY_PAIRS_MAX; workers++) {
        plan_load(topology, workers, &plan);
        assert_true(workers ? plan.count == workers : plan.count > 0);
        plan_rules_check(topology, &plan);
    }
}

static void rules_hold_for_fixtures(void **state)
{
    static const char *const names[] = {
        FIXTURE("two_nodes_smt.xml"),   FIXTURE("devices.xml"),       FIXTURE("memory_nodes.xml"),
        FIXTURE("cpuset_one_node.xml"), FIXTURE("cpuset_narrow.xml"), FIXTURE("mems_one_node.xml"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct topology *topology = fixture_load(names[i]);
        rules_check(topology);
        topology_free(topology);
    }
}

static void rules_hold_for_this_machine(void **state)
{
    struct topology *topology = fixture_load(NULL);

    (void)state;
    rules_check(topology);
    topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_per_node),
        cmocka_unit_test(pair_is_complete),
        cmocka_unit_test(memory_nodes_get_no_worker),
        cmocka_unit_test(nodes_outside_the_cpuset_get_no_worker),
        cmocka_unit_test(workers_spread_over_cores),
        cmocka_unit_test(free_core_beats_even_spread),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(rules_hold_for_fixtures),
        cmocka_unit_test(rules_hold_for_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
