/* Topology in, plan out.  Pure: no daemon, no device is opened, nothing is pinned.
 *
 * First form: the NUMA nodes with CPUs of this machine (or of an hwloc XML file), NICs and GPUs as
 * hwloc sees them, and one `tcp` worker per NUMA node that has CPUs and that this process may use.
 */
#ifndef TESUP_TOPOLOGY_TOPOLOGY_H
#define TESUP_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPOLOGY_LABEL_MAX 64
#define TOPOLOGY_TEXT_MAX  200
#define TOPOLOGY_PAIRS_MAX 64

struct topology; /* a loaded hwloc topology and the lists made from it */

struct topology_node {
    int os_index;         /* as the kernel numbers it */
    unsigned cpu_count;   /* CPUs of the node that this process may use */
    unsigned cpu_present; /* all its CPUs; 0: memory only, never pinned to */
    uint64_t memory_bytes;
    const char *cpus; /* the usable ones as a list, "0-3,8"; lives as long as the topology */
};

struct topology_device {
    char name[TOPOLOGY_LABEL_MAX]; /* "mlx5_0", "eth0"; bus id for a GPU; printable ASCII */
    char bus_id[16];               /* "0000:44:00.0", lower case; "" when not PCI */
    char kind[16];                 /* "openfabrics", "network", "gpu" */
    int node;                      /* os_index, -1 unknown */
};

struct topology_pair {
    char name[TOPOLOGY_LABEL_MAX]; /* "tcp@node0" */
    char nic[TOPOLOGY_LABEL_MAX];  /* "" none */
    char gpu[TOPOLOGY_LABEL_MAX];  /* bus id, "" none */
    char fabric[16];               /* "tcp" */
    int node;                      /* os_index, -1 unknown */
    int cpu;                       /* the CPU to pin to, os index; -1: not pinned */
    char cpus[TOPOLOGY_LABEL_MAX]; /* the same as a list */
    char reason[TOPOLOGY_TEXT_MAX];
};

struct topology_plan {
    size_t count;
    struct topology_pair pair[TOPOLOGY_PAIRS_MAX];
};

/* Loads the live machine (xml NULL) or an hwloc XML file. A file is tried in a short-lived child
 * first, because hwloc crashes on damaged ones; call it before threads are started.
 * 0, or -1 with a sentence in text (file, what is wrong). Free with topology_free(). */
int topology_load(const char *xml, struct topology **topology, char *text, size_t text_size);
void topology_free(struct topology *topology);

size_t topology_nodes(const struct topology *topology, const struct topology_node **nodes);
size_t topology_devices(const struct topology *topology, const struct topology_device **devices);

/* Says that another daemon's worker is pinned to this CPU: the plan takes it after free ones. */
void topology_mark_taken(struct topology *topology, unsigned cpu);

/* Makes the plan. `workers` 0: one tcp worker per NUMA node with usable CPUs; else exactly that
 * many (at most TOPOLOGY_PAIRS_MAX), spread over the nodes, named tcp@nodeN, tcp@nodeN.1, …
 * Never two workers on one core while a free one is left, SMT siblings last; with more workers than
 * PUs the rest share and the reason says so. Only CPUs of the allowed cpuset. */
int topology_plan_make(const struct topology *topology, unsigned workers,
                       struct topology_plan *plan, char *text, size_t text_size);

#endif
