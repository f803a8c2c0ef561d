#include "topology/reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topology/name.h"

struct line {
    char *text;
    size_t length;
};

/* Pieces with "; " between them; what has no room is cut. */
__attribute__((format(printf, 2, 3))) static void line_add(struct line *line, const char *format,
                                                           ...)
{
    size_t room = TOPOLOGY_TEXT_MAX - line->length;
    va_list args;

    if (room <= 3)
        return;
    if (line->length > 0)
        line->length += (size_t)snprintf(line->text + line->length, room, "; ");
    room = TOPOLOGY_TEXT_MAX - line->length;
    va_start(args, format);
    int wrote = vsnprintf(line->text + line->length, room, format, args);
    va_end(args);
    if (wrote > 0)
        line->length += (size_t)wrote < room ? (size_t)wrote : room - 1;
}

static const char *distance_words(enum topology_distance distance)
{
    switch (distance) {
    case TOPOLOGY_DISTANCE_PIX:
        return "PIX, one PCIe switch";
    case TOPOLOGY_DISTANCE_PXB:
        return "PXB, several PCIe switches";
    case TOPOLOGY_DISTANCE_PHB:
        return "PHB, one host bridge";
    default:
        return topology_distance_name(distance);
    }
}

/* A GPU whose nearest NIC is on another node, or nobody knows where. */
static void far_nic_explain(const struct scope *scope, const struct draft_pair *pair,
                            struct line *line)
{
    const struct topology_device *gpu = &scope->topology->device[scope->gpu[pair->gpu]];
    const struct topology_device *nic = &scope->topology->device[scope->nic[pair->nic].device];
    const char *nic_name = scope->nic[pair->nic].name;

    if (pair->route.distance == TOPOLOGY_DISTANCE_UNKNOWN)
        line_add(line, "this machine hides the NUMA node of %.20s: distance unknown, by load",
                 gpu->node < 0 ? name_short_bus_id(gpu->bus_id) : nic_name);
    else if (gpu->package >= 0 && gpu->package == nic->package)
        line_add(line, "no NIC on node %d: the nearest is on node %d of its package (SYS)",
                 gpu->node, nic->node);
    else if (gpu->package >= 0)
        line_add(line, "no NIC in its package: the nearest is on node %d (SYS)", nic->node);
    else
        line_add(line, "no NIC on node %d: the nearest is on node %d (SYS)", gpu->node, nic->node);
}

static void nic_of_gpu_explain(const struct scope *scope, const struct draft *draft,
                               const struct draft_pair *pair, struct line *line)
{
    size_t sharers = draft_gpus_of_nic(draft, pair->nic);
    size_t equals = draft_nearest_nics(scope, pair);

    if (pair->claim && pair->claim->nic != SCOPE_NONE)
        line_add(line, "NIC and GPU are set (%s)", topology_distance_name(pair->route.distance));
    else if (pair->route.distance >= TOPOLOGY_DISTANCE_SYS)
        far_nic_explain(scope, pair, line);
    else if (equals > 1)
        line_add(line, "one of %zu nearest NICs (%s)", equals,
                 distance_words(pair->route.distance));
    else
        line_add(line, "nearest NIC (%s)", distance_words(pair->route.distance));
    if (sharers > 1)
        line_add(line, "shares it with %zu other GPU%s", sharers - 1, sharers == 2 ? "" : "s");
}

static void port_explain(const struct scope *scope, const struct draft_pair *pair,
                         struct line *line)
{
    const struct scope_nic *nic = &scope->nic[pair->nic];
    const struct topology_device *device = &scope->topology->device[nic->device];

    if (device->left_out[0])
        line_add(line, "%s", device->left_out);
    else if (device->port[nic->port].state != TOPOLOGY_PORT_ACTIVE)
        line_add(line, "its port is %s",
                 device->port[nic->port].state == TOPOLOGY_PORT_UNKNOWN
                     ? "of unknown state"
                     : topology_port_state_name(device->port[nic->port].state));
}

/* The network interface that is nearest to the GPU, for what it is worth: the kernel's routes say
 * which one tcp takes. */
static void interface_explain(const struct scope *scope, const struct draft_pair *pair,
                              struct line *line)
{
    const struct topology *topology = scope->topology;
    const struct topology_device *nearest = NULL;
    struct route best = {0};

    for (size_t i = 0; i < topology->device_count; i++) {
        const struct topology_device *device = &topology->device[i];
        if (device->kind != TOPOLOGY_KIND_NETWORK || device->left_out[0])
            continue;
        struct route route = route_find(topology, scope->gpu[pair->gpu], i);
        if (nearest && best.rank <= route.rank)
            continue;
        nearest = device;
        best = route;
    }
    if (nearest)
        line_add(line, "nearest interface is %.20s (%s)", nearest->name,
                 topology_distance_name(best.distance));
}

static void devices_explain(const struct scope *scope, const struct draft *draft,
                            const struct draft_pair *pair, struct line *line)
{
    if (pair->claim && pair->claim->instance)
        line_add(line, "MIG instance of %s",
                 name_short_bus_id(scope->topology->device[scope->gpu[pair->gpu]].bus_id));
    if (pair->nic != SCOPE_NONE && pair->gpu != SCOPE_NONE)
        nic_of_gpu_explain(scope, draft, pair, line);
    else if (pair->nic != SCOPE_NONE)
        line_add(line, "%s",
                 scope->gpu_count == 0 ? "no GPU in this machine" : "no GPU is left for this NIC");
    else
        line_add(line, "%s: %s", scope->no_nic,
                 pair->gpu != SCOPE_NONE ? "tcp" : "one tcp worker per NUMA node");
    if (pair->nic != SCOPE_NONE)
        port_explain(scope, pair, line);
    else if (pair->gpu != SCOPE_NONE)
        interface_explain(scope, pair, line);
}

static void seat_explain(const struct scope *scope, const struct draft *draft,
                         const struct seat *seat, struct line *line)
{
    const struct topology_node *node = scope->topology->node;
    const char *neighbour = seat->neighbour >= 0 ? draft->pair[seat->neighbour].name : "";

    if (!seat->told && seat->home == CORES_ANY_NODE)
        line_add(line, "NUMA node unknown: the core is on the emptiest node");
    else if (!seat->told && seat->cpu->node != seat->home)
        line_add(line, "no free core on node %d: runs on node %d", node[seat->home].os_index,
                 node[seat->cpu->node].os_index);
    if (seat->shares_cpu)
        line_add(line, "shares CPU %d with %s%s", seat->cpu->os_index, neighbour,
                 seat->told ? "" : ": more workers than CPUs");
    else if (seat->taken)
        line_add(line, "shares CPU %d with another daemon's worker", seat->cpu->os_index);
    else if (seat->neighbour >= 0)
        line_add(line, "SMT sibling of %s%s", neighbour, seat->told ? "" : ": no core is free");
}

void reason_write(const struct scope *scope, const struct draft *draft, size_t own,
                  const struct seat *seat, char text[TOPOLOGY_TEXT_MAX])
{
    const struct draft_pair *pair = &draft->pair[own];
    struct line line = {.text = text};

    text[0] = '\0';
    if (pair->claim)
        line_add(&line, "[pair] on line %u of the config", pair->claim->rule->line);
    if (draft->asked > 0)
        line_add(&line, "tcp worker %zu of %u, spread over the NUMA nodes", own + 1, draft->asked);
    else
        devices_explain(scope, draft, pair, &line);
    seat_explain(scope, draft, seat, &line);
}
