/* A topology and its plan, as a tree for people or as JSON for programs, on standard output. */
#ifndef TESUP_SUPERVISOR_TOPOLOGY_SHOW_H
#define TESUP_SUPERVISOR_TOPOLOGY_SHOW_H

#include "topology/topology.h"

/* 0, or -1 when there was no memory for it or standard output refused it. */
int topology_show_tree(const struct topology *topology, const struct topology_plan *plan);
int topology_show_json(const struct topology *topology, const struct topology_plan *plan);

#endif
