/* Real machines: their exports are too large for the tree and are read where they lie, in the
 * folder that TESUP_TOPOLOGIES names (default: shared/topologies beside the project).  The pairs
 * and cores below were worked out by hand from the machines' descriptions.
 */
#include "topology_fixture.h"

#include <dirent.h>

#define FOLDER_DEFAULT TESUP_FIXTURES "/../../../shared/topologies"

struct expected_pair {
    const char *name, *gpu, *nic, *distance;
    int node, cpu;
    const char *reason; /* a part of it */
};

struct expected_machine {
    const char *file;
    struct expected_pair pair[9]; /* until the first without a name */
};

static const struct expected_machine machines[] = {
    /* Two EPYCs with four nodes each; a GPU and a NIC behind one switch. 62:00.0 is the BMC's. */
    {"psmgmt_topo.jwb0001.xml",
     {{"mlx5_1+03:00.0", "0000:03:00.0", "mlx5_1", "PIX", 3, 18, "nearest NIC (PIX"},
      {"mlx5_0+44:00.0", "0000:44:00.0", "mlx5_0", "PIX", 1, 6, "one PCIe switch"},
      {"mlx5_3+84:00.0", "0000:84:00.0", "mlx5_3", "PIX", 7, 42, "nearest NIC (PIX"},
      {"mlx5_2+c4:00.0", "0000:c4:00.0", "mlx5_2", "PIX", 5, 30, "nearest NIC (PIX"}}},
    {"psmgmt_topo.jrc0323.xml",
     {{"mlx5_0+03:00.0", "0000:03:00.0", "mlx5_0", "PIX", 3, 48, "nearest NIC (PIX"},
      {"mlx5_1+44:00.0", "0000:44:00.0", "mlx5_1", "PIX", 1, 16, "nearest NIC (PIX"},
      {"mlx5_2+84:00.0", "0000:84:00.0", "mlx5_2", "PIX", 7, 112, "nearest NIC (PIX"},
      {"mlx5_3+c4:00.0", "0000:c4:00.0", "mlx5_3", "PIX", 5, 80, "nearest NIC (PIX"}}},
    /* The worker stays with its GPU; both ports are as near, so the first by name. */
    {"psmgmt_topo.jsfc005.xml",
     {{"mlx5_0+01:00.0", "0000:01:00.0", "mlx5_0", "SYS", 3, 48, "on node 2 of its package (SYS)"},
      {"mlx5_1", "", "mlx5_1", "-", 2, 32, "no GPU is left for this NIC"}}},
    {"mpibind_g4dnmetal.xml",
     {{"rdmap197s0+18:00.0", "0000:18:00.0", "rdmap197s0", "SYS", 0, 0, "no NIC in its package"},
      {"rdmap197s0+19:00.0", "0000:19:00.0", "rdmap197s0", "SYS", 0, 1, "with 7 other GPUs"},
      {"rdmap197s0+35:00.0", "0000:35:00.0", "rdmap197s0", "SYS", 0, 2, "on node 1 (SYS)"},
      {"rdmap197s0+36:00.0", "0000:36:00.0", "rdmap197s0", "SYS", 0, 3, ""},
      {"rdmap197s0+e7:00.0", "0000:e7:00.0", "rdmap197s0", "NODE", 1, 24, "nearest NIC (NODE)"},
      {"rdmap197s0+e8:00.0", "0000:e8:00.0", "rdmap197s0", "NODE", 1, 25, ""},
      {"rdmap197s0+f4:00.0", "0000:f4:00.0", "rdmap197s0", "NODE", 1, 26, ""},
      {"rdmap197s0+f5:00.0", "0000:f5:00.0", "rdmap197s0", "NODE", 1, 27, ""}}},
    /* POWER9: nodes 0 and 8, a PCI domain for each bridge, four CPUs in a core. */
    {"mpibind_coral-lassen.xml",
     {{"mlx5_0+0004:04:00.0", "0004:04:00.0", "mlx5_0", "NODE", 0, 8, "one of 2 nearest NICs"},
      {"mlx5_1+0004:05:00.0", "0004:05:00.0", "mlx5_1", "NODE", 0, 12, "one of 2 nearest NICs"},
      {"mlx5_2+0035:03:00.0", "0035:03:00.0", "mlx5_2", "NODE", 8, 96, "one of 2 nearest NICs"},
      {"mlx5_3+0035:04:00.0", "0035:04:00.0", "mlx5_3", "NODE", 8, 100, "one of 2 nearest NICs"}}},
    {"mpibind_cts1-pascal.xml",
     {{"mlx5_0+04:00.0", "0000:04:00.0", "mlx5_0", "PIX", 0, 0, "with 1 other GPU"},
      {"mlx5_0+07:00.0", "0000:07:00.0", "mlx5_0", "PIX", 0, 1, "with 1 other GPU"}}},
    {"mpibind_epyc-corona-p2.xml",
     {{"mlx5_0+03:00.0", "0000:03:00.0", "mlx5_0", "SYS", 0, 0, "on node 1 (SYS)"},
      {"mlx5_0+27:00.0", "0000:27:00.0", "mlx5_0", "SYS", 0, 1, ""},
      {"mlx5_0+43:00.0", "0000:43:00.0", "mlx5_0", "SYS", 0, 2, ""},
      {"mlx5_0+63:00.0", "0000:63:00.0", "mlx5_0", "SYS", 0, 3, ""},
      {"mlx5_0+83:00.0", "0000:83:00.0", "mlx5_0", "NODE", 1, 24, ""},
      {"mlx5_0+a3:00.0", "0000:a3:00.0", "mlx5_0", "NODE", 1, 25, ""},
      {"mlx5_0+c3:00.0", "0000:c3:00.0", "mlx5_0", "PHB", 1, 26, "one host bridge"},
      {"mlx5_0+e3:00.0", "0000:e3:00.0", "mlx5_0", "NODE", 1, 27, ""}}},
    /* Slingshot shows as Ethernet only: its interfaces are one host bridge from one GPU of two. */
    {"mpibind_eas-tioga.xml",
     {{"tcp+c1:00.0", "0000:c1:00.0", "", "-", 3, 48, "no RDMA NIC in this machine: tcp"},
      {"tcp+c6:00.0", "0000:c6:00.0", "", "-", 3, 49, "nearest interface is hsi0 (PHB)"},
      {"tcp+c9:00.0", "0000:c9:00.0", "", "-", 1, 16, "nearest interface is hsi1 (NODE)"},
      {"tcp+ce:00.0", "0000:ce:00.0", "", "-", 1, 17, "nearest interface is hsi1 (PHB)"},
      {"tcp+d1:00.0", "0000:d1:00.0", "", "-", 0, 0, "nearest interface is ens2 (NODE)"},
      {"tcp+d6:00.0", "0000:d6:00.0", "", "-", 0, 1, "nearest interface is hsi2 (PHB)"},
      {"tcp+d9:00.0", "0000:d9:00.0", "", "-", 2, 32, "nearest interface is hsi3 (NODE)"},
      {"tcp+de:00.0", "0000:de:00.0", "", "-", 2, 33, "nearest interface is hsi3 (PHB)"}}},
    {"mpibind_cts1-quartz-smt1.xml",
     {{"hfi1_0", "", "hfi1_0", "-", 1, 18, "no GPU in this machine"}}},
    {"psmgmt_topo.dp-intelmax01-flat.xml",
     {{"mlx5_0", "", "mlx5_0", "-", 2, 16, "no GPU in this machine"}}},
    {"mpibind_knl-snc4-flat-hwloc1.xml",
     {{"mlx5_0", "", "mlx5_0", "-", 0, 0, "no GPU in this machine"}}},
};

static void pair_check(const char *file, const struct topology_pair *pair,
                       const struct expected_pair *expected)
{
    char cpus[16];

    snprintf(cpus, sizeof(cpus), "%d", expected->cpu);
    if (strcmp(pair->name, expected->name) != 0)
        fail_msg("%s: pair %s instead of %s", file, pair->name, expected->name);
    assert_string_equal(pair->gpu, expected->gpu);
    assert_string_equal(pair->nic, expected->nic);
    assert_string_equal(topology_distance_name(pair->distance), expected->distance);
    assert_int_equal(pair->node, expected->node);
    assert_int_equal(pair->cpu, expected->cpu);
    assert_string_equal(pair->cpus, cpus);
    assert_string_equal(pair->port, expected->nic[0] ? "active" : "");
    assert_string_equal(pair->fabric, expected->nic[0] ? "verbs" : "tcp");
    if (!strstr(pair->reason, expected->reason))
        fail_msg("%s: %s: '%s' does not say '%s'", file, pair->name, pair->reason,
                 expected->reason);
}

static void machine_check(const char *folder, const struct expected_machine *expected)
{
    char path[PATH_MAX];
    char text[512] = "";
    struct topology_plan plan;
    size_t count = 0;

    snprintf(path, sizeof(path), "%s/%s", folder, expected->file);
    struct topology *topology = fixture_load(path);
    if (topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)) < 0)
        fail_msg("%s: %s", expected->file, text);
    for (; expected->pair[count].name; count++)
        if (count < plan.count)
            pair_check(expected->file, &plan.pair[count], &expected->pair[count]);
    if (plan.count != count)
        fail_msg("%s: %zu pairs instead of %zu", expected->file, plan.count, count);
    topology_free(topology);
}

/* Every XML file of the folder is in the table. */
static void folder_is_known(DIR *directory)
{
    const struct dirent *entry;

    while ((entry = readdir(directory))) {
        const char *dot = strrchr(entry->d_name, '.');
        bool known = false;
        for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
            known = known || strcmp(entry->d_name, machines[i].file) == 0;
        if (dot && strcmp(dot, ".xml") == 0 && !known)
            fail_msg("nothing says what is expected of %s", entry->d_name);
    }
}

static void real_machines_are_paired_as_expected(void **state)
{
    const char *told = getenv("TESUP_TOPOLOGIES");
    const char *folder = told ? told : FOLDER_DEFAULT;
    DIR *directory = opendir(folder);

    (void)state;
    if (!directory && !told) {
        print_message("%s is not there: only the fixtures of the tree are checked\n", folder);
        return;
    }
    if (!directory)
        fail_msg("TESUP_TOPOLOGIES=%s cannot be opened", told);
    folder_is_known(directory);
    closedir(directory);
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        machine_check(folder, &machines[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_machines_are_paired_as_expected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
