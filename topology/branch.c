/* The part of the PCI tree that is worth showing: where devices meet; and where that is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/distance.h"
#include "topology/name.h"

/* The nearest object with CPUs and memory of its own. */
static hwloc_obj_t place_around(const struct topology *topology, hwloc_obj_t place)
{
    if (!place || !hwloc_obj_type_is_io(place->type))
        return place;
    return hwloc_get_non_io_ancestor_obj(topology->hwloc, place);
}

/* Where locality is missing hwloc attaches a device to the whole machine: several nodes are no
 * answer, and none is guessed. */
int topology_place_node(const struct topology *topology, hwloc_obj_t place)
{
    hwloc_obj_t around = place_around(topology, place);
    int node = -1;

    if (!around || !around->nodeset)
        return -1;
    for (size_t i = 0; i < topology->node_count; i++) {
        if (!hwloc_bitmap_isset(around->nodeset, topology->sets[i].object->os_index) ||
            topology->node[i].cpu_present == 0)
            continue;
        if (node >= 0)
            return -1;
        node = topology->node[i].os_index;
    }
    return node;
}

int topology_place_package(const struct topology *topology, hwloc_obj_t place)
{
    hwloc_obj_t object = place_around(topology, place);

    while (object && object->type != HWLOC_OBJ_PACKAGE)
        object = object->parent;
    return object ? (int)object->os_index : -1;
}

/* A card has its functions right below the bridge; a switch has more bridges there. */
static void branch_name(hwloc_obj_t bridge, char *name, size_t size)
{
    const struct hwloc_bridge_attr_s *attr = &bridge->attr->bridge;
    hwloc_obj_t child = bridge->io_first_child;
    char id[16];

    if (attr->upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
        snprintf(id, sizeof(id), "%04x:%02x", attr->downstream.pci.domain,
                 attr->downstream.pci.secondary_bus);
        snprintf(name, size, "host bridge %s", name_short_bus_id(id));
    } else if (child && child->type == HWLOC_OBJ_PCI_DEVICE) {
        const struct hwloc_pcidev_attr_s *pci = &child->attr->pcidev;
        snprintf(id, sizeof(id), "%04x:%02x:%02x", pci->domain, pci->bus, pci->dev);
        snprintf(name, size, "card %s", name_short_bus_id(id));
    } else {
        const struct hwloc_pcidev_attr_s *pci = &attr->upstream.pci;
        snprintf(id, sizeof(id), "%04x:%02x:%02x.%01x", pci->domain, pci->bus, pci->dev, pci->func);
        snprintf(name, size, "switch %s", name_short_bus_id(id));
    }
}

struct meeting {
    hwloc_obj_t object;
    unsigned depth; /* below the machine */
};

static unsigned object_depth(hwloc_obj_t object)
{
    unsigned depth = 0;

    for (; object->parent; object = object->parent)
        depth++;
    return depth;
}

static int by_depth(const void *left, const void *right)
{
    const struct meeting *a = left;
    const struct meeting *b = right;

    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return (a->object->gp_index > b->object->gp_index) -
           (a->object->gp_index < b->object->gp_index);
}

static bool meeting_known(const struct meeting *meetings, size_t count, hwloc_obj_t object)
{
    for (size_t i = 0; i < count; i++)
        if (meetings[i].object == object)
            return true;
    return false;
}

static size_t meetings_find(const struct topology *topology, struct meeting *meetings)
{
    size_t count = 0;

    for (size_t i = 0; i < topology->device_count; i++)
        for (size_t k = 0; k < i; k++) {
            hwloc_obj_t meet = object_common(topology->place[i], topology->place[k]);
            if (meet && meet->type == HWLOC_OBJ_BRIDGE && !meeting_known(meetings, count, meet))
                meetings[count++] = (struct meeting){meet, object_depth(meet)};
        }
    return count;
}

/* The nearest one at or above the object; -1: none. */
static int meeting_above(const struct meeting *meetings, size_t count, hwloc_obj_t object)
{
    for (; object; object = object->parent)
        for (size_t i = 0; i < count; i++)
            if (meetings[i].object == object)
                return (int)i;
    return -1;
}

int topology_branches_fill(struct topology *topology, char *text, size_t text_size)
{
    /* A tree with n leaves branches n - 1 times at most. */
    struct meeting *meetings = calloc(topology->device_count + 1, sizeof(*meetings));

    topology->branch = calloc(topology->device_count + 1, sizeof(*topology->branch));
    if (!meetings || !topology->branch) {
        free(meetings);
        return topology_fail(text, text_size, "no memory for the PCI tree");
    }
    topology->branch_count = meetings_find(topology, meetings);
    qsort(meetings, topology->branch_count, sizeof(*meetings), by_depth);
    for (size_t i = 0; i < topology->branch_count; i++) {
        struct topology_branch *branch = &topology->branch[i];
        hwloc_obj_t object = meetings[i].object;
        branch_name(object, branch->name, sizeof(branch->name));
        branch->parent = meeting_above(meetings, topology->branch_count, object->parent);
        branch->node = topology_place_node(topology, object);
    }
    for (size_t i = 0; i < topology->device_count; i++)
        topology->device[i].branch =
            meeting_above(meetings, topology->branch_count, topology->place[i]);
    free(meetings);
    return 0;
}
