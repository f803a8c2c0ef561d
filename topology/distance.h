/* The PCI tree and the NUMA nodes, read as a distance. */
#ifndef TESUP_TOPOLOGY_DISTANCE_H
#define TESUP_TOPOLOGY_DISTANCE_H

#include "topology/internal.h"

struct route {
    enum topology_distance distance;
    unsigned rank; /* finer: 0 is nearest; tells a package from the next one */
};

/* How two devices (indexes in topology->device) reach each other. */
struct route route_find(const struct topology *topology, size_t one, size_t other);

/* The lowest object that has both below it (or is one of them); NULL when one is NULL. */
hwloc_obj_t object_common(hwloc_obj_t one, hwloc_obj_t other);

#endif
