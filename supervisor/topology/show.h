/* A topology and its plan: for people as a tree, a matrix or a picture, for programs as JSON. */
#ifndef TESUP_SUPERVISOR_TOPOLOGY_SHOW_H
#define TESUP_SUPERVISOR_TOPOLOGY_SHOW_H

#include <stdio.h>

#include "supervisor/topology/gpus.h"
#include "topology/topology.h"

/* On standard output, with what is known of the GPUs beyond their places. 0, or -1 when there was
 * no memory for it or standard output refused it. */
int topology_show_tree(const struct topology *topology, const struct topology_plan *plan,
                       const struct gpu_facts *facts);
int topology_show_json(const struct topology *topology, const struct topology_plan *plan,
                       const struct gpu_facts *facts);
/* Distances between GPUs and NICs, NVLinks between GPUs, as `nvidia-smi topo -m` shows them. */
int topology_show_matrix(const struct topology *topology, const struct topology_plan *plan,
                         const struct gpu_facts *facts);

/* The same as an SVG file; whether it could be written is for the caller to ask `out`. */
void topology_show_svg(const struct topology *topology, const struct topology_plan *plan,
                       FILE *out);

#endif
