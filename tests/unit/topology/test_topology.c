/* Nodes and devices of good machines, and what is said about bad files. */
#include "topology_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

struct expected_node {
    int os_index;
    unsigned usable;
    unsigned present;
    const char *cpus;
};

static void nodes_check(const char *path, const struct expected_node *expected,
                        size_t expected_count)
{
    struct topology *topology = fixture_load(path);
    const struct topology_node *node;

    assert_int_equal(topology_nodes(topology, &node), expected_count);
    for (size_t i = 0; i < expected_count; i++) {
        assert_int_equal(node[i].os_index, expected[i].os_index);
        assert_int_equal(node[i].cpu_count, expected[i].usable);
        assert_int_equal(node[i].cpu_present, expected[i].present);
        assert_string_equal(node[i].cpus, expected[i].cpus);
    }
    topology_free(topology);
}

#define NODES_CHECK(path, ...)                                   \
    do {                                                         \
        const struct expected_node list[] = {__VA_ARGS__};       \
        nodes_check(path, list, sizeof(list) / sizeof(list[0])); \
    } while (0)

static void nodes_have_their_cpus(void **state)
{
    (void)state;
    NODES_CHECK(FIXTURE("two_nodes_smt.xml"), {0, 4, 4, "0-3"}, {1, 4, 4, "4-7"});
}

static void nodes_have_their_memory(void **state)
{
    const struct topology_node *node;
    struct topology *topology = fixture_load(FIXTURE("memory_nodes.xml"));

    (void)state;
    assert_int_equal(topology_nodes(topology, &node), 6);
    assert_int_equal(node[1].memory_bytes, 1000000000);
    assert_int_equal(node[2].memory_bytes, 512000000);
    assert_int_equal(node[5].memory_bytes, 256000000);
    topology_free(topology);
}

/* HBM next to the DRAM of a package, memory next to all packages, memory next to nothing. */
static void memory_nodes_own_no_cpus(void **state)
{
    (void)state;
    NODES_CHECK(FIXTURE("memory_nodes.xml"), {0, 2, 2, "0-1"}, {1, 2, 2, "2-3"}, {2, 0, 0, ""},
                {3, 0, 0, ""}, {4, 0, 0, ""}, {5, 0, 0, ""});
}

static void cpuset_is_respected(void **state)
{
    (void)state;
    NODES_CHECK(FIXTURE("cpuset_narrow.xml"), {0, 1, 4, "0"}, {1, 4, 4, "4-7"});
    NODES_CHECK(FIXTURE("cpuset_one_node.xml"), {0, 4, 4, "0-3"}, {1, 0, 4, ""});
}

static void node_without_allowed_memory_has_no_usable_cpus(void **state)
{
    (void)state;
    NODES_CHECK(FIXTURE("mems_one_node.xml"), {0, 0, 4, ""}, {1, 4, 4, "4-7"});
}

/* Machines that number their CPUs in turns: 256 numbers do not fit into a small buffer. */
static void long_list_of_cpus_is_whole(void **state)
{
    const struct topology_node *node;
    char path[64];

    (void)state;
    fixture_synthetic("pack:2 [numa] core:256 pu:1(indexes=256*2:1*256)", path, sizeof(path));
    struct topology *topology = fixture_load(path);
    assert_int_equal(topology_nodes(topology, &node), 2);
    assert_int_equal(node[0].cpu_count, 256);
    assert_true(strncmp(node[0].cpus, "0,2,4,", 6) == 0);
    assert_string_equal(node[0].cpus + strlen(node[0].cpus) - 8, ",508,510");
    topology_free(topology);
    unlink(path);
}

static void devices_are_listed(void **state)
{
    static const struct {
        const char *name, *bus_id;
        enum topology_kind kind;
        int node;
    } expected[] = {
        {"0000:04:00.0", "0000:04:00.0", TOPOLOGY_KIND_GPU, 0},
        {"0001:c1:00.0", "0001:c1:00.0", TOPOLOGY_KIND_GPU, 1},
        {"mlx5_0", "0000:08:00.0", TOPOLOGY_KIND_RDMA, 0},
        {"eth??"
         "?0",
         "0001:c2:00.1", TOPOLOGY_KIND_NETWORK, 1},
        {"ib0", "0000:08:00.0", TOPOLOGY_KIND_NETWORK, 0},
        {"vnet0", "0002:01:00.0", TOPOLOGY_KIND_NETWORK, -1},
    };
    const size_t count = sizeof(expected) / sizeof(expected[0]);
    struct topology *topology = fixture_load(FIXTURE("devices.xml"));
    const struct topology_device *device;

    (void)state;
    assert_int_equal(topology_devices(topology, &device), count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(device[i].name, expected[i].name);
        assert_string_equal(device[i].bus_id, expected[i].bus_id);
        assert_int_equal(device[i].kind, expected[i].kind);
        assert_int_equal(device[i].node, expected[i].node);
    }
    topology_free(topology);
}

static void machine_without_devices_has_none(void **state)
{
    struct topology *topology = fixture_load(FIXTURE("two_nodes_smt.xml"));
    const struct topology_device *device;

    (void)state;
    assert_int_equal(topology_devices(topology, &device), 0);
    topology_free(topology);
}

/* The file is refused, the sentence names it and says why, and hwloc adds nothing on stderr. */
static void refusal_check(const char *path, const char *why)
{
    struct topology *topology = NULL;
    char text[PATH_MAX + 512] = "";
    struct stat printed;
    FILE *capture = tmpfile();
    int err = dup(STDERR_FILENO);

    assert_non_null(capture);
    assert_true(err >= 0);
    fflush(stderr);
    assert_true(dup2(fileno(capture), STDERR_FILENO) >= 0);
    int rc = topology_load(path, &topology, text, sizeof(text));
    fflush(stderr);
    assert_true(dup2(err, STDERR_FILENO) >= 0);
    close(err);
    assert_int_equal(fstat(fileno(capture), &printed), 0);
    fclose(capture);

    assert_int_equal(rc, -1);
    assert_null(topology);
    if (!strstr(text, path) || !strstr(text, why))
        fail_msg("'%s' does not name %s and '%s'", text, path, why);
    assert_int_equal(printed.st_size, 0);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    refusal_check(FIXTURE("no_such_file.xml"), "No such file");
    refusal_check(TESUP_FIXTURES, "is a directory");
    refusal_check("/dev/zero", "not a regular file");
    refusal_check("/proc/self/exe", "binary");
    refusal_check(FIXTURE("truncated.xml"), "truncated");
    refusal_check(FIXTURE("hwloc3.xml"), "format of hwloc 3");
    refusal_check(FIXTURE("damaged.xml"), "damaged");
    refusal_check(FIXTURE("not_a_topology.xml"), "has no <topology> element");
}

static void no_part_of_a_file_is_taken(void **state)
{
    char path[] = "/tmp/tesup-topology-XXXXXX";
    char bytes[8192];
    int fd = mkstemp(path);
    FILE *good = fopen(FIXTURE("two_nodes_smt.xml"), "re");

    (void)state;
    assert_true(fd >= 0);
    assert_non_null(good);
    size_t size = fread(bytes, 1, sizeof(bytes) - 1, good);
    bytes[size] = '\0';
    assert_in_range(size, 1000, sizeof(bytes) - 2);
    fclose(good);
    refusal_check(path, "is empty");

    size_t whole = (size_t)(strstr(bytes, "</topology>") - bytes) + strlen("</topology>");
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    size_t root = (size_t)(strstr(bytes, "<topology") - bytes) + strlen("<topology");
    for (size_t length = whole - 1; length > 37; length -= 37) {
        assert_int_equal(ftruncate(fd, (off_t)length), 0);
        refusal_check(path, length < root ? "no <topology>" : "truncated");
    }
    close(fd);
    unlink(path);
}

static void fifo_does_not_block(void **state)
{
    char directory[] = "/tmp/tesup-topology-XXXXXX";
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    refusal_check(path, "not a regular file");
    unlink(path);
    rmdir(directory);
}

static void large_file_is_refused_by_size(void **state)
{
    char path[] = "/tmp/tesup-topology-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 64L * 1024 * 1024 + 1), 0);
    refusal_check(path, "67108865 bytes");
    assert_int_equal(ftruncate(fd, 64L * 1024 * 1024), 0);
    refusal_check(path, "binary");
    close(fd);
    unlink(path);
}

static void live_machine_respects_affinity(void **state)
{
    cpu_set_t before;
    cpu_set_t one;
    char expected[16];
    unsigned usable = 0;
    const struct topology_node *node;
    unsigned cpu = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before))
            cpu = i;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    struct topology *topology = fixture_load(NULL);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);

    snprintf(expected, sizeof(expected), "%u", cpu);
    size_t count = topology_nodes(topology, &node);
    for (size_t i = 0; i < count; i++) {
        usable += node[i].cpu_count;
        assert_string_equal(node[i].cpus, node[i].cpu_count ? expected : "");
    }
    assert_int_equal(usable, 1);
    topology_free(topology);
}

static void live_machine_is_not_another(void **state)
{
    struct topology *topology = NULL;
    char text[512] = "";

    (void)state;
    setenv("HWLOC_SYNTHETIC", "numa:2 pu:2", 1);
    int rc = topology_load(NULL, &topology, text, sizeof(text));
    unsetenv("HWLOC_SYNTHETIC");
    assert_int_equal(rc, -1);
    assert_non_null(strstr(text, "unset"));
}

/* A job that is started later must not inherit what kept hwloc quiet here. */
static void environment_is_left_alone(void **state)
{
    (void)state;
    unsetenv("HWLOC_HIDE_ERRORS");
    topology_free(fixture_load(NULL));
    assert_null(getenv("HWLOC_HIDE_ERRORS"));
    setenv("HWLOC_HIDE_ERRORS", "1", 1);
    topology_free(fixture_load(NULL));
    assert_string_equal(getenv("HWLOC_HIDE_ERRORS"), "1");
    unsetenv("HWLOC_HIDE_ERRORS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_have_their_cpus),
        cmocka_unit_test(nodes_have_their_memory),
        cmocka_unit_test(memory_nodes_own_no_cpus),
        cmocka_unit_test(cpuset_is_respected),
        cmocka_unit_test(node_without_allowed_memory_has_no_usable_cpus),
        cmocka_unit_test(long_list_of_cpus_is_whole),
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(machine_without_devices_has_none),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(no_part_of_a_file_is_taken),
        cmocka_unit_test(fifo_does_not_block),
        cmocka_unit_test(large_file_is_refused_by_size),
        cmocka_unit_test(live_machine_respects_affinity),
        cmocka_unit_test(live_machine_is_not_another),
        cmocka_unit_test(environment_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
