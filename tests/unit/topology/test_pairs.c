/* Which worker serves what, on machines of every kind that matters. */
#include "shape.h"

struct expected_pair {
    const char *name, *distance;
    int node, cpu;
    const char *reason; /* a part of it */
};

#define PAIRS_MAX 16

struct expected_machine {
    const char *title;
    struct shape shape;
    struct expected_pair pair[PAIRS_MAX]; /* until the first without a name */
};

static const struct expected_machine machines[] = {
    {"two dual-port cards and four GPUs on a node: all four ports are used",
     {1, 1, 8, 2, NULL,
      "node 0\n"
      "  host 00\n"
      "    bridge 00:01.0\n"
      "      gpu 01:00.0\n"
      "    bridge 00:02.0\n"
      "      gpu 02:00.0\n"
      "    bridge 00:03.0\n"
      "      gpu 03:00.0\n"
      "    bridge 00:04.0\n"
      "      gpu 04:00.0\n"
      "    bridge 00:05.0\n"
      "      nic 05:00.0 mlx5_0 4\n"
      "      nic 05:00.1 mlx5_1 4\n"
      "    bridge 00:06.0\n"
      "      nic 06:00.0 mlx5_2 4\n"
      "      nic 06:00.1 mlx5_3 4\n"},
     {{"mlx5_0+01:00.0", "PHB", 0, 0, "one of 4 nearest NICs (PHB"},
      {"mlx5_1+02:00.0", "PHB", 0, 2, "one of 4 nearest NICs"},
      {"mlx5_2+03:00.0", "PHB", 0, 4, ""},
      {"mlx5_3+04:00.0", "PHB", 0, 6, ""}}},
    {"two devices with two ports each",
     {1, 1, 8, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    gpu 01:00.0\n"
      "    gpu 02:00.0\n"
      "    gpu 03:00.0\n"
      "    nic 05:00.0 mlx4_0 4 4\n"
      "    nic 06:00.0 mlx4_1 4 1\n"},
     {{"mlx4_0:1+01:00.0", "PHB", 0, 0, "one of 3 nearest NICs"},
      {"mlx4_0:2+02:00.0", "PHB", 0, 1, "one of 3 nearest NICs"},
      {"mlx4_1:1+03:00.0", "PHB", 0, 2, "one of 3 nearest NICs"}}},
    {"the tenth NIC comes after the second",
     {1, 1, 4, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    nic 05:00.0 mlx5_10 4\n"
      "    nic 06:00.0 mlx5_2 4\n"
      "    gpu 01:00.0\n"},
     {{"mlx5_2+01:00.0", "PHB", 0, 0, ""}, {"mlx5_10", "-", 0, 1, "no GPU is left"}}},
    {"a port that is down is no NIC",
     {1, 1, 4, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    gpu 01:00.0\n"
      "    nic 05:00.0 mlx5_0 1\n"
      "    nic 06:00.0 mlx5_1 4\n"
      "    roce 07:00.0 mlx5_2 2\n"},
     {{"mlx5_1+01:00.0", "PHB", 0, 0, "nearest NIC"}}},
    {"all ports are down",
     {1, 1, 4, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    gpu 01:00.0\n"
      "    nic 05:00.0 mlx5_0 1\n"
      "    eth 06:00.0 eno1\n"},
     {{"tcp+01:00.0", "-", 0, 0, "no usable RDMA NIC: mlx5_0: no port is active: port 1 is down"}}},
    {"virtual functions of a card that is there itself",
     {1, 1, 8, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    bridge 00:01.0\n"
      "      gpu 01:00.0\n"
      "    bridge 00:02.0\n"
      "      gpu 02:00.0\n"
      "    bridge 00:05.0\n"
      "      nic 05:00.0 mlx5_0 4\n"
      "      vf 05:00.2 mlx5_1 4\n"
      "      vf 05:00.3 mlx5_2 4\n"},
     {{"mlx5_0+01:00.0", "PHB", 0, 0, "shares it with 1 other GPU"},
      {"mlx5_0+02:00.0", "PHB", 0, 1, "shares it with 1 other GPU"}}},
    {"virtual functions alone, as a virtual machine sees them",
     {1, 1, 8, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    gpu 01:00.0\n"
      "    gpu 02:00.0\n"
      "    vf 05:00.2 mlx5_0 4\n"
      "    vf 06:00.2 mlx5_1 4\n"},
     {{"mlx5_0+01:00.0", "PHB", 0, 0, ""}, {"mlx5_1+02:00.0", "PHB", 0, 1, ""}}},
    {"several switches, a nearer NIC behind fewer of them",
     {2, 1, 4, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    bridge 00:01.0\n"
      "      bridge 01:00.0\n"
      "        bridge 02:00.0\n"
      "          bridge 03:00.0\n"
      "            bridge 04:00.0\n"
      "              gpu 05:00.0\n"
      "            bridge 04:01.0\n"
      "              gpu 06:00.0\n"
      "              vga 06:01.0\n"
      "        bridge 02:01.0\n"
      "          nic 07:00.0 mlx5_1 4\n"
      "    bridge 00:02.0\n"
      "      nic 08:00.0 mlx5_0 4\n"},
     {{"mlx5_1+05:00.0", "PXB", 0, 0, "nearest NIC (PXB, several PCIe switches)"},
      {"mlx5_1+06:00.0", "PXB", 0, 1, "shares it"},
      {"mlx5_0", "-", 0, 2, "no GPU is left for this NIC"}}},
    {"SNC: no NIC on the node, one in the package and one beyond",
     {2, 2, 4, 2, NULL,
      "node 0\n"
      "  host 10\n"
      "    gpu 11:00.0\n"
      "node 1\n"
      "  host 20\n"
      "    nic 21:00.0 mlx5_1 4\n"
      "node 2\n"
      "  host 30\n"
      "    nic 31:00.0 mlx5_0 4\n"
      "    amd 32:00.0\n"},
     {{"mlx5_1+11:00.0", "SYS", 0, 0, "no NIC on node 0: the nearest is on node 1 of its package"},
      {"mlx5_0+32:00.0", "PHB", 2, 16, "nearest NIC"}}},
    {"two NICs in the package: then by load",
     {2, 2, 4, 1, NULL,
      "node 0\n"
      "  host 10\n"
      "    gpu 11:00.0\n"
      "    gpu 12:00.0\n"
      "node 1\n"
      "  host 20\n"
      "    nic 21:00.0 mlx5_0 4\n"
      "  host 28\n"
      "    nic 29:00.0 mlx5_1 4\n"},
     {{"mlx5_0+11:00.0", "SYS", 0, 0, ""}, {"mlx5_1+12:00.0", "SYS", 0, 1, ""}}},
    {"locality hidden, one host bridge: still known from the PCI tree",
     {2, 1, 4, 1, NULL,
      "machine\n"
      "  host 00\n"
      "    bridge 00:01.0\n"
      "      gpu 01:00.0\n"
      "    nic 00:05.0 mlx5_0 4\n"},
     {{"mlx5_0+01:00.0", "PHB", 0, 0, "NUMA node unknown: the core is on the emptiest node"}}},
    {"locality hidden, two host bridges: nothing is known, and said so",
     {2, 1, 4, 1, NULL,
      "machine\n"
      "  host 00\n"
      "    gpu 00:01.0\n"
      "    gpu 00:02.0\n"
      "  host 80\n"
      "    nic 80:05.0 mlx5_0 4\n"
      "    nic 80:06.0 mlx5_1 4\n"},
     {{"mlx5_0+00:01.0", "unknown", 0, 0, "hides the NUMA node of 00:01.0: distance unknown"},
      {"mlx5_1+00:02.0", "unknown", 1, 4, "the core is on the emptiest node"}}},
    {"a package of two nodes hides which one: nearer than the other package",
     {2, 2, 4, 1, NULL,
      "package 0\n"
      "  host 00\n"
      "    gpu 00:01.0\n"
      "node 0\n"
      "  host 10\n"
      "    nic 10:01.0 mlx5_1 4\n"
      "node 2\n"
      "  host 20\n"
      "    nic 20:01.0 mlx5_0 4\n"},
     {{"mlx5_1+00:01.0", "unknown", 0, 0, "hides the NUMA node of 00:01.0"},
      {"mlx5_0", "-", 2, 8, ""}}},
    {"a cpuset narrower than the node: the second worker is on the next node",
     {2, 1, 4, 2, "0,1,8-15",
      "node 0\n"
      "  host 00\n"
      "    gpu 01:00.0\n"
      "    gpu 02:00.0\n"
      "    nic 05:00.0 mlx5_0 4\n"},
     {{"mlx5_0+01:00.0", "PHB", 0, 0, ""},
      {"mlx5_0+02:00.0", "PHB", 1, 8, "no free core on node 0: runs on node 1"}}},
    {"a node without an allowed CPU, and those at home have their cores first",
     {2, 1, 2, 2, "4-7",
      "node 0\n"
      "  host 00\n"
      "    gpu 01:00.0\n"
      "    nic 05:00.0 mlx5_0 4\n"
      "node 1\n"
      "  host 80\n"
      "    gpu 81:00.0\n"
      "    gpu 82:00.0\n"
      "    nic 85:00.0 mlx5_1 4\n"},
     {{"mlx5_0+01:00.0", "PHB", 1, 5, "SMT sibling of mlx5_1+81:00.0: no core is free"},
      {"mlx5_1+81:00.0", "PHB", 1, 4, ""},
      {"mlx5_1+82:00.0", "PHB", 1, 6, ""}}},
    {"more workers than CPUs",
     {1, 1, 1, 1, NULL,
      "node 0\n"
      "  host 00\n"
      "    gpu 01:00.0\n"
      "    gpu 02:00.0\n"
      "    nic 05:00.0 mlx5_0 4\n"},
     {{"mlx5_0+01:00.0", "PHB", 0, 0, ""},
      {"mlx5_0+02:00.0", "PHB", 0, 0, "shares CPU 0 with mlx5_0+01:00.0: more workers than CPUs"}}},
    {"graphics of a management controller, and nothing else",
     {1, 1, 2, 1, NULL, "node 0\n  host 00\n    vga 01:00.0\n    eth 02:00.0 eno1\n"},
     {{"tcp@node0", "-", 0, 0, "no RDMA NIC in this machine: one tcp worker per NUMA node"}}},
};

static void pair_check(const char *title, const struct topology_pair *pair,
                       const struct expected_pair *expected)
{
    if (strcmp(pair->name, expected->name) != 0)
        fail_msg("%s: pair %s instead of %s", title, pair->name, expected->name);
    if (strcmp(topology_distance_name(pair->distance), expected->distance) != 0)
        fail_msg("%s: %s is %s instead of %s", title, pair->name,
                 topology_distance_name(pair->distance), expected->distance);
    if (pair->node != expected->node || pair->cpu != expected->cpu)
        fail_msg("%s: %s is on node %d, CPU %d instead of %d, %d", title, pair->name, pair->node,
                 pair->cpu, expected->node, expected->cpu);
    if (!strstr(pair->reason, expected->reason))
        fail_msg("%s: %s: '%s' does not say '%s'", title, pair->name, pair->reason,
                 expected->reason);
}

static void machine_check(const struct expected_machine *expected)
{
    struct topology *topology = shape_load(&expected->shape, NULL);
    struct topology_plan plan;
    char text[512];
    size_t count = 0;

    if (topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)) < 0)
        fail_msg("%s: %s", expected->title, text);
    for (; count < PAIRS_MAX && expected->pair[count].name; count++)
        if (count < plan.count)
            pair_check(expected->title, &plan.pair[count], &expected->pair[count]);
    if (plan.count != count)
        fail_msg("%s: %zu pairs instead of %zu", expected->title, plan.count, count);
    topology_free(topology);
}

static void machines_are_paired_as_expected(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        machine_check(&machines[i]);
}

static void nps4_fixture_is_paired_as_expected(void **state)
{
    static const struct expected_pair expected[] = {{"mlx5_1+03:00.0", "PIX", 3, 24, "nearest"},
                                                    {"mlx5_0+44:00.0", "PIX", 1, 8, "nearest"},
                                                    {"mlx5_3+84:00.0", "PIX", 7, 56, "nearest"},
                                                    {"mlx5_2+c4:00.0", "PIX", 5, 40, "nearest"}};
    struct topology *topology = fixture_load(FIXTURE("nps4.xml"));
    struct topology_plan plan;
    char text[512];

    (void)state;
    assert_int_equal(topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)), 0);
    assert_int_equal(plan.count, 4);
    for (size_t i = 0; i < plan.count; i++)
        pair_check("nps4.xml", &plan.pair[i], &expected[i]);
    topology_free(topology);
}

/* Two nodes with eight switches each, a GPU and a NIC below each. */
static void sixteen_gpus_and_sixteen_nics(void **state)
{
    char devices[4096] = "", name[64];
    size_t length = 0;
    struct topology_plan plan;
    char text[512];

    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        if (i % 8 == 0)
            length += (size_t)snprintf(devices + length, sizeof(devices) - length,
                                       "node %u\n  host %02x\n", i / 8, i / 8 * 0x80);
        length += (size_t)snprintf(devices + length, sizeof(devices) - length,
                                   "    bridge %1$02x:00.0\n"
                                   "      bridge %2$02x:00.0\n"
                                   "        gpu %3$02x:00.0\n"
                                   "      bridge %2$02x:01.0\n"
                                   "        nic %4$02x:00.0 mlx5_%5$u 4\n",
                                   i * 8 + 1, i * 8 + 2, i * 8 + 3, i * 8 + 4, 15 - i);
    }
    const struct shape shape = {2, 1, 16, 2, NULL, devices};
    struct topology *topology = shape_load(&shape, NULL);
    assert_int_equal(topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)), 0);
    assert_int_equal(plan.count, 16);
    for (unsigned i = 0; i < 16; i++) {
        snprintf(name, sizeof(name), "mlx5_%u+%02x:00.0", 15 - i, i * 8 + 3);
        assert_string_equal(plan.pair[i].name, name);
        assert_int_equal(plan.pair[i].distance, TOPOLOGY_DISTANCE_PIX);
        assert_int_equal(plan.pair[i].node, i / 8);
        assert_int_equal(plan.pair[i].cpu, i / 8 * 32 + i % 8 * 2);
    }
    topology_free(topology);
}

static void other_daemons_cores_are_taken_last(void **state)
{
    const struct shape shape = {
        1, 1, 2, 2, NULL, "node 0\n  host 00\n    gpu 01:00.0\n    nic 02:00.0 mlx5_0 4\n"};
    struct topology *topology = shape_load(&shape, NULL);
    struct topology_plan plan;
    char text[512];

    (void)state;
    topology_mark_taken(topology, 1);
    assert_int_equal(topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)), 0);
    assert_int_equal(plan.pair[0].cpu, 2);
    topology_mark_taken(topology, 0);
    topology_mark_taken(topology, 2);
    topology_mark_taken(topology, 3);
    assert_int_equal(topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)), 0);
    assert_non_null(strstr(plan.pair[0].reason, "with another daemon's worker"));
    topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_paired_as_expected),
        cmocka_unit_test(nps4_fixture_is_paired_as_expected),
        cmocka_unit_test(sixteen_gpus_and_sixteen_nics),
        cmocka_unit_test(other_daemons_cores_are_taken_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
