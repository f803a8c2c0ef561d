#include <jansson.h>
#include <stdio.h>

#include "supervisor/topology/show.h"

/* "" and -1 mean "none" in the structs, and null in JSON. */
static json_t *text_or_null(const char *text)
{
    return text[0] ? json_string(text) : json_null();
}

static json_t *node_or_null(int node)
{
    return node < 0 ? json_null() : json_integer(node);
}

static json_t *distance_or_null(enum topology_distance distance)
{
    return distance == TOPOLOGY_DISTANCE_NONE ? json_null()
                                              : json_string(topology_distance_name(distance));
}

static json_t *nodes_pack(const struct topology *topology)
{
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node);
    json_t *list = json_array();

    /* Jansson frees what it is given and remembers failure as NULL: one check at the end does. */
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, json_pack("{s:i, s:s, s:I}", "node", node[i].os_index,
                                                  "cpus", node[i].cpus, "memory_bytes",
                                                  (json_int_t)node[i].memory_bytes)) < 0)
            goto err_free;
    return list;

err_free:
    json_decref(list);
    return NULL;
}

static json_t *ports_pack(const struct topology_device *device)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < device->port_count; i++) {
        const struct topology_port *port = &device->port[i];
        if (json_array_append_new(list, json_pack("{s:i, s:s, s:o}", "port", (int)port->number,
                                                  "state", topology_port_state_name(port->state),
                                                  "link", text_or_null(port->link))) < 0)
            goto err_free;
    }
    return list;

err_free:
    json_decref(list);
    return NULL;
}

/* Bus ids of the GPUs that it reaches by NVLink. */
static json_t *links_pack(const struct gpu_facts *facts, const struct topology_device *device)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < facts->count; i++) {
        if (device->kind == TOPOLOGY_KIND_GPU &&
            gpu_facts_linked(facts, device->bus_id, facts->gpu[i].bus_id) &&
            json_array_append_new(list, json_string(facts->gpu[i].bus_id)) < 0)
            goto err_free;
    }
    return list;

err_free:
    json_decref(list);
    return NULL;
}

static json_t *instances_pack(const struct nvml_gpu *gpu)
{
    json_t *list = json_array();

    for (unsigned i = 0; gpu && i < gpu->mig_count; i++) {
        if (json_array_append_new(list, json_string(gpu->mig[i])) < 0)
            goto err_free;
    }
    return list;

err_free:
    json_decref(list);
    return NULL;
}

static json_t *device_pack(const struct topology_device *device, const struct gpu_facts *facts)
{
    const struct nvml_gpu *gpu =
        device->kind == TOPOLOGY_KIND_GPU ? gpu_facts_find(facts, device->bus_id) : NULL;

    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", device->name, "kind",
                     topology_kind_name(device->kind), "bus_id", text_or_null(device->bus_id),
                     "uuid", text_or_null(device->uuid[0] || !gpu ? device->uuid : gpu->uuid),
                     "numa_node", node_or_null(device->node), "ports", ports_pack(device),
                     "left_out", text_or_null(device->left_out), "nvlink",
                     links_pack(facts, device), "mig", instances_pack(gpu));
}

static json_t *devices_pack(const struct topology *topology, const struct gpu_facts *facts)
{
    const struct topology_device *device;
    size_t count = topology_devices(topology, &device);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, device_pack(&device[i], facts)) < 0)
            goto err_free;
    return list;

err_free:
    json_decref(list);
    return NULL;
}

static json_t *pair_pack(const struct topology_pair *pair)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o}", "name", pair->name,
                     "gpu", text_or_null(pair->gpu), "nic", text_or_null(pair->nic), "distance",
                     distance_or_null(pair->distance), "numa_node", node_or_null(pair->node),
                     "cpus", pair->cpus, "fabric", pair->fabric, "reason", pair->reason, "port",
                     text_or_null(pair->port), "link", text_or_null(pair->link));
}

static json_t *pairs_pack(const struct topology_plan *plan)
{
    json_t *list = json_array();

    for (size_t i = 0; i < plan->count; i++)
        if (json_array_append_new(list, pair_pack(&plan->pair[i])) < 0)
            goto err_free;
    return list;

err_free:
    json_decref(list);
    return NULL;
}

int topology_show_json(const struct topology *topology, const struct topology_plan *plan,
                       const struct gpu_facts *facts)
{
    json_t *root = json_pack("{s:o, s:o, s:o}", "pairs", pairs_pack(plan), "nodes",
                             nodes_pack(topology), "devices", devices_pack(topology, facts));

    if (!root)
        return -1;
    int rc = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
    return rc;
}
