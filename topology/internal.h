/* What the files of this room share. */
#ifndef TESUP_TOPOLOGY_INTERNAL_H
#define TESUP_TOPOLOGY_INTERNAL_H

#include <hwloc.h>

#include "topology/topology.h"

/* What hwloc knows of the node with the same index in topology->node. */
struct topology_node_sets {
    hwloc_obj_t object;
    hwloc_bitmap_t usable; /* CPUs that are the node's own and that this process may use */
    char *list;            /* the same as text */
};

struct topology {
    hwloc_topology_t hwloc;
    hwloc_bitmap_t taken; /* CPUs of other daemons' workers */
    size_t node_count;
    struct topology_node *node; /* by os_index, ascending */
    struct topology_node_sets *sets;
    size_t device_count;
    struct topology_device *device;
    size_t branch_count;
    struct topology_branch *branch;
    hwloc_obj_t *place; /* of the device with the same index: where it hangs; NULL unknown */
};

/* Puts the sentence into text; -1, so that a caller can return it. */
int topology_fail(char *text, size_t text_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills the list of nodes, and the list of devices (which needs the nodes). */
int topology_nodes_fill(struct topology *topology, bool live, char *text, size_t text_size);
int topology_devices_fill(struct topology *topology, const char *root, char *text,
                          size_t text_size);

/* Fills the list of branches, from the devices. */
int topology_branches_fill(struct topology *topology, char *text, size_t text_size);

/* The node (os_index) and package of what lies there; -1: several, or unknown. */
int topology_place_node(const struct topology *topology, hwloc_obj_t place);
int topology_place_package(const struct topology *topology, hwloc_obj_t place);

/* The index in topology->node of an os_index; -1: there is none. */
int topology_node_find(const struct topology *topology, int os_index);

#endif
