/* The words by which a job or an operator names a worker:
 *
 *   mlx5_0+44:00.0   a pair        nic:mlx5_0, mlx5_0              a NIC
 *   numa:1           a NUMA node   gpu:44:00.0, 0000:44:00.0       a GPU by bus id
 *                                  gpu:GPU-89…, GPU-89…            a GPU by UUID, or its beginning
 *                                  gpu:MIG-1c…, MIG-1c…            a MIG instance by its whole UUID
 *                                  gpu:2                           a GPU by number, in PCI order
 */
#ifndef TESUP_SUPERVISOR_JOB_PLACE_H
#define TESUP_SUPERVISOR_JOB_PLACE_H

#include "topology/topology.h"

enum place_kind { PLACE_NAME, PLACE_NIC, PLACE_GPU, PLACE_NODE };

struct place {
    enum place_kind kind;
    const char *name; /* pair or NIC: in the words that were given */
    const char *gpu;  /* bus id, of the topology's device, or a MIG instance in the words */
    int node;         /* os_index; -1: does not matter */
};

/* 0, or -1 with a sentence in text that names what there is. */
int place_parse(const char *words, const struct topology *topology, struct place *place, char *text,
                size_t text_size);

/* True when the pair is what was meant; for a node: always, nearness decides. */
bool place_matches(const struct place *place, const struct topology_pair *pair);

/* How far a pair's node is from one (-1: does not matter): 0 the same, 1 in its package, 2 farther.
 */
unsigned place_node_steps(const struct topology *topology, int node,
                          const struct topology_pair *pair);

#endif
