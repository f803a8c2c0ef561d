/* What pairs, NIC ports and GPUs are called. */
#ifndef TESUP_TOPOLOGY_NAME_H
#define TESUP_TOPOLOGY_NAME_H

#include "topology/topology.h"

/* "44:00.0" of "0000:44:00.0"; in another domain the whole id. */
const char *name_short_bus_id(const char *bus_id);

/* "mlx5_0", or "mlx4_0:2" for a port of a NIC with several. */
void name_of_port(const struct topology_device *nic, unsigned port, char name[TOPOLOGY_LABEL_MAX]);

/* NIC and GPU, NIC alone, GPU alone ("tcp+44:00.0"); "" means that there is none. */
void name_of_pair(const char *nic, const char *gpu, char name[TOPOLOGY_LABEL_MAX]);

/* The `number`th tcp worker of a node: "tcp@node0", "tcp@node0.1", … */
void name_of_node_worker(int node, unsigned number, char name[TOPOLOGY_LABEL_MAX]);

#endif
