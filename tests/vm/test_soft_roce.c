/* RDMA devices without hardware, which hwloc does not list: they are found in sysfs, lie where
 * their network interface lies, and count only while their port is active.
 *
 * Runs in the test VM with two nodes, a NIC and an rxe device on each (scripts/rdma-vm --numa 2).
 */
#include <string.h>

#include <jansson.h>

#include "tests/harness/command.h"
#include "tests/harness/test.h"
#include "tests/harness/wait.h"

#define TOPOLOGY TESUP_BIN_DIR "/tesup topology --json"

static struct command command;

/* Free it with json_decref(). */
static json_t *topology_run(void)
{
    command_run(&command, TOPOLOGY);
    command_expect_code(&command, 0);
    json_t *json = json_loads(command.out, 0, NULL);
    assert_non_null(json);
    return json;
}

/* The object of this name in a list; NULL: there is none. */
static const json_t *named(const json_t *topology, const char *list, const char *name)
{
    const json_t *array = json_object_get(topology, list);

    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *object = json_array_get(array, i);
        if (strcmp(json_string_value(json_object_get(object, "name")), name) == 0)
            return object;
    }
    return NULL;
}

static void pair_expect(const json_t *topology, const char *name, int node)
{
    const json_t *pair = named(topology, "pairs", name);

    if (!pair)
        fail_msg("no worker for %s:\n%s", name, command.out);
    assert_int_equal(json_integer_value(json_object_get(pair, "numa_node")), node);
    assert_string_equal(json_string_value(json_object_get(pair, "nic")), name);
    assert_string_equal(json_string_value(json_object_get(pair, "port")), "active");
    assert_string_equal(json_string_value(json_object_get(pair, "link")), "Ethernet");
}

static void devices_lie_where_their_interfaces_lie(void **state)
{
    json_t *topology = topology_run();

    (void)state;
    assert_int_equal(json_array_size(json_object_get(topology, "pairs")), 2);
    pair_expect(topology, "rxe0", 0);
    pair_expect(topology, "rxe1", 1);
    json_decref(topology);
}

/* The kernel tells the port's state a moment after the interface's. */
static void port_wait(bool active)
{
    struct wait wait = wait_begin(active ? "an active port" : "a port that is down", WAIT_MS);

    for (;;) {
        json_t *topology = topology_run();
        bool is = named(topology, "pairs", "rxe1") != NULL;
        json_decref(topology);
        if (is == active)
            return;
        wait_step(&wait);
    }
}

static void port_that_is_down_is_left_out(void **state)
{
    (void)state;
    command_run(&command, "ip link set nic1 down");
    command_expect_code(&command, 0);
    port_wait(false);
    json_t *topology = topology_run();
    assert_int_equal(json_array_size(json_object_get(topology, "pairs")), 1);
    pair_expect(topology, "rxe0", 0);
    assert_string_equal(
        json_string_value(json_object_get(named(topology, "devices", "rxe1"), "left_out")),
        "no port is active: port 1 is down");
    json_decref(topology);
    command_run(&command, "ip link set nic1 up");
    command_expect_code(&command, 0);
    port_wait(true);
}

static int group_setup(void **state)
{
    if (command_scratch_create(state) < 0)
        return -1;
    command_run(&command, "cat /sys/class/infiniband/rxe1/parent");
    if (command.code == 0)
        return 0;
    print_error("this needs the test VM: scripts/rdma-vm --numa 2 -- PROGRAM\n");
    return -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_lie_where_their_interfaces_lie),
        cmocka_unit_test(port_that_is_down_is_left_out),
    };

    return cmocka_run_group_tests(tests, group_setup, command_scratch_remove);
}
