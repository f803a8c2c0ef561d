#include <string.h>

#include "supervisor/topology/show.h"

#define LEGEND                                       \
    "\n"                                             \
    "  X    itself\n"                                \
    "  PIX  one PCIe switch, or the same card\n"     \
    "  PXB  several PCIe switches, no host bridge\n" \
    "  PHB  a PCIe host bridge\n"                    \
    "  NODE host bridges of one NUMA node\n"         \
    "  SYS  NUMA nodes\n"                            \
    "  NV   NVLink, whatever PCIe is between them\n" \
    "  ?    this machine hides where one of them is\n"

struct matrix {
    const struct topology *topology;
    const struct gpu_facts *facts;
    const struct topology_device *device;
    size_t device_count;
};

/* "GPU0", "NIC3": the number among its kind; "" for what is not shown. */
static void label_print(const struct matrix *matrix, size_t own, char *text, size_t size)
{
    enum topology_kind kind = matrix->device[own].kind;
    unsigned number = 0;

    for (size_t i = 0; i < own; i++)
        number += matrix->device[i].kind == kind;
    text[0] = '\0';
    if (kind != TOPOLOGY_KIND_NETWORK)
        snprintf(text, size, "%s%u", kind == TOPOLOGY_KIND_GPU ? "GPU" : "NIC", number);
}

static const char *cell_word(const struct matrix *matrix, size_t row, size_t column)
{
    enum topology_distance distance;

    if (row == column)
        return "X";
    if (matrix->device[row].kind == TOPOLOGY_KIND_GPU &&
        gpu_facts_linked(matrix->facts, matrix->device[row].bus_id, matrix->device[column].bus_id))
        return "NV";
    distance = topology_device_distance(matrix->topology, row, column);
    return distance == TOPOLOGY_DISTANCE_UNKNOWN ? "?" : topology_distance_name(distance);
}

static const char *node_cpus(const struct matrix *matrix, int os_index)
{
    const struct topology_node *node;
    size_t count = topology_nodes(matrix->topology, &node);

    for (size_t i = 0; i < count; i++)
        if (node[i].os_index == os_index)
            return node[i].cpus;
    return "?";
}

static void row_print(const struct matrix *matrix, size_t row, const char *label)
{
    const struct topology_device *device = &matrix->device[row];
    char other[16];

    printf("%-6s", label);
    for (size_t i = 0; i < matrix->device_count; i++) {
        label_print(matrix, i, other, sizeof(other));
        if (other[0])
            printf(" %-5s", cell_word(matrix, row, i));
    }
    if (device->node >= 0)
        printf(" %-16s %d\n", node_cpus(matrix, device->node), device->node);
    else
        printf(" %-16s ?\n", "?");
}

static void names_print(const struct matrix *matrix)
{
    char label[16];

    putchar('\n');
    for (size_t i = 0; i < matrix->device_count; i++) {
        label_print(matrix, i, label, sizeof(label));
        if (label[0])
            printf("  %-6s %s\n", label, matrix->device[i].name);
    }
}

int topology_show_matrix(const struct topology *topology, const struct topology_plan *plan,
                         const struct gpu_facts *facts)
{
    struct matrix matrix = {.topology = topology, .facts = facts};
    char label[16];

    matrix.device_count = topology_devices(topology, &matrix.device);
    printf("%-6s", "");
    for (size_t i = 0; i < matrix.device_count; i++) {
        label_print(&matrix, i, label, sizeof(label));
        if (label[0])
            printf(" %-5s", label);
    }
    printf(" %-16s %s\n", "CPUS", "NODE");
    for (size_t i = 0; i < matrix.device_count; i++) {
        label_print(&matrix, i, label, sizeof(label));
        if (label[0])
            row_print(&matrix, i, label);
    }
    names_print(&matrix);
    fputs("\nWorkers:\n", stdout);
    for (size_t i = 0; i < plan->count; i++)
        printf("  %-20s %-7s node %d, CPU %s\n", plan->pair[i].name,
               topology_distance_name(plan->pair[i].distance), plan->pair[i].node,
               plan->pair[i].cpus);
    fputs(LEGEND, stdout);
    return ferror(stdout) ? -1 : 0;
}
