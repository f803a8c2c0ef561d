#include "topology/cores.h"

#include <stdlib.h>

/* Cores are numbered by the first of their CPUs in the list. */
static size_t core_number(const struct cores *cores, size_t own)
{
    hwloc_topology_t hwloc = cores->topology->hwloc;
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(
        hwloc, HWLOC_OBJ_CORE,
        hwloc_get_pu_obj_by_os_index(hwloc, (unsigned)cores->cpu[own].os_index));

    if (core)
        for (size_t i = 0; i < own; i++)
            if (hwloc_bitmap_isset(core->cpuset, (unsigned)cores->cpu[i].os_index))
                return cores->cpu[i].core;
    return own;
}

static void cpu_add(struct cores *cores, int os_index, size_t node)
{
    size_t own = cores->cpu_count++;
    struct cpu *cpu = &cores->cpu[own];

    *cpu = (struct cpu){.os_index = os_index, .node = node, .worker = -1};
    cpu->taken = hwloc_bitmap_isset(cores->topology->taken, (unsigned)os_index) != 0;
    cpu->core = core_number(cores, own);
    cores->core_load[cpu->core] += cpu->taken;
}

int cores_make(struct cores *cores, const struct topology *topology, hwloc_const_bitmap_t reserved)
{
    size_t room = 1;
    int id;

    for (size_t i = 0; i < topology->node_count; i++)
        room += topology->node[i].cpu_count;
    *cores = (struct cores){.topology = topology};
    cores->cpu = calloc(room, sizeof(*cores->cpu));
    cores->core_load = calloc(room, sizeof(*cores->core_load));
    cores->node_load = calloc(topology->node_count + 1, sizeof(*cores->node_load));
    if (!cores->cpu || !cores->core_load || !cores->node_load) {
        cores_free(cores);
        return -1;
    }
    for (size_t i = 0; i < topology->node_count; i++) {
        hwloc_bitmap_foreach_begin(id, topology->sets[i].usable)
        {
            if (!hwloc_bitmap_isset(reserved, (unsigned)id))
                cpu_add(cores, id, i);
        }
        hwloc_bitmap_foreach_end();
    }
    return 0;
}

void cores_free(struct cores *cores)
{
    free(cores->cpu);
    free(cores->core_load);
    free(cores->node_load);
    *cores = (struct cores){0};
}

struct cpu *cores_find(const struct cores *cores, int os_index)
{
    for (size_t i = 0; i < cores->cpu_count; i++)
        if (cores->cpu[i].os_index == os_index)
            return &cores->cpu[i];
    return NULL;
}

bool cores_node_has_any(const struct cores *cores, size_t node)
{
    for (size_t i = 0; i < cores->cpu_count; i++)
        if (cores->cpu[i].node == node)
            return true;
    return false;
}

struct cpu *cores_pick_free(const struct cores *cores, size_t node)
{
    for (size_t i = 0; i < cores->cpu_count; i++)
        if (cores->cpu[i].node == node && cores->core_load[cores->cpu[i].core] == 0)
            return &cores->cpu[i];
    return NULL;
}

/* 0 the same node, 1 another one of its package, 2 farther. */
static unsigned node_steps(const struct cores *cores, size_t from, size_t to)
{
    const struct topology_node *node = cores->topology->node;

    if (from == CORES_ANY_NODE || from == to)
        return 0;
    return node[from].package >= 0 && node[from].package == node[to].package ? 1 : 2;
}

static bool cpu_is_better(const struct cores *cores, size_t node, const struct cpu *a,
                          const struct cpu *b)
{
    unsigned load_a = a->load + a->taken, load_b = b->load + b->taken;
    unsigned steps_a = node_steps(cores, node, a->node), steps_b = node_steps(cores, node, b->node);

    if (load_a != load_b)
        return load_a < load_b;
    if (cores->core_load[a->core] != cores->core_load[b->core])
        return cores->core_load[a->core] < cores->core_load[b->core];
    if (steps_a != steps_b)
        return steps_a < steps_b;
    return cores->node_load[a->node] < cores->node_load[b->node];
}

struct cpu *cores_pick(const struct cores *cores, size_t node)
{
    struct cpu *best = NULL;

    for (size_t i = 0; i < cores->cpu_count; i++)
        if (!best || cpu_is_better(cores, node, &cores->cpu[i], best))
            best = &cores->cpu[i];
    return best;
}

void cores_take(struct cores *cores, struct cpu *cpu, int worker)
{
    cpu->load++;
    if (cpu->worker < 0)
        cpu->worker = worker;
    cores->core_load[cpu->core]++;
    cores->node_load[cpu->node]++;
}

int cores_neighbour(const struct cores *cores, const struct cpu *cpu)
{
    if (cpu->worker >= 0)
        return cpu->worker;
    for (size_t i = 0; i < cores->cpu_count; i++)
        if (cores->cpu[i].core == cpu->core && cores->cpu[i].worker >= 0)
            return cores->cpu[i].worker;
    return -1;
}
