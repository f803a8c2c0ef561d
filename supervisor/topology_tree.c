#include <libsmartcols.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/topology_show.h"

enum column { COLUMN_NAME, COLUMN_KIND, COLUMN_CPUS, COLUMN_MEMORY, COLUMN_BUS, COLUMN_NOTE };

static const struct {
    const char *title;
    int flags;
} columns[] = {
    [COLUMN_NAME] = {"NAME", SCOLS_FL_TREE},
    [COLUMN_KIND] = {"KIND", 0},
    [COLUMN_CPUS] = {"CPUS", SCOLS_FL_WRAP},
    [COLUMN_MEMORY] = {"MEMORY", SCOLS_FL_RIGHT},
    [COLUMN_BUS] = {"BUS ID", 0},
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

/* The devices and workers of one node; -1: those that no node is known for. */
static int members_add(struct libscols_table *table, struct libscols_line *parent, int node,
                       const struct topology *topology, const struct topology_plan *plan)
{
    const struct topology_device *device;
    size_t count = topology_devices(topology, &device);

    for (size_t i = 0; i < count; i++) {
        struct row row = {.cell = {[COLUMN_NAME] = device[i].name,
                                   [COLUMN_KIND] = topology_kind_name(device[i].kind),
                                   [COLUMN_BUS] = device[i].bus_id}};
        if (device[i].node == node && !row_add(table, parent, &row))
            return -1;
    }
    for (size_t i = 0; i < plan->count; i++) {
        const struct topology_pair *pair = &plan->pair[i];
        struct row row = {.cell = {[COLUMN_NAME] = pair->name,
                                   [COLUMN_KIND] = "worker",
                                   [COLUMN_CPUS] = pair->cpus,
                                   [COLUMN_NOTE] = pair->reason}};
        if (pair->node == node && !row_add(table, parent, &row))
            return -1;
    }
    return 0;
}

/* A heading of its own, so that a device without locality does not look like one of a node. */
static int homeless_add(struct libscols_table *table, const struct topology *topology,
                        const struct topology_plan *plan)
{
    static const struct row row = {
        .cell = {[COLUMN_NAME] = "unknown node", [COLUMN_NOTE] = "no locality is known for these"}};
    const struct topology_device *device;
    size_t count = topology_devices(topology, &device);

    for (size_t i = 0; i < count; i++) {
        if (device[i].node >= 0)
            continue;
        struct libscols_line *parent = row_add(table, NULL, &row);
        return parent ? members_add(table, parent, -1, topology, plan) : -1;
    }
    return 0;
}

int topology_show_tree(const struct topology *topology, const struct topology_plan *plan)
{
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node);
    struct libscols_table *table = table_make();
    int rc = -1;

    if (!table)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct libscols_line *line = node_add(table, &node[i]);
        if (!line || members_add(table, line, node[i].os_index, topology, plan) < 0)
            goto out;
    }
    if (homeless_add(table, topology, plan) < 0)
        goto out;
    rc = scols_print_table(table) == 0 ? 0 : -1;
out:
    scols_unref_table(table);
    return rc;
}
