/* What an operator sets instead of the plan, and what is said when it cannot be. */
#include "shape.h"

static const struct shape machine = {2,
                                     1,
                                     4,
                                     2,
                                     NULL,
                                     "node 0\n"
                                     "  host 00\n"
                                     "    gpu 01:00.0\n"
                                     "    gpu 02:00.0\n"
                                     "    nic 05:00.0 mlx5_0 4\n"
                                     "node 1\n"
                                     "  host 80\n"
                                     "    nic 85:00.0 mlx5_1 4\n"
                                     "    nic 86:00.0 mlx5_2 1\n"};

static const struct topology_rule rule_none = {.node = -1, .line = 7, .at = {8, 9, 10, 11}};

/* The rules of one section; free with free(). */
static struct topology_rules *rules_make(const char *name, const char *nic, const char *gpu,
                                         const char *cpus, int node)
{
    struct topology_rules *rules = calloc(1, sizeof(*rules));
    struct topology_rule *rule = &rules->rule[rules->count++];

    snprintf(rules->file, sizeof(rules->file), "x.conf");
    *rule = rule_none;
    snprintf(rule->name, sizeof(rule->name), "%s", name);
    snprintf(rule->nic, sizeof(rule->nic), "%s", nic);
    snprintf(rule->gpu, sizeof(rule->gpu), "%s", gpu);
    snprintf(rule->cpus, sizeof(rule->cpus), "%s", cpus);
    rule->node = node;
    return rules;
}

static const struct topology_pair *pair_find(const struct topology_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->pair[i].name, name) == 0)
            return &plan->pair[i];
    fail_msg("no pair is named %s", name);
    return NULL;
}

/* Frees the rules. */
static void plan_with(struct topology_rules *rules, struct topology_plan *plan)
{
    struct topology *topology = shape_load(&machine, NULL);
    char text[1024];

    if (topology_plan_make(topology, rules, 0, plan, text, sizeof(text)) < 0)
        fail_msg("%s", text);
    topology_free(topology);
    free(rules);
}

static void refusal_check(struct topology_rules *rules, unsigned workers, const char *expected)
{
    struct topology *topology = shape_load(&machine, NULL);
    struct topology_plan plan;
    char text[1024] = "";

    assert_int_equal(topology_plan_make(topology, rules, workers, &plan, text, sizeof(text)), -1);
    if (!strstr(text, expected))
        fail_msg("'%s' does not say '%s'", text, expected);
    topology_free(topology);
    free(rules);
}

static void without_rules(void **state)
{
    struct topology_plan plan;

    (void)state;
    plan_with(NULL, &plan);
    assert_int_equal(plan.count, 3);
    assert_string_equal(plan.pair[0].name, "mlx5_0+01:00.0");
    assert_string_equal(plan.pair[1].name, "mlx5_0+02:00.0");
    assert_string_equal(plan.pair[2].name, "mlx5_1");
}

static void nic_of_a_planned_pair(void **state)
{
    struct topology_plan plan;

    (void)state;
    plan_with(rules_make("mlx5_0+02:00.0", "mlx5_1", "", "", -1), &plan);
    assert_int_equal(plan.count, 2); /* mlx5_1 has a GPU now */
    const struct topology_pair *pair = pair_find(&plan, "mlx5_0+02:00.0");
    assert_string_equal(pair->nic, "mlx5_1");
    assert_string_equal(pair->gpu, "0000:02:00.0");
    assert_int_equal(pair->distance, TOPOLOGY_DISTANCE_SYS);
    assert_int_equal(pair->node, 0);
    assert_non_null(strstr(pair->reason, "[pair] on line 7 of the config; NIC and GPU are set"));
}

/* The GPU that a rule takes is not paired again, and the other one has mlx5_0 for itself. */
static void pair_of_ones_own(void **state)
{
    struct topology_plan plan;

    (void)state;
    plan_with(rules_make("prefill", "mlx5_1", "02:00.0", "", 1), &plan);
    assert_int_equal(plan.count, 2);
    const struct topology_pair *pair = pair_find(&plan, "prefill");
    assert_string_equal(pair->nic, "mlx5_1");
    assert_string_equal(pair->gpu, "0000:02:00.0");
    assert_int_equal(pair->node, 1);
    assert_int_equal(pair->cpu, 8);
    assert_null(strstr(pair_find(&plan, "mlx5_0+01:00.0")->reason, "shares"));
}

static void second_worker_of_a_nic(void **state)
{
    struct topology_plan plan;

    (void)state;
    plan_with(rules_make("spare", "mlx5_0", "", "", -1), &plan);
    assert_int_equal(plan.count, 4);
    assert_string_equal(pair_find(&plan, "spare")->gpu, "");
    assert_string_equal(pair_find(&plan, "spare")->nic, "mlx5_0");
    assert_int_equal(pair_find(&plan, "spare")->cpu, 4);
}

/* A down port can be named, and the reason says what it is. */
static void down_port_can_be_named(void **state)
{
    struct topology_plan plan;

    (void)state;
    plan_with(rules_make("later", "mlx5_2", "", "", -1), &plan);
    assert_string_equal(pair_find(&plan, "later")->port, "down");
    assert_non_null(strstr(pair_find(&plan, "later")->reason, "no port is active"));
}

static void cpus_are_taken_as_told(void **state)
{
    struct topology_plan plan;

    (void)state;
    plan_with(rules_make("mlx5_1", "", "", "0,4-5", -1), &plan);
    const struct topology_pair *pair = pair_find(&plan, "mlx5_1");
    assert_string_equal(pair->cpus, "0,4-5");
    assert_int_equal(pair->cpu, 0);
    assert_int_equal(pair->node, 0);
    /* The others keep off. */
    assert_int_equal(pair_find(&plan, "mlx5_0+01:00.0")->cpu, 2);
    assert_int_equal(pair_find(&plan, "mlx5_0+02:00.0")->cpu, 6);
}

static void node_is_taken_as_told(void **state)
{
    struct topology_plan plan;

    (void)state;
    plan_with(rules_make("mlx5_1", "", "", "", 0), &plan);
    assert_int_equal(pair_find(&plan, "mlx5_1")->node, 0);
    assert_int_equal(pair_find(&plan, "mlx5_1")->cpu, 4);
}

/* HBM gives the memory, its neighbour the core. */
static void node_without_cpus_gives_memory_only(void **state)
{
    struct topology *topology = fixture_load(FIXTURE("memory_nodes.xml"));
    struct topology_rules *rules = rules_make("tcp@node1", "", "", "", 3);
    struct topology_plan plan;
    char text[1024];

    (void)state;
    if (topology_plan_make(topology, rules, 0, &plan, text, sizeof(text)) < 0)
        fail_msg("%s", text);
    assert_int_equal(plan.pair[1].node, 3);
    assert_true(plan.pair[1].cpu >= 0);
    assert_string_equal(plan.pair[0].name, "tcp@node0");
    topology_free(topology);
    free(rules);
}

static void excluded_devices_are_not_used(void **state)
{
    struct topology_rules *rules = calloc(1, sizeof(*rules));
    struct topology_plan plan;

    (void)state;
    snprintf(rules->exclude, sizeof(rules->exclude), "mlx5_0, 0000:01:00.0");
    plan_with(rules, &plan);
    assert_int_equal(plan.count, 1);
    assert_string_equal(plan.pair[0].name, "mlx5_1+02:00.0");

    rules = calloc(1, sizeof(*rules));
    snprintf(rules->exclude, sizeof(rules->exclude), "mlx5_0 mlx5_1 mlx5_2 01:00.0 02:00.0");
    plan_with(rules, &plan);
    assert_int_equal(plan.count, 2);
    assert_string_equal(plan.pair[1].name, "tcp@node1");
    assert_non_null(strstr(plan.pair[0].reason, "excluded"));
}

static void reserved_cpus_are_never_used(void **state)
{
    struct topology_rules *rules = calloc(1, sizeof(*rules));
    struct topology_plan plan;

    (void)state;
    snprintf(rules->reserved_cpus, sizeof(rules->reserved_cpus), "0-2,8");
    plan_with(rules, &plan);
    assert_int_equal(plan.pair[0].cpu, 3);
    assert_int_equal(plan.pair[1].cpu, 4);
    assert_int_equal(plan.pair[2].cpu, 9);

    rules = calloc(1, sizeof(*rules));
    snprintf(rules->reserved_cpus, sizeof(rules->reserved_cpus), "0-7");
    plan_with(rules, &plan);
    for (size_t i = 0; i < plan.count; i++)
        assert_true(plan.pair[i].cpu >= 8);
}

static void impossible_rules_name_what_is_possible(void **state)
{
    struct topology_rules *rules;

    (void)state;
    refusal_check(rules_make("nobody", "", "", "3", -1), 0,
                  "x.conf:7: [pair nobody]: no pair has this name; give nic or gpu, or name one "
                  "of: mlx5_0+01:00.0, mlx5_0+02:00.0, mlx5_1");
    refusal_check(rules_make("a", "mlx5_9", "", "", -1), 0,
                  "x.conf:8: [pair a]: nic: 'mlx5_9' is not here; NICs: mlx5_0, mlx5_1, mlx5_2");
    refusal_check(rules_make("a", "", "09:00.0", "", -1), 0,
                  "x.conf:9: [pair a]: gpu: '09:00.0' is not here; GPUs: 0000:01:00.0, "
                  "0000:02:00.0");
    refusal_check(rules_make("mlx5_1", "", "", "15-16", -1), 0,
                  "x.conf:10: [pair mlx5_1]: cpus: CPU 16 is not there, not allowed or reserved; "
                  "CPUs: 0-15");
    refusal_check(rules_make("mlx5_1", "", "", "", 2), 0,
                  "x.conf:11: [pair mlx5_1]: node: 2 is not here; nodes: 0, 1");
    refusal_check(rules_make("mlx5_1", "", "", "", 0), 2, "use one of the two");

    rules = rules_make("a", "", "01:00.0", "", -1);
    rules->rule[rules->count] = rules->rule[0];
    snprintf(rules->rule[rules->count].name, TOPOLOGY_LABEL_MAX, "b");
    rules->rule[rules->count++].line = 12;
    refusal_check(rules, 0, "x.conf:12: [pair b]: the GPU is that of [pair a] on line 7");

    rules = calloc(1, sizeof(*rules));
    snprintf(rules->exclude, sizeof(rules->exclude), "mlx5_0,eth0");
    refusal_check(rules, 0, "exclude: nothing here is named 'eth0'; NICs: mlx5_0, mlx5_1");

    rules = calloc(1, sizeof(*rules));
    snprintf(rules->reserved_cpus, sizeof(rules->reserved_cpus), "0-15");
    refusal_check(rules, 0, "every allowed CPU is in reserved_cpus");

    rules = calloc(1, sizeof(*rules));
    snprintf(rules->reserved_cpus, sizeof(rules->reserved_cpus), "3,99");
    refusal_check(rules, 0, "CPUs that are not there; the last is 15");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rules),
        cmocka_unit_test(nic_of_a_planned_pair),
        cmocka_unit_test(pair_of_ones_own),
        cmocka_unit_test(second_worker_of_a_nic),
        cmocka_unit_test(down_port_can_be_named),
        cmocka_unit_test(cpus_are_taken_as_told),
        cmocka_unit_test(node_is_taken_as_told),
        cmocka_unit_test(node_without_cpus_gives_memory_only),
        cmocka_unit_test(excluded_devices_are_not_used),
        cmocka_unit_test(reserved_cpus_are_never_used),
        cmocka_unit_test(impossible_rules_name_what_is_possible),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
