#include "tests/harness/test.h"

#include "tests/harness/rdma.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/wait.h"

struct daemon rdma_daemon[RDMA_SIDES];
const struct site rdma_site = {"verbs", &rdma_daemon[RDMA_LEFT], &rdma_daemon[RDMA_RIGHT]};

static const char *const names[RDMA_SIDES] = {"left", "right"};
static const char *const netdevs[RDMA_SIDES] = {"rdma0", "rdma1"};
static const char *const addresses[RDMA_SIDES] = {"10.77.0.1", "10.77.0.2"};

/* ---- supervisors ---- */

int rdma_vm_setup(void **state)
{
    if (access("/sys/class/infiniband/rxe1", F_OK) < 0) {
        print_error("this needs the test VM: scripts/rdma-vm -- PROGRAM\n");
        return -1;
    }
    return daemon_group_setup(state);
}

int rdma_vm_teardown(void **state)
{
    return daemon_group_teardown(state);
}

void rdma_start(struct daemon *daemon, const char *name, unsigned side, const char *options)
{
    char words[256];

    /* Some tests kill a worker more often than operators would like. */
    snprintf(words, sizeof(words), "--fabric verbs --exclude rxe%u --restart-max-deaths 1000 %s",
             1 - side, options);
    daemon_start(daemon, name, words);
}

int rdma_setup(void **state)
{
    const char *options = state != NULL && *state != NULL ? *state : "";

    for (unsigned side = 0; side < RDMA_SIDES; side++)
        rdma_start(&rdma_daemon[side], names[side], side, options);
    return 0;
}

int rdma_teardown(void **state)
{
    return daemon_test_teardown(state);
}

int rdma_group_setup(void **state)
{
    if (rdma_vm_setup(state) < 0)
        return -1;
    return rdma_setup(NULL);
}

int rdma_group_teardown(void **state)
{
    for (unsigned side = 0; side < RDMA_SIDES; side++)
        daemon_stop(&rdma_daemon[side]);
    return rdma_vm_teardown(state);
}

/* ---- what the kernel counts ---- */

static json_t *objects_list(const char *kind)
{
    static struct command command; /* large */
    char words[64];
    json_t *list;

    snprintf(words, sizeof(words), "rdma -j resource show %s", kind);
    command_run(&command, words);
    command_expect_code(&command, 0);
    list = json_loads(command.out, 0, NULL);
    if (list == NULL)
        fail_msg("`%s` said: %s", words, command.out);
    return list;
}

static unsigned objects_count(const char *kind, pid_t pid)
{
    json_t *list = objects_list(kind), *object;
    unsigned count = 0;
    size_t index;

    json_array_foreach(list, index, object) count +=
        json_integer_value(json_object_get(object, "pid")) == (json_int_t)pid;
    json_decref(list);
    return count;
}

struct rdma_objects rdma_objects(pid_t pid)
{
    return (struct rdma_objects){.qps = objects_count("qp", pid),
                                 .cqs = objects_count("cq", pid),
                                 .mrs = objects_count("mr", pid),
                                 .pds = objects_count("pd", pid)};
}

unsigned rdma_queues(pid_t pid, struct rdma_queue *queues, unsigned room)
{
    json_t *list = objects_list("qp"), *object;
    unsigned count = 0;
    size_t index;

    json_array_foreach(list, index, object)
    {
        if (json_integer_value(json_object_get(object, "pid")) != (json_int_t)pid || count == room)
            continue;
        queues[count++] = (struct rdma_queue){
            .number = (uint32_t)json_integer_value(json_object_get(object, "lqpn")),
            .peer = (uint32_t)json_integer_value(json_object_get(object, "rqpn"))};
    }
    json_decref(list);
    return count;
}

uint64_t rdma_hw_count(unsigned side, const char *name)
{
    unsigned long long value = 0;
    char path[128], line[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/rxe%u/ports/1/hw_counters/%s", side, name);
    file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof(line), file) == NULL)
        fail_msg("cannot read %s", path);
    fclose(file);
    value = strtoull(line, NULL, 10);
    return value;
}

const char *rdma_netdev(unsigned side)
{
    return netdevs[side];
}

/* ---- the cable ---- */

void rdma_run(const char *format, ...)
{
    static struct command command; /* large */
    char words[256];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    command_run(&command, words);
    if (command.code != 0)
        fail_msg("`%s`: exit code %d: %s", words, command.code, command.err);
}

void rdma_cable_cut(unsigned side)
{
    rdma_run("ip link set %s down", netdevs[side]);
}

/* Of its link-local address, too, which was learnt from what the other end asked. */
void rdma_neighbour_drop(unsigned side)
{
    rdma_run("ip neigh flush dev %s nud all", netdevs[side]);
}

void rdma_neighbour_give(unsigned side)
{
    char path[64], mac[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/net/%s/address", netdevs[1 - side]);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(mac, sizeof(mac), file));
    fclose(file);
    mac[strcspn(mac, "\n")] = '\0';
    rdma_run("ip neigh replace %s lladdr %s dev %s nud permanent", addresses[1 - side], mac,
             netdevs[side]);
}

/* The kernel has dropped what scripts/vm/guest had set up for this end. */
void rdma_cable_join(unsigned side)
{
    rdma_run("ip link set %s up", netdevs[side]);
    rdma_run("ip route replace %s dev %s table %u", addresses[1 - side], netdevs[side], 100 + side);
    rdma_neighbour_give(side);
}

void rdma_address_drop(unsigned side)
{
    rdma_run("ip address del %s/24 dev %s", addresses[side], netdevs[side]);
}

void rdma_address_give(unsigned side)
{
    rdma_run("ip address add %s/24 dev %s", addresses[side], netdevs[side]);
}

void rdma_disturb(unsigned side, const char *netem)
{
    if (netem != NULL)
        rdma_run("tc qdisc replace dev %s root netem %s", netdevs[side], netem);
    else
        rdma_run("tc qdisc del dev %s root", netdevs[side]);
}

/* ---- status ---- */

struct rdma_endpoint rdma_endpoint(const struct counters_segment *counters)
{
    struct rdma_endpoint found = {.state = "none"};

    for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++) {
        const struct counters_endpoint *live = &counters->worker[0].endpoint[i];
        struct counters_endpoint endpoint;

        if (atomic_peek(&live->used) == 0 || !counters_snapshot(live, &endpoint, sizeof(endpoint)))
            continue;
        if (strcmp(endpoint.fabric, "self") == 0)
            continue;
        snprintf(found.state, sizeof(found.state), "%.15s",
                 endpoint_state_name(atomic_peek(&endpoint.state)));
        snprintf(found.fabric, sizeof(found.fabric), "%.15s", endpoint.fabric);
        snprintf(found.notify, sizeof(found.notify), "%.47s", endpoint.notify);
    }
    return found;
}
