/* Topology in, plan out.  Pure: no daemon, no device is opened, nothing is pinned.
 *
 * discover.c and node.c say what is in the machine (or in an hwloc XML file), distance.c how far
 * from each other, assign.c which GPU uses which NIC, cores.c which core each worker gets, name.c
 * what it is called; plan.c puts them together and gives the reasons.  machine.c alone asks sysfs,
 * for what hwloc does not know.
 */
#ifndef TESUP_TOPOLOGY_TOPOLOGY_H
#define TESUP_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPOLOGY_LABEL_MAX     64
#define TOPOLOGY_TEXT_MAX      200
#define TOPOLOGY_PAIRS_MAX     64
#define TOPOLOGY_PORTS_MAX     4
#define TOPOLOGY_INSTANCES_MAX 8 /* of one GPU */

struct topology; /* a loaded hwloc topology and the lists made from it */

struct topology_node {
    int os_index;         /* as the kernel numbers it */
    int package;          /* os index; -1: more than one, or none */
    unsigned cpu_count;   /* CPUs of the node that this process may use */
    unsigned cpu_present; /* all its CPUs; 0: memory only, never pinned to */
    uint64_t memory_bytes;
    const char *cpus; /* the usable ones as a list, "0-3,8"; lives as long as the topology */
};

/* How two devices reach each other, named as `nvidia-smi topo -m` does. */
enum topology_distance {
    TOPOLOGY_DISTANCE_NONE,    /* there are no two devices */
    TOPOLOGY_DISTANCE_PIX,     /* one PCIe switch, or the same card */
    TOPOLOGY_DISTANCE_PXB,     /* several PCIe switches, no host bridge */
    TOPOLOGY_DISTANCE_PHB,     /* a PCIe host bridge */
    TOPOLOGY_DISTANCE_NODE,    /* host bridges of one NUMA node */
    TOPOLOGY_DISTANCE_SYS,     /* NUMA nodes */
    TOPOLOGY_DISTANCE_UNKNOWN, /* the machine hides where one of them is */
};

/* "PIX", …, "SYS", "unknown"; "-" for none. */
const char *topology_distance_name(enum topology_distance distance);

enum topology_kind { TOPOLOGY_KIND_GPU, TOPOLOGY_KIND_RDMA, TOPOLOGY_KIND_NETWORK };

/* "gpu", "openfabrics", "network". */
const char *topology_kind_name(enum topology_kind kind);

/* The numbers of the kernel (and of hwloc's PortNState). */
enum topology_port_state {
    TOPOLOGY_PORT_UNKNOWN = 0,
    TOPOLOGY_PORT_DOWN = 1,
    TOPOLOGY_PORT_INIT = 2,
    TOPOLOGY_PORT_ARMED = 3,
    TOPOLOGY_PORT_ACTIVE = 4,
};

/* "active", "down", …; "unknown". */
const char *topology_port_state_name(enum topology_port_state state);

struct topology_port {
    unsigned number; /* from 1 */
    enum topology_port_state state;
    char link[16]; /* "InfiniBand", "Ethernet", "" unknown */
};

struct topology_device {
    enum topology_kind kind;
    char name[TOPOLOGY_LABEL_MAX]; /* "mlx5_0", "eth0"; bus id for a GPU; printable ASCII */
    char bus_id[16];               /* "0000:44:00.0", lower case; "" when not PCI */
    char uuid[TOPOLOGY_LABEL_MAX]; /* of a GPU, "GPU-…"; "" unknown */
    unsigned instance_count;       /* MIG instances that are known */
    char instance[TOPOLOGY_INSTANCES_MAX][TOPOLOGY_LABEL_MAX]; /* "MIG-…" */
    uint16_t vendor;                                           /* PCI; 0 when not PCI */
    int node;                                                  /* os_index, -1 unknown */
    int package;                                               /* os index, -1 unknown */
    int branch; /* index in the list of branches, -1 none */
    unsigned port_count;
    struct topology_port port[TOPOLOGY_PORTS_MAX];
    char left_out[TOPOLOGY_LABEL_MAX * 2]; /* why no plan uses it; "": it can be used */
};

/* Where two devices or more meet in the PCI tree. */
struct topology_branch {
    char name[32]; /* "switch 41:00.0", "card 21:00", "host bridge 40" */
    int parent;    /* index of the next one above, -1 none */
    int node;      /* os_index, -1 unknown */
};

struct topology_core {
    int first_cpu; /* os index */
    char cpus[48]; /* the usable ones, as a list */
};

struct topology_pair {
    char name[TOPOLOGY_LABEL_MAX]; /* "mlx5_0+44:00.0", "mlx5_0", "tcp+44:00.0", "tcp@node0" */
    char nic[TOPOLOGY_LABEL_MAX];  /* "" none; with ":2" for a port of a NIC with several */
    char gpu[TOPOLOGY_LABEL_MAX];  /* bus id, or "MIG-…" for an instance; "" none */
    char gpu_bus_id[16];           /* of either */
    char fabric[16];               /* "verbs" with a NIC, else "tcp" */
    char port[16];                 /* state of the NIC's port: "active", …; "" no NIC */
    char link[16];                 /* its link layer; "" no NIC, or unknown */
    enum topology_distance distance;
    int node;                      /* os_index of the node whose core and memory it uses */
    int cpu;                       /* the CPU to pin to, os index; the first of several */
    char cpus[TOPOLOGY_LABEL_MAX]; /* all CPUs to pin to, as a list */
    char reason[TOPOLOGY_TEXT_MAX];
};

struct topology_plan {
    size_t count;
    struct topology_pair pair[TOPOLOGY_PAIRS_MAX];
};

/* What the operator wants otherwise for one worker: a [pair NAME] section. */
struct topology_rule {
    char name[TOPOLOGY_LABEL_MAX]; /* of a pair of the automatic plan, or a new one */
    char nic[TOPOLOGY_LABEL_MAX];  /* "" as planned */
    char gpu[TOPOLOGY_LABEL_MAX];  /* bus id, with or without domain, or an instance's UUID; "" as
                                    * planned */
    char cpus[TOPOLOGY_LABEL_MAX]; /* a list; "" as planned */
    int node;                      /* -1 as planned */
    unsigned line;                 /* where the first of them is said */
    struct {
        unsigned nic, gpu, cpus, node;
    } at; /* where each is said; 0: it is not */
};

struct topology_rules {
    char file[256];           /* that the lines are of */
    char exclude[1024];       /* names of NICs and bus ids of GPUs, with commas; "" none */
    char reserved_cpus[1024]; /* a list; "" none */
    size_t count;
    struct topology_rule rule[TOPOLOGY_PAIRS_MAX];
};

/* Loads the live machine (xml NULL) or an hwloc XML file. A file is tried in a short-lived child
 * first, because hwloc crashes on damaged ones; call it before threads are started.
 * 0, or -1 with a sentence in text (file, what is wrong). Free with topology_free(). */
int topology_load(const char *xml, struct topology **topology, char *text, size_t text_size);
/* The same, with sysfs, devfs and procfs below `root` asked about ports, also with an XML file;
 * root NULL: nobody is asked. */
int topology_load_rooted(const char *xml, const char *root, struct topology **topology, char *text,
                         size_t text_size);
void topology_free(struct topology *topology);

size_t topology_nodes(const struct topology *topology, const struct topology_node **nodes);
/* GPUs by bus id, then RDMA NICs and network interfaces by name. */
size_t topology_devices(const struct topology *topology, const struct topology_device **devices);

/* A branch comes behind the one above it. */
size_t topology_branches(const struct topology *topology, const struct topology_branch **branches);
/* The cores of a node (index) with usable CPUs, at most `max`, into cores. How many there are. */
size_t topology_node_cores(const struct topology *topology, size_t node,
                           struct topology_core *cores, size_t max);

/* How far from each other two devices of the list are. */
enum topology_distance topology_device_distance(const struct topology *topology, size_t one,
                                                size_t other);

/* The GPU that CUDA numbers so with CUDA_DEVICE_ORDER=PCI_BUS_ID; NULL: there are fewer. */
const struct topology_device *topology_gpu_by_index(const struct topology *topology,
                                                    unsigned index);

/* True for the same PCI device, however it is written: "0000:44:00.0", "44:00.0",
 * "00000000:44:00.0", upper case. */
bool topology_bus_id_equal(const char *one, const char *other);

/* What only NVIDIA's driver knows: a GPU's UUID, and each of its MIG instances. Before a plan is
 * made whose rules name one. */
void topology_name_gpu(struct topology *topology, const char *bus_id, const char *uuid);
void topology_name_instance(struct topology *topology, const char *bus_id, const char *uuid);

/* Says that another daemon's worker is pinned to this CPU: the plan takes it after free ones. */
void topology_mark_taken(struct topology *topology, unsigned cpu);

/* Makes the plan. `workers` 0: a worker for each GPU with its nearest active NIC, one for each NIC
 * that is left, and without any of them a tcp worker per NUMA node with usable CPUs; else exactly
 * that many tcp workers (at most TOPOLOGY_PAIRS_MAX), spread over the nodes.
 * Never two workers on one core while a free one is left, SMT siblings last; with more workers than
 * CPUs the rest share and the reason says so. Only CPUs of the allowed cpuset.
 * `rules` NULL: none. 0, or -1 with a sentence in text that names what is possible. */
int topology_plan_make(const struct topology *topology, const struct topology_rules *rules,
                       unsigned workers, struct topology_plan *plan, char *text, size_t text_size);

#endif
