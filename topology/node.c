#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "topology/internal.h"

/* What this process may use: the cgroup's cpuset, and on the live machine also its affinity. */
static hwloc_bitmap_t allowed_make(const struct topology *topology, bool live)
{
    hwloc_bitmap_t affinity = NULL;
    hwloc_bitmap_t allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology->hwloc));

    if (!allowed || !live)
        return allowed;
    affinity = hwloc_bitmap_alloc();
    if (!affinity)
        goto err_free;
    /* sched_getaffinity(), with a mask of the size that this kernel wants. */
    if (hwloc_get_cpubind(topology->hwloc, affinity, HWLOC_CPUBIND_THREAD) < 0)
        goto err_free;
    if (hwloc_bitmap_and(allowed, allowed, affinity) < 0)
        goto err_free;
    hwloc_bitmap_free(affinity);
    return allowed;

err_free:
    hwloc_bitmap_free(affinity);
    hwloc_bitmap_free(allowed);
    return NULL;
}

static int by_os_index(const void *left, const void *right)
{
    const struct topology_node_sets *a = left;
    const struct topology_node_sets *b = right;

    return (a->object->os_index > b->object->os_index) -
           (a->object->os_index < b->object->os_index);
}

/* The node whose own CPU this is: hwloc gives nodes that have none (HBM, CXL) the CPUs of the nodes
 * that they are near to, so a CPU can be in several.  Its own node has the smallest set, and among
 * equals the lowest number, because firmware and kernel number nodes with CPUs first. */
static struct topology_node_sets *owner_find(struct topology *topology, unsigned cpu)
{
    struct topology_node_sets *owner = NULL;
    int owner_weight = INT_MAX;

    for (size_t i = 0; i < topology->node_count; i++) {
        struct topology_node_sets *sets = &topology->sets[i];
        int weight = hwloc_bitmap_weight(sets->object->cpuset);
        if (hwloc_bitmap_isset(sets->object->cpuset, cpu) && weight < owner_weight) {
            owner = sets;
            owner_weight = weight;
        }
    }
    return owner;
}

/* Gives every CPU to its node: to `cpu_present` in any case, to `usable` when it is allowed and so
 * is the node's memory. */
static int cpus_share_out(struct topology *topology, hwloc_const_bitmap_t allowed)
{
    hwloc_const_nodeset_t memory = hwloc_topology_get_allowed_nodeset(topology->hwloc);
    hwloc_obj_t pu = NULL;

    while ((pu = hwloc_get_next_obj_by_type(topology->hwloc, HWLOC_OBJ_PU, pu))) {
        struct topology_node_sets *owner = owner_find(topology, pu->os_index);
        if (!owner)
            continue;
        topology->node[owner - topology->sets].cpu_present++;
        if (hwloc_bitmap_isset(allowed, pu->os_index) &&
            hwloc_bitmap_isset(memory, owner->object->os_index) &&
            hwloc_bitmap_set(owner->usable, pu->os_index) < 0)
            return -1;
    }
    return 0;
}

static int lists_alloc(struct topology *topology)
{
    int count = hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE);
    hwloc_obj_t object = NULL;

    if (count < 1) {
        errno = ENOENT;
        return -1;
    }
    topology->node = calloc((size_t)count, sizeof(*topology->node));
    topology->sets = calloc((size_t)count, sizeof(*topology->sets));
    if (!topology->node || !topology->sets)
        return -1;
    for (; topology->node_count < (size_t)count; topology->node_count++) {
        struct topology_node_sets *sets = &topology->sets[topology->node_count];
        object = hwloc_get_next_obj_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE, object);
        sets->object = object;
        sets->usable = hwloc_bitmap_alloc();
        if (!sets->usable)
            return -1;
    }
    qsort(topology->sets, topology->node_count, sizeof(*topology->sets), by_os_index);
    return 0;
}

static int node_describe(const struct topology *topology, struct topology_node *node,
                         struct topology_node_sets *sets)
{
    hwloc_obj_t package =
        hwloc_get_ancestor_obj_by_type(topology->hwloc, HWLOC_OBJ_PACKAGE, sets->object);

    if (hwloc_bitmap_list_asprintf(&sets->list, sets->usable) < 0)
        return -1;
    node->os_index = (int)sets->object->os_index;
    node->package = package ? (int)package->os_index : -1;
    node->cpu_count = (unsigned)hwloc_bitmap_weight(sets->usable);
    node->memory_bytes = sets->object->attr->numanode.local_memory;
    node->cpus = sets->list;
    return 0;
}

int topology_nodes_fill(struct topology *topology, bool live, char *text, size_t text_size)
{
    hwloc_bitmap_t allowed = allowed_make(topology, live);
    int rc = -1;

    if (!allowed)
        return topology_fail(text, text_size, "cannot find out which CPUs are allowed: %s",
                             strerror(errno));
    if (lists_alloc(topology) < 0 || cpus_share_out(topology, allowed) < 0)
        goto out;
    for (size_t i = 0; i < topology->node_count; i++)
        if (node_describe(topology, &topology->node[i], &topology->sets[i]) < 0)
            goto out;
    rc = 0;
out:
    if (rc < 0)
        topology_fail(text, text_size, "cannot list the NUMA nodes: %s", strerror(errno));
    hwloc_bitmap_free(allowed);
    return rc;
}

int topology_node_find(const struct topology *topology, int os_index)
{
    for (size_t i = 0; i < topology->node_count; i++)
        if (topology->node[i].os_index == os_index)
            return (int)i;
    return -1;
}

size_t topology_node_cores(const struct topology *topology, size_t node,
                           struct topology_core *cores, size_t max)
{
    hwloc_bitmap_t left = hwloc_bitmap_dup(topology->sets[node].usable);
    size_t count = 0;
    int cpu;

    while (left && (cpu = hwloc_bitmap_first(left)) >= 0) {
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(
            topology->hwloc, HWLOC_OBJ_CORE,
            hwloc_get_pu_obj_by_os_index(topology->hwloc, (unsigned)cpu));
        hwloc_bitmap_t own = hwloc_bitmap_alloc();
        if (!own)
            break;
        if (!core || hwloc_bitmap_and(own, left, core->cpuset) < 0)
            hwloc_bitmap_only(own, (unsigned)cpu);
        if (count < max) {
            cores[count].first_cpu = cpu;
            hwloc_bitmap_list_snprintf(cores[count].cpus, sizeof(cores[count].cpus), own);
        }
        count++;
        hwloc_bitmap_andnot(left, left, own);
        hwloc_bitmap_free(own);
    }
    hwloc_bitmap_free(left);
    return count;
}
