/* What only the running machine knows of its devices: the one file of this room that asks it.
 *
 * `root` stands before every path ("" on a real machine), so that tests bring a tree of their own.
 * What cannot be read is unknown, and never an error: containers hide some of it.
 */
#ifndef TESUP_TOPOLOGY_MACHINE_H
#define TESUP_TOPOLOGY_MACHINE_H

#include "topology/topology.h"

#define MACHINE_DEVICES_MAX 64
#define MACHINE_MEMBERS_MAX 16

struct machine_names {
    size_t count;
    char name[MACHINE_DEVICES_MAX][TOPOLOGY_LABEL_MAX];
};

/* All RDMA devices of sysfs, in no order; hwloc leaves out virtual ones. */
void machine_rdma_list(const char *root, struct machine_names *names);
/* State and link layer of each port. How many there are; 0 when sysfs does not say. */
unsigned machine_rdma_ports(const char *root, const char *name, struct topology_port *port);
/* True when this process may open it; else the reason is in why. */
bool machine_rdma_openable(const char *root, const char *name, char *why, size_t why_size);
/* The bus id of the physical function whose virtual one this is; false when it is none. */
bool machine_rdma_physical(const char *root, const char *name, char bus_id[16]);
/* The network interface that a virtual one (Soft-RoCE) runs over. */
bool machine_rdma_interface(const char *root, const char *name, char *interface, size_t size);

/* State and link layer of a network interface; false when it is not there. */
bool machine_net_port(const char *root, const char *name, struct topology_port *port);
/* The interfaces that it is made of (bond, VLAN, bridge); none for a real one. */
void machine_net_members(const char *root, const char *name, struct machine_names *names);
/* The bond or bridge that it is a part of. */
bool machine_net_master(const char *root, const char *name, char *master, size_t size);

/* "GPU-…", as CUDA_VISIBLE_DEVICES has it. */
bool machine_gpu_uuid(const char *root, const struct topology_device *gpu, char *uuid, size_t size);

#endif
