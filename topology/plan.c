/* The plan: drafts with cores, names and reasons. */
#include <stdio.h>
#include <string.h>

#include "topology/name.h"
#include "topology/reason.h"
#include "topology/rules.h"

/* A node without CPUs (HBM, CXL) lends the core from the node that is nearest to it. */
static size_t node_with_cpus(const struct topology *topology, size_t node)
{
    hwloc_const_cpuset_t near = topology->sets[node].object->cpuset;

    if (topology->node[node].cpu_present > 0)
        return node;
    for (size_t i = 0; i < topology->node_count; i++)
        if (topology->node[i].cpu_present > 0 &&
            hwloc_bitmap_intersects(topology->sets[i].object->cpuset, near))
            return i;
    return CORES_ANY_NODE;
}

/* The node whose CPUs a worker wants: as told, else near the GPU, whose jobs it serves, else near
 * the NIC. */
static size_t pair_home(const struct scope *scope, const struct draft_pair *pair)
{
    const struct topology *topology = scope->topology;
    int node = -1;

    if (pair->claim && pair->claim->node != SCOPE_NONE)
        return node_with_cpus(topology, pair->claim->node);
    if (pair->gpu == SCOPE_NONE && pair->nic == SCOPE_NONE)
        return pair->node;
    if (pair->gpu != SCOPE_NONE)
        node = topology->device[scope->gpu[pair->gpu]].node;
    if (node < 0 && pair->nic != SCOPE_NONE)
        node = topology->device[scope->nic[pair->nic].device].node;
    return node < 0 ? CORES_ANY_NODE : (size_t)topology_node_find(topology, node);
}

static void seat_take(struct cores *cores, struct seat *seat, struct cpu *cpu, size_t worker)
{
    seat->cpu = cpu;
    seat->neighbour = cores_neighbour(cores, cpu);
    seat->shares_cpu = cpu->load > 0;
    seat->taken = cpu->taken && cpu->load == 0;
    cores_take(cores, cpu, (int)worker);
}

/* Told ones first, then whoever finds a free core at home, so that nobody from elsewhere takes it;
 * then the others. */
static void seats_give(struct scope *scope, const struct draft *draft, struct seat *seats)
{
    struct cores *cores = &scope->cores;
    int id;

    for (size_t i = 0; i < draft->count; i++) {
        const struct claim *claim = draft->pair[i].claim;
        seats[i] = (struct seat){.home = pair_home(scope, &draft->pair[i]), .neighbour = -1};
        seats[i].told = claim && claim->cpus;
        if (!seats[i].told)
            continue;
        hwloc_bitmap_foreach_begin(id, claim->cpus)
        {
            struct seat seat = seats[i];
            seat_take(cores, &seat, cores_find(cores, id), i);
            if (!seats[i].cpu)
                seats[i] = seat;
        }
        hwloc_bitmap_foreach_end();
    }
    for (size_t i = 0; i < draft->count; i++) {
        struct cpu *cpu = seats[i].cpu || seats[i].home == CORES_ANY_NODE
                              ? NULL
                              : cores_pick_free(cores, seats[i].home);
        if (cpu)
            seat_take(cores, &seats[i], cpu, i);
    }
    for (size_t i = 0; i < draft->count; i++)
        if (!seats[i].cpu)
            seat_take(cores, &seats[i], cores_pick(cores, seats[i].home), i);
}

static void pair_fill(const struct scope *scope, const struct draft_pair *draft,
                      const struct seat *seat, struct topology_pair *pair)
{
    const struct topology *topology = scope->topology;
    const struct claim *claim = draft->claim;

    *pair = (struct topology_pair){.fabric = "tcp", .cpu = seat->cpu->os_index};
    memcpy(pair->name, draft->name, sizeof(pair->name));
    if (draft->gpu != SCOPE_NONE) {
        const char *bus_id = topology->device[scope->gpu[draft->gpu]].bus_id;
        snprintf(pair->gpu, sizeof(pair->gpu), "%s",
                 claim && claim->instance ? claim->instance : bus_id);
        snprintf(pair->gpu_bus_id, sizeof(pair->gpu_bus_id), "%s", bus_id);
    }
    if (draft->nic != SCOPE_NONE) {
        const struct scope_nic *nic = &scope->nic[draft->nic];
        const struct topology_port *port = &topology->device[nic->device].port[nic->port];
        memcpy(pair->nic, nic->name, sizeof(pair->nic));
        snprintf(pair->fabric, sizeof(pair->fabric), "verbs");
        snprintf(pair->port, sizeof(pair->port), "%s", topology_port_state_name(port->state));
        memcpy(pair->link, port->link, sizeof(pair->link));
    }
    pair->distance = draft->route.distance;
    pair->node =
        topology->node[claim && claim->node != SCOPE_NONE ? claim->node : seat->cpu->node].os_index;
    if (claim && claim->cpus)
        hwloc_bitmap_list_snprintf(pair->cpus, sizeof(pair->cpus), claim->cpus);
    else
        snprintf(pair->cpus, sizeof(pair->cpus), "%d", pair->cpu);
}

static int plan_by_devices(struct scope *scope, const struct topology_rules *rules,
                           struct topology_plan *plan, char *text, size_t text_size)
{
    struct claim claims[TOPOLOGY_PAIRS_MAX] = {0};
    struct seat seats[TOPOLOGY_PAIRS_MAX];
    struct draft draft = {0};
    size_t claim_count = rules ? rules->count : 0;
    int rc = claim_count > 0 ? rules_resolve(scope, rules, claims, text, text_size) : 0;

    if (rc == 0)
        rc = draft_make(scope, claims, claim_count, &draft, text, text_size);
    if (rc < 0)
        goto out;
    seats_give(scope, &draft, seats);
    plan->count = draft.count;
    for (size_t i = 0; i < draft.count; i++) {
        pair_fill(scope, &draft.pair[i], &seats[i], &plan->pair[i]);
        reason_write(scope, &draft, i, &seats[i], plan->pair[i].reason);
    }
out:
    rules_free(claims, claim_count);
    return rc;
}

static void plan_by_number(struct scope *scope, unsigned workers, struct topology_plan *plan)
{
    const struct topology_node *node = scope->topology->node;
    struct draft draft = {.asked = workers};
    struct seat seat;

    for (size_t i = 0; i < workers; i++) {
        struct draft_pair *pair = &draft.pair[draft.count++];
        struct cpu *cpu = cores_pick(&scope->cores, CORES_ANY_NODE);

        *pair = (struct draft_pair){.gpu = SCOPE_NONE, .nic = SCOPE_NONE, .node = cpu->node};
        name_of_node_worker(node[cpu->node].os_index, scope->cores.node_load[cpu->node],
                            pair->name);
        seat = (struct seat){.home = cpu->node};
        seat_take(&scope->cores, &seat, cpu, i);
        pair_fill(scope, pair, &seat, &plan->pair[i]);
        reason_write(scope, &draft, i, &seat, plan->pair[i].reason);
    }
    plan->count = workers;
}

int topology_plan_make(const struct topology *topology, const struct topology_rules *rules,
                       unsigned workers, struct topology_plan *plan, char *text, size_t text_size)
{
    struct scope scope;
    int rc = 0;

    *plan = (struct topology_plan){0};
    if (workers > TOPOLOGY_PAIRS_MAX)
        return topology_fail(text, text_size, "%u workers are too many; at most %d are possible",
                             workers, TOPOLOGY_PAIRS_MAX);
    if (workers > 0 && rules && rules->count > 0)
        return topology_fail(text, text_size,
                             "%s:%u: [pair %s] names one worker of the plan, and a number of "
                             "workers was asked for instead of it; use one of the two",
                             rules->file, rules->rule[0].line, rules->rule[0].name);
    if (scope_make(&scope, topology, rules, text, text_size) < 0)
        return -1;
    if (workers > 0)
        plan_by_number(&scope, workers, plan);
    else
        rc = plan_by_devices(&scope, rules, plan, text, text_size);
    scope_free(&scope);
    return rc;
}
