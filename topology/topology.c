#include "topology/topology.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/internal.h"
#include "topology/xml.h"

int topology_fail(char *text, size_t text_size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, text_size, format, args);
    va_end(args);
    return -1;
}

/* hwloc prints what it thinks of firmware and files to stderr unless its environment variable says
 * otherwise; it is gone again before a child could inherit it. */
static int quiet_load(hwloc_topology_t hwloc)
{
    bool ours = !getenv("HWLOC_HIDE_ERRORS");

    if (ours)
        setenv("HWLOC_HIDE_ERRORS", "2", 1);
    int rc = hwloc_topology_load(hwloc);
    if (ours)
        unsetenv("HWLOC_HIDE_ERRORS");
    return rc;
}

/* What is not allowed stays in the topology: it is shown as such, and never planned with. */
static int hwloc_make(hwloc_topology_t *hwloc, const struct xml_file *file)
{
    if (hwloc_topology_init(hwloc) < 0)
        return -1;
    if (hwloc_topology_set_flags(*hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) < 0 ||
        hwloc_topology_set_io_types_filter(*hwloc, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0)
        goto err_destroy;
    if (file && hwloc_topology_set_xmlbuffer(*hwloc, file->bytes, file->size) < 0)
        goto err_destroy;
    if (quiet_load(*hwloc) < 0)
        goto err_destroy;
    return 0;

err_destroy:
    hwloc_topology_destroy(*hwloc);
    *hwloc = NULL;
    return -1;
}

static int load_file(struct topology *topology, const char *xml, char *text, size_t text_size)
{
    struct xml_file file;

    if (xml_file_load(xml, &file, text, text_size) < 0)
        return -1;
    int rc = hwloc_make(&topology->hwloc, &file);
    if (rc < 0)
        topology_fail(text, text_size, "hwloc cannot load %s: %s", xml, strerror(errno));
    xml_file_free(&file);
    return rc;
}

static int load_live(struct topology *topology, char *text, size_t text_size)
{
    if (hwloc_make(&topology->hwloc, NULL) < 0)
        return topology_fail(text, text_size, "hwloc cannot read this machine's topology: %s",
                             strerror(errno));
    if (!hwloc_topology_is_thissystem(topology->hwloc))
        return topology_fail(text, text_size,
                             "hwloc was told to show another machine than this one; unset "
                             "HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT and HWLOC_COMPONENTS");
    return 0;
}

int topology_load_rooted(const char *xml, const char *root, struct topology **topology, char *text,
                         size_t text_size)
{
    struct topology *made = calloc(1, sizeof(*made));

    if (made)
        made->taken = hwloc_bitmap_alloc();
    if (!made || !made->taken) {
        topology_free(made);
        return topology_fail(text, text_size, "no memory for the topology");
    }
    int rc = xml ? load_file(made, xml, text, text_size) : load_live(made, text, text_size);
    if (rc < 0 || topology_nodes_fill(made, !xml, text, text_size) < 0 ||
        topology_devices_fill(made, root, text, text_size) < 0 ||
        topology_branches_fill(made, text, text_size) < 0) {
        topology_free(made);
        return -1;
    }
    *topology = made;
    return 0;
}

int topology_load(const char *xml, struct topology **topology, char *text, size_t text_size)
{
    return topology_load_rooted(xml, xml ? NULL : "", topology, text, text_size);
}

void topology_free(struct topology *topology)
{
    if (!topology)
        return;
    for (size_t i = 0; topology->sets && i < topology->node_count; i++) {
        hwloc_bitmap_free(topology->sets[i].usable);
        free(topology->sets[i].list);
    }
    free(topology->sets);
    free(topology->node);
    free(topology->device);
    free(topology->place);
    free(topology->branch);
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    hwloc_bitmap_free(topology->taken);
    free(topology);
}

void topology_mark_taken(struct topology *topology, unsigned cpu)
{
    hwloc_bitmap_set(topology->taken, cpu);
}

static struct topology_device *gpu_find(struct topology *topology, const char *bus_id)
{
    for (size_t i = 0; i < topology->device_count; i++)
        if (topology->device[i].kind == TOPOLOGY_KIND_GPU &&
            topology_bus_id_equal(topology->device[i].bus_id, bus_id))
            return &topology->device[i];
    return NULL;
}

void topology_name_gpu(struct topology *topology, const char *bus_id, const char *uuid)
{
    struct topology_device *gpu = gpu_find(topology, bus_id);

    if (gpu && gpu->uuid[0] == '\0')
        snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
}

void topology_name_instance(struct topology *topology, const char *bus_id, const char *uuid)
{
    struct topology_device *gpu = gpu_find(topology, bus_id);

    if (gpu && gpu->instance_count < TOPOLOGY_INSTANCES_MAX)
        snprintf(gpu->instance[gpu->instance_count++], TOPOLOGY_LABEL_MAX, "%s", uuid);
}

size_t topology_nodes(const struct topology *topology, const struct topology_node **nodes)
{
    *nodes = topology->node;
    return topology->node_count;
}

size_t topology_devices(const struct topology *topology, const struct topology_device **devices)
{
    *devices = topology->device;
    return topology->device_count;
}

size_t topology_branches(const struct topology *topology, const struct topology_branch **branches)
{
    *branches = topology->branch;
    return topology->branch_count;
}
