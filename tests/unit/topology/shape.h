/* Machines in a few lines, written as the XML that hwloc would export for them.
 *
 * Devices are lines of text; two blanks of indent mean "below the line before":
 *
 *   node 1 | package 0 | machine        where what follows is attached (machine: locality hidden)
 *     host 40                           a host bridge with this bus
 *       bridge 41:00.0                  a PCI bridge: a root port, or one side of a switch
 *         gpu 44:00.0 | amd | vga       NVIDIA, AMD, a management controller's graphics
 *         nic 43:00.0 mlx5_0 4          InfiniBand, with its port's state; of two ports: 4 1
 *         roce | vf                     the same as Ethernet; as a virtual function
 *         eth 61:00.0 eno1              a network interface
 */
#ifndef TESUP_TESTS_UNIT_TOPOLOGY_SHAPE_H
#define TESUP_TESTS_UNIT_TOPOLOGY_SHAPE_H

#include "topology_fixture.h"

struct shape {
    unsigned packages, nodes, cores, smt; /* nodes of a package, cores of a node, CPUs of a core */
    const char *allowed;                  /* list of CPUs; NULL: all */
    const char *devices;
};

struct shape_writer {
    FILE *out;
    const struct shape *shape;
    unsigned id; /* gp_index */
};

static inline char *shape_set(unsigned first, unsigned count)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    char *text;

    hwloc_bitmap_set_range(set, first, (int)(first + count) - 1);
    hwloc_bitmap_asprintf(&text, set);
    hwloc_bitmap_free(set);
    return text;
}

/* CPUs are numbered core by core; nodes take them in turn. */
static inline void shape_object(struct shape_writer *writer, const char *type, unsigned os_index,
                                unsigned first_node, unsigned nodes, unsigned first_cpu,
                                unsigned cpus, const char *rest)
{
    char *cpuset = shape_set(first_cpu, cpus), *nodeset = shape_set(first_node, nodes);

    fprintf(writer->out,
            "<object type=\"%s\" os_index=\"%u\" cpuset=\"%s\" complete_cpuset=\"%s\" "
            "nodeset=\"%s\" complete_nodeset=\"%s\" gp_index=\"%u\"%s>\n",
            type, os_index, cpuset, cpuset, nodeset, nodeset, ++writer->id, rest);
    free(cpuset);
    free(nodeset);
}

static inline void shape_os_device(struct shape_writer *writer, const char *name, int type,
                                   unsigned ports, const int *state, bool lid)
{
    fprintf(writer->out, "<object type=\"OSDev\" gp_index=\"%u\" name=\"%s\" osdev_type=\"%d\">\n",
            ++writer->id, name, type);
    for (unsigned i = 0; i < ports; i++)
        fprintf(writer->out,
                "<info name=\"Port%uState\" value=\"%d\"/><info name=\"Port%uLID\" "
                "value=\"0x%x\"/>\n",
                i + 1, state[i], i + 1, lid ? 16 + i : 0);
    if (type == 2)
        fprintf(writer->out, "<info name=\"Address\" value=\"02:00:00:00:00:01\"/>\n");
    fprintf(writer->out, "</object>\n");
}

/* One line: opens its object; the depth says who closes it. */
static inline void shape_line(struct shape_writer *writer, const char *line)
{
    static const struct {
        const char *word, *class;
        int os_device;
    } kinds[] = {
        {"gpu", "0302 [10de:20b0]", 0},  {"amd", "0380 [1002:7408]", 0},
        {"vga", "0300 [1a03:2000]", 0},  {"nic", "0207 [15b3:101b]", 3},
        {"roce", "0200 [15b3:101b]", 3}, {"vf", "0207 [15b3:101c]", 3},
        {"eth", "0200 [8086:1572]", 2},
    };
    char word[16] = "", id[32] = "", name[32] = "", full[48];
    char first[8] = "", second[8] = "";
    int got = sscanf(line, "%15s %31s %31s %7s %7s", word, id, name, first, second);
    int state[2] = {(int)strtol(first, NULL, 10), (int)strtol(second, NULL, 10)};

    snprintf(full, sizeof(full), "%s%s", strchr(id, ':') == strrchr(id, ':') ? "0000:" : "", id);
    if (strcmp(word, "host") == 0) {
        fprintf(writer->out,
                "<object type=\"Bridge\" gp_index=\"%u\" bridge_type=\"0-1\" depth=\"0\" "
                "bridge_pci=\"0000:[%s-ff]\">\n",
                ++writer->id, id);
        return;
    }
    if (strcmp(word, "bridge") == 0) {
        fprintf(writer->out,
                "<object type=\"Bridge\" gp_index=\"%u\" bridge_type=\"1-1\" depth=\"1\" "
                "bridge_pci=\"0000:[01-ff]\" pci_busid=\"%s\" pci_type=\"0604 [1000:c010] "
                "[1000:100b] b0\" pci_link_speed=\"0.0\">\n",
                ++writer->id, full);
        return;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(word, kinds[i].word) != 0)
            continue;
        fprintf(writer->out,
                "<object type=\"PCIDev\" gp_index=\"%u\" pci_busid=\"%s\" pci_type=\"%s "
                "[1000:100b] b0\" pci_link_speed=\"0.0\">\n",
                ++writer->id, full, kinds[i].class);
        if (kinds[i].os_device)
            shape_os_device(writer, name, kinds[i].os_device, got > 3 ? (unsigned)got - 3 : 0,
                            state, strcmp(word, "roce") != 0);
        return;
    }
    fail_msg("'%s' is no line of a shape", line);
}

/* The lines below the one that is `where`. */
static inline void shape_devices(struct shape_writer *writer, const char *where)
{
    const char *at = writer->shape->devices ? writer->shape->devices : "";
    bool inside = false;
    size_t open = 0;
    char line[128];

    while (*at) {
        size_t length = strcspn(at, "\n");
        size_t indent = strspn(at, " ") / 2;
        snprintf(line, sizeof(line), "%.*s", (int)(length - indent * 2), at + indent * 2);
        at += length + (at[length] == '\n');
        if (indent == 0) {
            for (; open > 0; open--)
                fprintf(writer->out, "</object>\n");
            inside = strcmp(line, where) == 0;
        } else if (inside) {
            for (; open >= indent; open--)
                fprintf(writer->out, "</object>\n");
            shape_line(writer, line);
            open++;
        }
    }
    for (; open > 0; open--)
        fprintf(writer->out, "</object>\n");
}

static inline void shape_node(struct shape_writer *writer, unsigned node)
{
    const struct shape *shape = writer->shape;
    unsigned cpus = shape->cores * shape->smt;
    char where[32];

    shape_object(writer, "Group", node, node, 1, node * cpus, cpus, "");
    shape_object(writer, "NUMANode", node, node, 1, node * cpus, cpus,
                 " local_memory=\"68719476736\"");
    fprintf(writer->out, "</object>\n");
    for (unsigned core = 0; core < shape->cores; core++) {
        unsigned first = node * cpus + core * shape->smt;
        shape_object(writer, "Core", core, node, 1, first, shape->smt, "");
        for (unsigned i = 0; i < shape->smt; i++) {
            shape_object(writer, "PU", first + i, node, 1, first + i, 1, "");
            fprintf(writer->out, "</object>\n");
        }
        fprintf(writer->out, "</object>\n");
    }
    snprintf(where, sizeof(where), "node %u", node);
    shape_devices(writer, where);
    fprintf(writer->out, "</object>\n");
}

static inline void shape_machine(struct shape_writer *writer)
{
    const struct shape *shape = writer->shape;
    unsigned nodes = shape->packages * shape->nodes, node_cpus = shape->cores * shape->smt;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    char *allowed_text, *nodeset = shape_set(0, nodes);
    char rest[512], where[32];

    hwloc_bitmap_set_range(allowed, 0, (int)(nodes * node_cpus) - 1);
    if (shape->allowed)
        hwloc_bitmap_list_sscanf(allowed, shape->allowed);
    hwloc_bitmap_asprintf(&allowed_text, allowed);
    snprintf(rest, sizeof(rest), " allowed_cpuset=\"%s\" allowed_nodeset=\"%s\"", allowed_text,
             nodeset);
    shape_object(writer, "Machine", 0, 0, nodes, 0, nodes * node_cpus, rest);
    for (unsigned package = 0; package < shape->packages; package++) {
        shape_object(writer, "Package", package, package * shape->nodes, shape->nodes,
                     package * shape->nodes * node_cpus, shape->nodes * node_cpus, "");
        for (unsigned node = 0; node < shape->nodes; node++)
            shape_node(writer, package * shape->nodes + node);
        snprintf(where, sizeof(where), "package %u", package);
        shape_devices(writer, where);
        fprintf(writer->out, "</object>\n");
    }
    shape_devices(writer, "machine");
    fprintf(writer->out, "</object>\n");
    hwloc_bitmap_free(allowed);
    free(allowed_text);
    free(nodeset);
}

/* Writes the file; `path` is made by mkstemp(3). */
static inline void shape_write(const struct shape *shape, char *path, size_t path_size)
{
    struct shape_writer writer = {.shape = shape};

    snprintf(path, path_size, "/tmp/tesup-topology-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    writer.out = fdopen(fd, "w");
    assert_non_null(writer.out);
    fprintf(writer.out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
    shape_machine(&writer);
    fprintf(writer.out, "</topology>\n");
    assert_int_equal(fclose(writer.out), 0);
}

/* `root` as for topology_load_rooted(). */
static inline struct topology *shape_load(const struct shape *shape, const char *root)
{
    struct topology *topology = NULL;
    char text[512] = "";
    char path[64];

    shape_write(shape, path, sizeof(path));
    if (topology_load_rooted(path, root, &topology, text, sizeof(text)) < 0)
        fail_msg("%s", text);
    unlink(path);
    return topology;
}

#endif
