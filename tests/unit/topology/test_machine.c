/* What the running machine is asked: a tree of files instead of sysfs, devfs and procfs. */
#include "shape.h"

#include <ftw.h>
#include <sys/stat.h>

static const struct shape two_nics = {2,
                                      1,
                                      4,
                                      1,
                                      NULL,
                                      "node 0\n"
                                      "  host 00\n"
                                      "    gpu 01:00.0\n"
                                      "    nic 05:00.0 mlx5_0 4\n"
                                      "    eth 06:00.0 eth0\n"
                                      "node 1\n"
                                      "  host 80\n"
                                      "    roce 85:00.0 mlx5_1 4\n"
                                      "    eth 86:00.0 eth1\n"};

struct tree {
    char root[64];
};

static int tree_make(void **state)
{
    struct tree *tree = calloc(1, sizeof(*tree));

    *state = tree;
    snprintf(tree->root, sizeof(tree->root), "/tmp/tesup-machine-XXXXXX");
    return tree && mkdtemp(tree->root) ? 0 : -1;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int tree_remove(void **state)
{
    struct tree *tree = *state;
    int rc = nftw(tree->root, entry_remove, 16, FTW_DEPTH | FTW_PHYS);

    free(tree);
    return rc;
}

/* The path below the root, with all its folders. */
static void tree_path(const struct tree *tree, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", tree->root, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

__attribute__((format(printf, 3, 4))) static void
tree_file(const struct tree *tree, const char *content, const char *format, ...)
{
    char name[256], path[PATH_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    tree_path(tree, name, path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%s\n", content);
    assert_int_equal(fclose(file), 0);
}

static void tree_link(const struct tree *tree, const char *name, const char *target)
{
    char path[PATH_MAX];

    tree_path(tree, name, path);
    assert_int_equal(symlink(target, path), 0);
}

/* An RDMA device whose file may be opened. */
static void rdma_add(const struct tree *tree, const char *name, unsigned verbs, const char *state,
                     const char *link)
{
    tree_file(tree, state, "sys/class/infiniband/%s/ports/1/state", name);
    tree_file(tree, link, "sys/class/infiniband/%s/ports/1/link_layer", name);
    tree_file(tree, name, "sys/class/infiniband_verbs/uverbs%u/ibdev", verbs);
    tree_file(tree, "", "dev/infiniband/uverbs%u", verbs);
}

static const struct topology_device *device_find(const struct topology *topology, const char *name)
{
    const struct topology_device *device;
    size_t count = topology_devices(topology, &device);

    for (size_t i = 0; i < count; i++)
        if (strcmp(device[i].name, name) == 0)
            return &device[i];
    fail_msg("%s is not in the list", name);
    return NULL;
}

static void plan_of(const struct topology *topology, struct topology_plan *plan)
{
    char text[512];

    if (topology_plan_make(topology, NULL, 0, plan, text, sizeof(text)) < 0)
        fail_msg("%s", text);
}

/* The XML says active and InfiniBand, the machine says otherwise now. */
static void sysfs_goes_over_the_export(void **state)
{
    const struct tree *tree = *state;
    struct topology_plan plan;

    rdma_add(tree, "mlx5_0", 0, "1: DOWN", "InfiniBand");
    rdma_add(tree, "mlx5_1", 1, "4: ACTIVE", "Ethernet");
    struct topology *topology = shape_load(&two_nics, tree->root);
    const struct topology_device *device = device_find(topology, "mlx5_0");
    assert_int_equal(device->port[0].state, TOPOLOGY_PORT_DOWN);
    assert_string_equal(device->port[0].link, "InfiniBand");
    assert_string_equal(device->left_out, "no port is active: port 1 is down");
    plan_of(topology, &plan);
    assert_int_equal(plan.count, 1);
    assert_string_equal(plan.pair[0].name, "mlx5_1+01:00.0");
    assert_string_equal(plan.pair[0].port, "active");
    assert_string_equal(plan.pair[0].link, "Ethernet");
    topology_free(topology);
}

static void words_of_port_states_are_read(void **state)
{
    static const struct {
        const char *line;
        enum topology_port_state state;
        const char *name;
    } states[] = {
        {"1: DOWN", TOPOLOGY_PORT_DOWN, "down"},
        {"2: INIT", TOPOLOGY_PORT_INIT, "init"},
        {"3: ARMED", TOPOLOGY_PORT_ARMED, "armed"},
        {"4: ACTIVE", TOPOLOGY_PORT_ACTIVE, "active"},
        {"0: NOP", TOPOLOGY_PORT_UNKNOWN, "unknown"},
        {"gibberish", TOPOLOGY_PORT_UNKNOWN, "unknown"},
    };
    const struct tree *tree = *state;

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        rdma_add(tree, "mlx5_0", 0, states[i].line, "InfiniBand");
        struct topology *topology = shape_load(&two_nics, tree->root);
        enum topology_port_state got = device_find(topology, "mlx5_0")->port[0].state;
        assert_int_equal(got, states[i].state);
        assert_string_equal(topology_port_state_name(got), states[i].name);
        topology_free(topology);
    }
}

/* A container: sysfs shows two NICs, /dev/infiniband has one. */
static void only_what_can_be_opened_counts(void **state)
{
    const struct tree *tree = *state;
    struct topology_plan plan;
    char path[PATH_MAX];

    rdma_add(tree, "mlx5_0", 0, "4: ACTIVE", "InfiniBand");
    rdma_add(tree, "mlx5_1", 1, "4: ACTIVE", "InfiniBand");
    tree_path(tree, "dev/infiniband/uverbs0", path);
    assert_int_equal(unlink(path), 0);
    struct topology *topology = shape_load(&two_nics, tree->root);
    assert_non_null(strstr(device_find(topology, "mlx5_0")->left_out,
                           "cannot be opened here: /dev/infiniband/uverbs0: No such file"));
    plan_of(topology, &plan);
    assert_int_equal(plan.count, 1);
    assert_string_equal(plan.pair[0].nic, "mlx5_1");
    assert_int_equal(plan.pair[0].distance, TOPOLOGY_DISTANCE_SYS);
    topology_free(topology);

    tree_path(tree, "sys/class/infiniband_verbs/uverbs1/ibdev", path);
    assert_int_equal(unlink(path), 0);
    topology = shape_load(&two_nics, tree->root);
    assert_non_null(strstr(device_find(topology, "mlx5_1")->left_out, "ib_uverbs"));
    plan_of(topology, &plan);
    assert_string_equal(plan.pair[0].name, "tcp+01:00.0");
    topology_free(topology);
}

static void virtual_function_is_told_by_sysfs(void **state)
{
    const struct tree *tree = *state;

    rdma_add(tree, "mlx5_0", 0, "4: ACTIVE", "InfiniBand");
    rdma_add(tree, "mlx5_1", 1, "4: ACTIVE", "InfiniBand");
    tree_link(tree, "sys/class/infiniband/mlx5_1/device/physfn", "../../0000:05:00.0");
    struct topology *topology = shape_load(&two_nics, tree->root);
    assert_string_equal(device_find(topology, "mlx5_0")->left_out, "");
    assert_string_equal(device_find(topology, "mlx5_1")->left_out, "SR-IOV function of mlx5_0");
    topology_free(topology);
}

/* hwloc does not list Soft-RoCE: it is where its interface is. */
static void soft_roce_is_placed_by_its_interface(void **state)
{
    const struct tree *tree = *state;

    rdma_add(tree, "mlx5_0", 0, "4: ACTIVE", "InfiniBand");
    rdma_add(tree, "rxe0", 2, "4: ACTIVE", "Ethernet");
    rdma_add(tree, "rxe1", 3, "4: ACTIVE", "Ethernet");
    rdma_add(tree, "rxe2", 4, "4: ACTIVE", "Ethernet");
    tree_file(tree, "eth1", "sys/class/infiniband/rxe0/parent");
    tree_file(tree, "eth0", "sys/class/infiniband/rxe1/ports/1/gid_attrs/ndevs/0");
    tree_file(tree, "veth7", "sys/class/infiniband/rxe2/parent");
    struct topology *topology = shape_load(&two_nics, tree->root);
    assert_int_equal(device_find(topology, "rxe0")->node, 1);
    assert_string_equal(device_find(topology, "rxe0")->bus_id, "0000:86:00.0");
    assert_string_equal(device_find(topology, "rxe0")->port[0].link, "Ethernet");
    assert_int_equal(device_find(topology, "rxe1")->node, 0);
    assert_int_equal(device_find(topology, "rxe2")->node, -1);
    topology_free(topology);
}

static void bond_is_where_all_its_members_are(void **state)
{
    const struct tree *tree = *state;

    rdma_add(tree, "rxe0", 2, "4: ACTIVE", "Ethernet");
    tree_file(tree, "vlan5", "sys/class/infiniband/rxe0/parent");
    tree_file(tree, "", "sys/class/net/vlan5/lower_bond0");
    tree_file(tree, "", "sys/class/net/bond0/lower_eth0");
    struct topology *topology = shape_load(&two_nics, tree->root);
    assert_int_equal(device_find(topology, "rxe0")->node, 0);
    topology_free(topology);

    tree_file(tree, "", "sys/class/net/bond0/lower_eth1");
    topology = shape_load(&two_nics, tree->root);
    assert_int_equal(device_find(topology, "rxe0")->node, -1);
    topology_free(topology);
}

/* Links that go round must not go on for ever. */
static void interface_above_itself_has_no_place(void **state)
{
    const struct tree *tree = *state;

    rdma_add(tree, "rxe0", 2, "4: ACTIVE", "Ethernet");
    tree_file(tree, "a", "sys/class/infiniband/rxe0/parent");
    tree_file(tree, "", "sys/class/net/a/lower_b");
    tree_file(tree, "", "sys/class/net/b/lower_a");
    struct topology *topology = shape_load(&two_nics, tree->root);
    assert_int_equal(device_find(topology, "rxe0")->node, -1);
    topology_free(topology);
}

/* A link aggregate of one card is one NIC: the kernel shows it as mlx5_bond_0 in the place of its
 * first port. */
static void rdma_bond_is_one_nic(void **state)
{
    const struct shape shape = {1,
                                1,
                                4,
                                1,
                                NULL,
                                "node 0\n"
                                "  host 00\n"
                                "    gpu 01:00.0\n"
                                "    gpu 02:00.0\n"
                                "    roce 05:00.0 mlx5_bond_0 4\n"};
    const struct tree *tree = *state;
    struct topology_plan plan;

    rdma_add(tree, "mlx5_bond_0", 0, "4: ACTIVE", "Ethernet");
    struct topology *topology = shape_load(&shape, tree->root);
    plan_of(topology, &plan);
    assert_int_equal(plan.count, 2);
    assert_string_equal(plan.pair[0].name, "mlx5_bond_0+01:00.0");
    assert_string_equal(plan.pair[1].name, "mlx5_bond_0+02:00.0");
    topology_free(topology);
}

/* Of the interfaces of a tcp worker, a member of a bond or one that is down is not named. */
static void interfaces_that_carry_nothing_are_left_out(void **state)
{
    const struct shape shape = {1,
                                1,
                                4,
                                1,
                                NULL,
                                "node 0\n"
                                "  host 00\n"
                                "    gpu 01:00.0\n"
                                "    eth 06:00.0 eth0\n"
                                "    eth 07:00.0 eth1\n"
                                "    eth 08:00.0 eth2\n"};
    const struct tree *tree = *state;
    struct topology_plan plan;

    tree_file(tree, "up", "sys/class/net/eth0/operstate");
    tree_link(tree, "sys/class/net/eth0/master", "../bond0");
    tree_file(tree, "down", "sys/class/net/eth1/operstate");
    tree_file(tree, "up", "sys/class/net/eth2/operstate");
    tree_file(tree, "1", "sys/class/net/eth2/type");
    struct topology *topology = shape_load(&shape, tree->root);
    assert_string_equal(device_find(topology, "eth0")->left_out, "part of bond0");
    assert_string_equal(device_find(topology, "eth1")->left_out, "down");
    assert_string_equal(device_find(topology, "eth2")->left_out, "");
    assert_string_equal(device_find(topology, "eth2")->port[0].link, "Ethernet");
    plan_of(topology, &plan);
    assert_non_null(strstr(plan.pair[0].reason, "nearest interface is eth2 (PHB)"));
    topology_free(topology);
}

static void uuids_come_from_the_drivers(void **state)
{
    const struct shape shape = {
        1, 1, 2, 1, NULL, "node 0\n  host 00\n    gpu 01:00.0\n    amd 02:00.0\n    gpu 03:00.0\n"};
    const struct tree *tree = *state;

    tree_file(tree, "Model: \t A100\nGPU UUID: \t GPU-8932f937-d72c-4106-c12f-20bd9faed9f6\nx",
              "proc/driver/nvidia/gpus/0000:01:00.0/information");
    tree_file(tree, "GPU UUID: \t GPU-????????",
              "proc/driver/nvidia/gpus/0000:03:00.0/information");
    tree_file(tree, "a1b2c3d4e5f60718", "sys/bus/pci/devices/0000:02:00.0/unique_id");
    struct topology *topology = shape_load(&shape, tree->root);
    assert_string_equal(device_find(topology, "0000:01:00.0")->uuid,
                        "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
    assert_string_equal(device_find(topology, "0000:02:00.0")->uuid, "GPU-a1b2c3d4e5f60718");
    assert_string_equal(device_find(topology, "0000:03:00.0")->uuid, "");
    topology_free(topology);
}

static void nobody_to_ask_is_no_error(void **state)
{
    const struct tree *tree = *state;
    struct topology_plan plan;
    struct topology *topology = shape_load(&two_nics, NULL);

    plan_of(topology, &plan);
    assert_string_equal(plan.pair[0].name, "mlx5_0+01:00.0");
    topology_free(topology);
    /* An empty sysfs: no uverbs, so nothing can be opened. */
    topology = shape_load(&two_nics, tree->root);
    plan_of(topology, &plan);
    assert_string_equal(plan.pair[0].name, "tcp+01:00.0");
    topology_free(topology);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sysfs_goes_over_the_export),
        TEST(words_of_port_states_are_read),
        TEST(only_what_can_be_opened_counts),
        TEST(virtual_function_is_told_by_sysfs),
        TEST(soft_roce_is_placed_by_its_interface),
        TEST(bond_is_where_all_its_members_are),
        TEST(interface_above_itself_has_no_place),
        TEST(rdma_bond_is_one_nic),
        TEST(interfaces_that_carry_nothing_are_left_out),
        TEST(uuids_come_from_the_drivers),
        TEST(nobody_to_ask_is_no_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
