#include "topology/distance.h"

/* By how much farther a class is.  SYS has two: the other node may be in the same package. */
enum rank {
    RANK_PIX,
    RANK_PXB,
    RANK_PHB,
    RANK_NODE,
    RANK_PACKAGE,
    RANK_SYS,
    RANK_UNKNOWN,
};

const char *topology_distance_name(enum topology_distance distance)
{
    switch (distance) {
    case TOPOLOGY_DISTANCE_PIX:
        return "PIX";
    case TOPOLOGY_DISTANCE_PXB:
        return "PXB";
    case TOPOLOGY_DISTANCE_PHB:
        return "PHB";
    case TOPOLOGY_DISTANCE_NODE:
        return "NODE";
    case TOPOLOGY_DISTANCE_SYS:
        return "SYS";
    case TOPOLOGY_DISTANCE_UNKNOWN:
        return "unknown";
    case TOPOLOGY_DISTANCE_NONE:
        break;
    }
    return "-";
}

static bool object_is_above(hwloc_obj_t above, hwloc_obj_t object)
{
    for (; object; object = object->parent)
        if (object == above)
            return true;
    return false;
}

/* hwloc has one of its own, which counts depths: those of I/O objects are all the same. */
hwloc_obj_t object_common(hwloc_obj_t one, hwloc_obj_t other)
{
    while (one && !object_is_above(one, other))
        one = one->parent;
    return other ? one : NULL;
}

static bool is_host_bridge(hwloc_obj_t object)
{
    return object->type == HWLOC_OBJ_BRIDGE &&
           object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

/* Bridges between `top` and the device, both not counted. */
static unsigned bridges_below(hwloc_obj_t top, hwloc_obj_t device)
{
    unsigned count = 0;

    for (; device != top; device = device->parent)
        if (device->type == HWLOC_OBJ_BRIDGE)
            count++;
    return count;
}

/* Two devices that meet below a host bridge.  A switch is two layers of bridges: they meet at its
 * upper one, and each has one of the lower layer above it. */
static struct route route_in_switches(hwloc_obj_t meet, hwloc_obj_t one, hwloc_obj_t other)
{
    if (bridges_below(meet, one) <= 1 && bridges_below(meet, other) <= 1)
        return (struct route){TOPOLOGY_DISTANCE_PIX, RANK_PIX};
    return (struct route){TOPOLOGY_DISTANCE_PXB, RANK_PXB};
}

static struct route route_by_node(const struct topology_device *one,
                                  const struct topology_device *other)
{
    bool same_package = one->package >= 0 && one->package == other->package;

    if (one->node < 0 || other->node < 0)
        return (struct route){TOPOLOGY_DISTANCE_UNKNOWN,
                              same_package ? RANK_PACKAGE : RANK_UNKNOWN};
    if (one->node == other->node)
        return (struct route){TOPOLOGY_DISTANCE_NODE, RANK_NODE};
    return (struct route){TOPOLOGY_DISTANCE_SYS, same_package ? RANK_PACKAGE : RANK_SYS};
}

struct route route_find(const struct topology *topology, size_t one, size_t other)
{
    hwloc_obj_t meet = object_common(topology->place[one], topology->place[other]);

    if (meet && hwloc_obj_type_is_io(meet->type)) {
        if (is_host_bridge(meet))
            return (struct route){TOPOLOGY_DISTANCE_PHB, RANK_PHB};
        return route_in_switches(meet, topology->place[one], topology->place[other]);
    }
    return route_by_node(&topology->device[one], &topology->device[other]);
}

enum topology_distance topology_device_distance(const struct topology *topology, size_t one,
                                                size_t other)
{
    return route_find(topology, one, other).distance;
}
