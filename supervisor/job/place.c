#include "supervisor/job/place.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void gpus_list(const struct topology *topology, bool uuids, char *text, size_t text_size)
{
    const struct topology_device *device;
    size_t count = topology_devices(topology, &device), length = 0;

    snprintf(text, text_size, "none");
    for (size_t i = 0; i < count && length < text_size; i++) {
        const char *name = uuids ? device[i].uuid : device[i].bus_id;
        if (device[i].kind == TOPOLOGY_KIND_GPU && name[0] != '\0')
            length += (size_t)snprintf(text + length, text_size - length, "%s%s",
                                       length ? ", " : "", name);
    }
}

static bool all_digits(const char *words)
{
    for (; *words; words++)
        if (!isdigit((unsigned char)*words))
            return false;
    return true;
}

/* Tools cut UUIDs short; the beginning must be that of one GPU only. */
static const struct topology_device *gpu_by_uuid(const struct topology *topology, const char *uuid)
{
    const struct topology_device *device, *found = NULL;
    size_t count = topology_devices(topology, &device);

    for (size_t i = 0; i < count; i++) {
        if (device[i].kind != TOPOLOGY_KIND_GPU || device[i].uuid[0] == '\0' ||
            strncasecmp(device[i].uuid, uuid, strlen(uuid)) != 0)
            continue;
        if (found)
            return NULL;
        found = &device[i];
    }
    return found;
}

static const struct topology_device *gpu_by_bus_id(const struct topology *topology,
                                                   const char *bus_id)
{
    const struct topology_device *device;
    size_t count = topology_devices(topology, &device);

    for (size_t i = 0; i < count; i++)
        if (device[i].kind == TOPOLOGY_KIND_GPU && topology_bus_id_equal(device[i].bus_id, bus_id))
            return &device[i];
    return NULL;
}

static bool is_uuid(const char *words)
{
    return strncasecmp(words, "GPU-", 4) == 0;
}

/* The daemon serves the instances that its pairs name, whatever else there is. */
static bool is_instance(const char *words)
{
    return strncasecmp(words, "MIG-", 4) == 0;
}

static int gpu_parse(const char *words, const struct topology *topology, struct place *place,
                     char *text, size_t text_size)
{
    const struct topology_device *gpu;
    char known[256];

    if (is_instance(words)) {
        *place = (struct place){.kind = PLACE_GPU, .gpu = words, .node = -1};
        return 0;
    }
    if (is_uuid(words))
        gpu = gpu_by_uuid(topology, words);
    else if (words[0] != '\0' && strlen(words) < 5 && all_digits(words))
        gpu = topology_gpu_by_index(topology, (unsigned)strtoul(words, NULL, 10));
    else
        gpu = gpu_by_bus_id(topology, words);
    if (gpu) {
        *place = (struct place){.kind = PLACE_GPU, .gpu = gpu->bus_id, .node = -1};
        return 0;
    }
    gpus_list(topology, is_uuid(words), known, sizeof(known));
    snprintf(text, text_size, "no GPU is %.60s, or more than one; there are: %.200s", words, known);
    return -1;
}

static int node_parse(const char *words, const struct topology *topology, struct place *place,
                      char *text, size_t text_size)
{
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node), length = 0;
    char known[128] = "";

    for (size_t i = 0; i < count; i++) {
        if (words[0] != '\0' && strlen(words) < 6 && all_digits(words) &&
            node[i].os_index == (int)strtol(words, NULL, 10)) {
            *place = (struct place){.kind = PLACE_NODE, .node = node[i].os_index};
            return 0;
        }
        if (length < sizeof(known))
            length += (size_t)snprintf(known + length, sizeof(known) - length, "%s%d",
                                       i ? ", " : "", node[i].os_index);
    }
    snprintf(text, text_size, "no NUMA node is %.60s; there are: %s", words, known);
    return -1;
}

int place_parse(const char *words, const struct topology *topology, struct place *place, char *text,
                size_t text_size)
{
    if (strncmp(words, "gpu:", 4) == 0)
        return gpu_parse(words + 4, topology, place, text, text_size);
    if (strncmp(words, "numa:", 5) == 0)
        return node_parse(words + 5, topology, place, text, text_size);
    if (is_uuid(words) || is_instance(words) || gpu_by_bus_id(topology, words))
        return gpu_parse(words, topology, place, text, text_size);
    *place = (struct place){.kind = PLACE_NAME, .name = words, .node = -1};
    if (strncmp(words, "nic:", 4) == 0)
        *place = (struct place){.kind = PLACE_NIC, .name = words + 4, .node = -1};
    return 0;
}

/* A NIC with several ports is each of them: "mlx4_0" is "mlx4_0:2". */
static bool nic_is_named(const struct topology_pair *pair, const char *name)
{
    size_t length = strlen(name);

    return pair->nic[0] != '\0' && strncmp(pair->nic, name, length) == 0 &&
           (pair->nic[length] == '\0' || pair->nic[length] == ':');
}

bool place_matches(const struct place *place, const struct topology_pair *pair)
{
    switch (place->kind) {
    case PLACE_NAME:
        return strcmp(pair->name, place->name) == 0 || nic_is_named(pair, place->name);
    case PLACE_NIC:
        return nic_is_named(pair, place->name);
    case PLACE_GPU:
        return pair->gpu[0] != '\0' && (strcasecmp(pair->gpu, place->gpu) == 0 ||
                                        topology_bus_id_equal(pair->gpu, place->gpu));
    case PLACE_NODE:
        break;
    }
    return true;
}

static int package_of(const struct topology *topology, int os_index)
{
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node);

    for (size_t i = 0; i < count; i++)
        if (node[i].os_index == os_index)
            return node[i].package;
    return -1;
}

unsigned place_node_steps(const struct topology *topology, int node,
                          const struct topology_pair *pair)
{
    int package;

    if (node < 0 || pair->node == node)
        return 0;
    package = package_of(topology, node);
    return package >= 0 && package == package_of(topology, pair->node) ? 1 : 2;
}
