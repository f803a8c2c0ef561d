/* CPUs to pin workers to, and who has them. */
#ifndef TESUP_TOPOLOGY_CORES_H
#define TESUP_TOPOLOGY_CORES_H

#include "topology/internal.h"

#define CORES_ANY_NODE SIZE_MAX

struct cpu {
    int os_index;
    size_t node; /* index in topology->node */
    size_t core; /* index in cores->core_load */
    unsigned load;
    bool taken; /* by another daemon's worker */
    int worker; /* of the plan, the first one here; -1: none */
};

struct cores {
    const struct topology *topology;
    size_t cpu_count;
    struct cpu *cpu;
    unsigned *core_load; /* workers on all CPUs of a core, those of other daemons too */
    unsigned *node_load;
};

/* All usable CPUs but the reserved ones. 0, or -1 without memory. Free with cores_free(). */
int cores_make(struct cores *cores, const struct topology *topology, hwloc_const_bitmap_t reserved);
void cores_free(struct cores *cores);

/* NULL: it cannot be used. */
struct cpu *cores_find(const struct cores *cores, int os_index);
bool cores_node_has_any(const struct cores *cores, size_t node);

/* A core of this node (index) that nobody uses, or NULL. */
struct cpu *cores_pick_free(const struct cores *cores, size_t node);
/* The CPU where one more worker hurts least: a free core before a core that is in use before a CPU
 * that is, each as near to `node` as there is one (CORES_ANY_NODE: on the emptiest node). */
struct cpu *cores_pick(const struct cores *cores, size_t node);
void cores_take(struct cores *cores, struct cpu *cpu, int worker);

/* The worker with whom it is shared: on the same CPU, else on the same core; -1: nobody. */
int cores_neighbour(const struct cores *cores, const struct cpu *cpu);

#endif
