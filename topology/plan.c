/* Which worker is pinned where.  One CPU at a time: always the one that hurts the others least. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/internal.h"

struct cpu {
    int os_index;
    size_t node; /* index into topology->node */
    size_t core; /* index into draft->core_load */
    unsigned load;
    bool taken; /* by another daemon's worker */
};

/* What is given away so far. */
struct draft {
    size_t cpu_count;
    struct cpu *cpu;
    unsigned *core_load;
    unsigned *node_load;
};

#define ANY_NODE SIZE_MAX

/* Cores are numbered by the first of their CPUs in the list. */
static size_t core_number(const struct topology *topology, const struct draft *draft, size_t own)
{
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(
        topology->hwloc, HWLOC_OBJ_CORE,
        hwloc_get_pu_obj_by_os_index(topology->hwloc, (unsigned)draft->cpu[own].os_index));

    if (core)
        for (size_t i = 0; i < own; i++)
            if (hwloc_bitmap_isset(core->cpuset, (unsigned)draft->cpu[i].os_index))
                return draft->cpu[i].core;
    return own;
}

static void draft_free(struct draft *draft)
{
    free(draft->cpu);
    free(draft->core_load);
    free(draft->node_load);
}

static int draft_make(const struct topology *topology, struct draft *draft)
{
    size_t room = 0;
    int id;

    for (size_t i = 0; i < topology->node_count; i++)
        room += topology->node[i].cpu_count;
    *draft = (struct draft){0};
    draft->cpu = calloc(room + 1, sizeof(*draft->cpu));
    draft->core_load = calloc(room + 1, sizeof(*draft->core_load));
    draft->node_load = calloc(topology->node_count + 1, sizeof(*draft->node_load));
    if (!draft->cpu || !draft->core_load || !draft->node_load) {
        draft_free(draft);
        return -1;
    }
    for (size_t i = 0; i < topology->node_count; i++) {
        hwloc_bitmap_foreach_begin(id, topology->sets[i].usable)
        {
            size_t own = draft->cpu_count++;
            draft->cpu[own] = (struct cpu){.os_index = id, .node = i};
            draft->cpu[own].taken = hwloc_bitmap_isset(topology->taken, (unsigned)id) != 0;
            draft->cpu[own].core = core_number(topology, draft, own);
        }
        hwloc_bitmap_foreach_end();
    }
    return 0;
}

/* A free CPU before a shared one, a free core before an SMT sibling, the emptiest node, and then
 * the kernel's order. */
static bool cpu_is_better(const struct draft *draft, const struct cpu *a, const struct cpu *b)
{
    unsigned load_a = a->load + a->taken, load_b = b->load + b->taken;

    if (load_a != load_b)
        return load_a < load_b;
    if (draft->core_load[a->core] != draft->core_load[b->core])
        return draft->core_load[a->core] < draft->core_load[b->core];
    return draft->node_load[a->node] < draft->node_load[b->node];
}

static struct cpu *cpu_pick(const struct draft *draft, size_t node)
{
    struct cpu *best = NULL;

    for (size_t i = 0; i < draft->cpu_count; i++) {
        struct cpu *cpu = &draft->cpu[i];
        if (node != ANY_NODE && cpu->node != node)
            continue;
        if (!best || cpu_is_better(draft, cpu, best))
            best = cpu;
    }
    return best;
}

/* The worker that already has this CPU or, failing that, one on the same core. */
static const char *neighbour_name(const struct draft *draft, const struct topology_plan *plan,
                                  const struct cpu *cpu)
{
    const char *name = "";

    for (size_t i = 0; i < draft->cpu_count; i++) {
        const struct cpu *other = &draft->cpu[i];
        if (other->core != cpu->core || (cpu->load > 0 && other != cpu))
            continue;
        for (size_t p = 0; p < plan->count; p++)
            if (plan->pair[p].cpu == other->os_index)
                name = plan->pair[p].name;
    }
    return name;
}

static void reason_print(const struct draft *draft, const struct topology_plan *plan,
                         const struct cpu *cpu, const char *why, struct topology_pair *pair)
{
    char company[TOPOLOGY_LABEL_MAX + 64] = "";

    if (cpu->load > 0)
        snprintf(company, sizeof(company), "; shares CPU %d with %s: more workers than CPUs",
                 cpu->os_index, neighbour_name(draft, plan, cpu));
    else if (cpu->taken)
        snprintf(company, sizeof(company), "; shares CPU %d with another daemon's worker",
                 cpu->os_index);
    else if (draft->core_load[cpu->core] > 0)
        snprintf(company, sizeof(company), "; SMT sibling of %s: no core is free",
                 neighbour_name(draft, plan, cpu));
    snprintf(pair->reason, sizeof(pair->reason), "%.64s%s", why, company);
}

static void pair_add(const struct topology *topology, struct draft *draft, struct cpu *cpu,
                     const char *why, struct topology_plan *plan)
{
    struct topology_pair *pair = &plan->pair[plan->count];
    int node = topology->node[cpu->node].os_index;

    *pair = (struct topology_pair){.fabric = "tcp", .node = node, .cpu = cpu->os_index};
    if (draft->node_load[cpu->node] == 0)
        snprintf(pair->name, sizeof(pair->name), "tcp@node%d", node);
    else
        snprintf(pair->name, sizeof(pair->name), "tcp@node%d.%u", node,
                 draft->node_load[cpu->node]);
    snprintf(pair->cpus, sizeof(pair->cpus), "%d", cpu->os_index);
    reason_print(draft, plan, cpu, why, pair);

    cpu->load++;
    draft->core_load[cpu->core]++;
    draft->node_load[cpu->node]++;
    plan->count++;
}

static int plan_by_node(const struct topology *topology, struct draft *draft,
                        struct topology_plan *plan, char *text, size_t text_size)
{
    for (size_t i = 0; i < topology->node_count; i++) {
        struct cpu *cpu = cpu_pick(draft, i);
        if (!cpu)
            continue;
        if (plan->count == TOPOLOGY_PAIRS_MAX)
            return topology_fail(text, text_size,
                                 "more than %d NUMA nodes have usable CPUs; give the number of "
                                 "workers with --workers N, at most %d",
                                 TOPOLOGY_PAIRS_MAX, TOPOLOGY_PAIRS_MAX);
        pair_add(topology, draft, cpu, "one tcp worker per NUMA node with usable CPUs", plan);
    }
    return 0;
}

static void plan_by_number(const struct topology *topology, struct draft *draft, unsigned workers,
                           struct topology_plan *plan)
{
    char why[64];

    for (unsigned i = 0; i < workers; i++) {
        snprintf(why, sizeof(why), "tcp worker %u of %u, spread over the NUMA nodes", i + 1,
                 workers);
        pair_add(topology, draft, cpu_pick(draft, ANY_NODE), why, plan);
    }
}

int topology_plan_make(const struct topology *topology, unsigned workers,
                       struct topology_plan *plan, char *text, size_t text_size)
{
    struct draft draft;
    int rc = 0;

    *plan = (struct topology_plan){0};
    if (workers > TOPOLOGY_PAIRS_MAX)
        return topology_fail(text, text_size, "%u workers are too many; at most %d are possible",
                             workers, TOPOLOGY_PAIRS_MAX);
    if (draft_make(topology, &draft) < 0)
        return topology_fail(text, text_size, "no memory for the plan");

    if (draft.cpu_count == 0)
        rc = topology_fail(text, text_size,
                           "no NUMA node has both CPUs and memory that are allowed; widen the CPU "
                           "affinity (taskset) or the cgroup's cpuset.cpus and cpuset.mems");
    else if (workers == 0)
        rc = plan_by_node(topology, &draft, plan, text, text_size);
    else
        plan_by_number(topology, &draft, workers, plan);
    draft_free(&draft);
    return rc;
}
