#include <libsmartcols.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/topology/show.h"

enum column {
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_CPUS,
    COLUMN_MEMORY,
    COLUMN_BUS,
    COLUMN_PORT,
    COLUMN_NOTE
};

static const struct {
    const char *title;
    int flags;
} columns[] = {
    [COLUMN_NAME] = {"NAME", SCOLS_FL_TREE},
    [COLUMN_KIND] = {"KIND", 0},
    [COLUMN_CPUS] = {"CPUS", SCOLS_FL_WRAP},
    [COLUMN_MEMORY] = {"MEMORY", SCOLS_FL_RIGHT},
    [COLUMN_BUS] = {"BUS ID", 0},
    [COLUMN_PORT] = {"PORT", 0},
    [COLUMN_NOTE] = {"NOTE", SCOLS_FL_WRAP},
};

struct row {
    const char *cell[sizeof(columns) / sizeof(columns[0])];
};

static struct libscols_table *table_make(void)
{
    struct libscols_table *table = scols_new_table();

    if (!table)
        return NULL;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        if (!scols_table_new_column(table, columns[i].title, 0, columns[i].flags)) {
            scols_unref_table(table);
            return NULL;
        }
    return table;
}

static struct libscols_line *row_add(struct libscols_table *table, struct libscols_line *parent,
                                     const struct row *row)
{
    struct libscols_line *line = scols_table_new_line(table, parent);

    if (!line)
        return NULL;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        if (row->cell[i] && scols_line_set_data(line, i, row->cell[i]) != 0)
            return NULL;
    return line;
}

static void memory_print(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, "%.*f %s", unit ? 1 : 0, value, units[unit]);
}

static struct libscols_line *node_add(struct libscols_table *table,
                                      const struct topology_node *node)
{
    char name[32];
    char memory[32];
    char note[96] = "";

    snprintf(name, sizeof(name), "node%d", node->os_index);
    memory_print(node->memory_bytes, memory, sizeof(memory));
    if (node->cpu_present == 0)
        snprintf(note, sizeof(note), "memory only, no worker is pinned here");
    else if (node->cpu_count < node->cpu_present)
        snprintf(note, sizeof(note), "%u of %u CPUs are allowed", node->cpu_count,
                 node->cpu_present);

    struct row row = {.cell = {[COLUMN_NAME] = name,
                               [COLUMN_KIND] = "node",
                               [COLUMN_CPUS] = node->cpus,
                               [COLUMN_MEMORY] = memory,
                               [COLUMN_NOTE] = note}};
    return row_add(table, NULL, &row);
}

static const char *kind_word(enum topology_kind kind)
{
    switch (kind) {
    case TOPOLOGY_KIND_GPU:
        return "gpu";
    case TOPOLOGY_KIND_RDMA:
        return "nic";
    case TOPOLOGY_KIND_NETWORK:
        break;
    }
    return "interface";
}

/* "active InfiniBand"; of several ports "1 active InfiniBand, 2 down". */
static void ports_print(const struct topology_device *device, char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < device->port_count && length < size; i++) {
        const struct topology_port *port = &device->port[i];
        const char *state = topology_port_state_name(port->state);
        if (device->port_count > 1)
            length += (size_t)snprintf(text + length, size - length, "%s%u ", i ? ", " : "",
                                       port->number);
        if (length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s%s", state,
                                       port->link[0] ? " " : "", port->link);
    }
}

/* One machine on its way into the table. */
struct tree {
    struct libscols_table *table;
    const struct topology *topology;
    const struct topology_plan *plan;
    const struct gpu_facts *facts;
};

static int device_add(const struct tree *tree, struct libscols_line *parent,
                      const struct topology_device *device)
{
    char ports[96];
    char links[TOPOLOGY_TEXT_MAX] = "";
    bool is_gpu = device->kind == TOPOLOGY_KIND_GPU;

    if (is_gpu)
        gpu_facts_print(tree->facts, device->bus_id, links, sizeof(links));
    ports_print(device, ports, sizeof(ports));
    struct row row = {.cell = {[COLUMN_NAME] = device->name,
                               [COLUMN_KIND] = kind_word(device->kind),
                               [COLUMN_BUS] = is_gpu ? NULL : device->bus_id,
                               [COLUMN_PORT] = ports,
                               [COLUMN_NOTE] = device->left_out[0] ? device->left_out : links}};
    return row_add(tree->table, parent, &row) ? 0 : -1;
}

/* Devices and branches right below a branch (-1: below none), on one node. */
static int branch_members_add(const struct tree *tree, struct libscols_line *parent, int own,
                              int node)
{
    const struct topology_branch *branch;
    const struct topology_device *device;
    size_t branches = topology_branches(tree->topology, &branch);
    size_t devices = topology_devices(tree->topology, &device);

    for (size_t i = 0; i < branches; i++) {
        struct row row = {.cell = {[COLUMN_NAME] = branch[i].name}};
        if (branch[i].parent != own || branch[i].node != node)
            continue;
        struct libscols_line *line = row_add(tree->table, parent, &row);
        if (!line || branch_members_add(tree, line, (int)i, node) < 0)
            return -1;
    }
    for (size_t i = 0; i < devices; i++)
        if (device[i].branch == own && device[i].node == node &&
            device_add(tree, parent, &device[i]) < 0)
            return -1;
    return 0;
}

/* What is on one node; -1: what no node is known for. */
static int members_add(const struct tree *tree, struct libscols_line *parent, int node)
{
    if (branch_members_add(tree, parent, -1, node) < 0)
        return -1;
    for (size_t i = 0; i < tree->plan->count; i++) {
        const struct topology_pair *pair = &tree->plan->pair[i];
        struct row row = {.cell = {[COLUMN_NAME] = pair->name,
                                   [COLUMN_KIND] = "worker",
                                   [COLUMN_CPUS] = pair->cpus,
                                   [COLUMN_NOTE] = pair->reason}};
        if (pair->node == node && !row_add(tree->table, parent, &row))
            return -1;
    }
    return 0;
}

/* A heading of its own, so that a device without locality does not look like one of a node. */
static int homeless_add(const struct tree *tree)
{
    static const struct row row = {
        .cell = {[COLUMN_NAME] = "unknown node", [COLUMN_NOTE] = "no locality is known for these"}};
    const struct topology_device *device;
    size_t count = topology_devices(tree->topology, &device);

    for (size_t i = 0; i < count; i++) {
        if (device[i].node >= 0)
            continue;
        struct libscols_line *parent = row_add(tree->table, NULL, &row);
        return parent ? members_add(tree, parent, -1) : -1;
    }
    return 0;
}

int topology_show_tree(const struct topology *topology, const struct topology_plan *plan,
                       const struct gpu_facts *facts)
{
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node);
    struct tree tree = {.table = table_make(), .topology = topology, .plan = plan, .facts = facts};
    int rc = -1;

    if (!tree.table)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct libscols_line *line = node_add(tree.table, &node[i]);
        if (!line || members_add(&tree, line, node[i].os_index) < 0)
            goto out;
    }
    if (homeless_add(&tree) < 0)
        goto out;
    rc = scols_print_table(tree.table) == 0 ? 0 : -1;
out:
    scols_unref_table(tree.table);
    return rc;
}
