#include "topology/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "topology/name.h"

static void list_append(char *text, size_t text_size, const char *word)
{
    size_t length = strlen(text);

    snprintf(text + length, text_size - length, "%s%s", length ? ", " : "", word);
}

static void list_end(char *text, size_t text_size)
{
    if (text[0] == '\0')
        snprintf(text, text_size, "none");
}

void scope_instances_list(const struct scope *scope, char *text, size_t text_size)
{
    text[0] = '\0';
    for (size_t i = 0; i < scope->gpu_count; i++) {
        const struct topology_device *gpu = &scope->topology->device[scope->gpu[i]];
        for (unsigned k = 0; k < gpu->instance_count; k++)
            list_append(text, text_size, gpu->instance[k]);
    }
    list_end(text, text_size);
}

void scope_gpus_list(const struct scope *scope, char *text, size_t text_size)
{
    text[0] = '\0';
    for (size_t i = 0; i < scope->gpu_count; i++)
        list_append(text, text_size, scope->topology->device[scope->gpu[i]].name);
    list_end(text, text_size);
}

void scope_nics_list(const struct scope *scope, char *text, size_t text_size)
{
    text[0] = '\0';
    for (size_t i = 0; i < scope->nic_count; i++)
        list_append(text, text_size, scope->nic[i].name);
    list_end(text, text_size);
}

size_t scope_gpu_find(const struct scope *scope, const char *name)
{
    for (size_t i = 0; i < scope->gpu_count; i++)
        if (topology_bus_id_equal(scope->topology->device[scope->gpu[i]].bus_id, name))
            return i;
    return SCOPE_NONE;
}

size_t scope_instance_find(const struct scope *scope, const char *name, const char **uuid)
{
    for (size_t i = 0; i < scope->gpu_count; i++) {
        const struct topology_device *gpu = &scope->topology->device[scope->gpu[i]];
        for (unsigned k = 0; k < gpu->instance_count; k++) {
            *uuid = gpu->instance[k];
            if (strcasecmp(*uuid, name) == 0)
                return i;
        }
    }
    *uuid = NULL;
    return SCOPE_NONE;
}

size_t scope_nic_find(const struct scope *scope, const char *name)
{
    for (size_t i = 0; i < scope->nic_count; i++)
        if (strcmp(scope->nic[i].name, name) == 0)
            return i;
    return SCOPE_NONE;
}

static void devices_take(struct scope *scope)
{
    const struct topology *topology = scope->topology;

    for (size_t i = 0; i < topology->device_count; i++) {
        const struct topology_device *device = &topology->device[i];
        if (device->kind == TOPOLOGY_KIND_GPU)
            scope->gpu[scope->gpu_count++] = i;
        for (unsigned port = 0; device->kind == TOPOLOGY_KIND_RDMA && port < device->port_count;
             port++) {
            struct scope_nic *nic = &scope->nic[scope->nic_count++];
            enum topology_port_state state = device->port[port].state;
            *nic = (struct scope_nic){.device = i, .port = port};
            nic->usable = device->left_out[0] == '\0' &&
                          (state == TOPOLOGY_PORT_ACTIVE || state == TOPOLOGY_PORT_UNKNOWN);
            name_of_port(device, port, nic->name);
        }
    }
}

static bool device_is_named(const struct scope *scope, size_t device, const char *name)
{
    const struct topology_device *own = &scope->topology->device[device];

    return own->kind == TOPOLOGY_KIND_GPU ? topology_bus_id_equal(own->bus_id, name)
                                          : strcmp(own->name, name) == 0;
}

/* Takes a GPU, a NIC with all its ports, or one port of it out of the lists. */
static bool device_drop(struct scope *scope, const char *name)
{
    size_t gpus = 0, nics = 0;
    bool found = false;

    for (size_t i = 0; i < scope->gpu_count; i++)
        if (device_is_named(scope, scope->gpu[i], name))
            found = true;
        else
            scope->gpu[gpus++] = scope->gpu[i];
    for (size_t i = 0; i < scope->nic_count; i++)
        if (device_is_named(scope, scope->nic[i].device, name) ||
            strcmp(scope->nic[i].name, name) == 0)
            found = true;
        else
            scope->nic[nics++] = scope->nic[i];
    scope->gpu_count = gpus;
    scope->nic_count = nics;
    return found;
}

static int devices_exclude(struct scope *scope, const struct topology_rules *rules, char *text,
                           size_t text_size)
{
    char words[sizeof(rules->exclude)];
    char gpus[512], nics[512];
    char *rest = NULL;

    scope_gpus_list(scope, gpus, sizeof(gpus));
    scope_nics_list(scope, nics, sizeof(nics));
    memcpy(words, rules->exclude, sizeof(words));
    for (char *word = strtok_r(words, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest))
        if (!device_drop(scope, word))
            return topology_fail(text, text_size,
                                 "exclude: nothing here is named '%.60s'; NICs: %s; GPUs: %s", word,
                                 nics, gpus);
    return 0;
}

static int reserved_parse(const struct topology *topology, const struct topology_rules *rules,
                          hwloc_bitmap_t reserved, char *text, size_t text_size)
{
    hwloc_const_cpuset_t all = hwloc_topology_get_complete_cpuset(topology->hwloc);

    if (!rules || rules->reserved_cpus[0] == '\0')
        return 0;
    if (hwloc_bitmap_list_sscanf(reserved, rules->reserved_cpus) < 0)
        return topology_fail(text, text_size,
                             "reserved_cpus: '%.60s' is no list of CPUs such as 0-3,8",
                             rules->reserved_cpus);
    if (!hwloc_bitmap_isincluded(reserved, all))
        return topology_fail(text, text_size,
                             "reserved_cpus: %.60s names CPUs that are not there; the last is %d",
                             rules->reserved_cpus, hwloc_bitmap_last(all));
    return 0;
}

static bool has_rdma(const struct topology *topology)
{
    for (size_t i = 0; i < topology->device_count; i++)
        if (topology->device[i].kind == TOPOLOGY_KIND_RDMA)
            return true;
    return false;
}

static void no_nic_explain(struct scope *scope)
{
    const struct topology_device *device;

    for (size_t i = 0; i < scope->nic_count; i++)
        if (scope->nic[i].usable)
            return;
    if (scope->nic_count == 0) {
        snprintf(scope->no_nic, sizeof(scope->no_nic), "%s",
                 has_rdma(scope->topology) ? "all RDMA NICs are excluded"
                                           : "no RDMA NIC in this machine");
        return;
    }
    device = &scope->topology->device[scope->nic[0].device];
    snprintf(scope->no_nic, sizeof(scope->no_nic), "no usable RDMA NIC: %.20s: %.80s", device->name,
             device->left_out[0] ? device->left_out : "no port is active");
}

static int cores_collect(struct scope *scope, hwloc_const_bitmap_t reserved, char *text,
                         size_t text_size)
{
    if (cores_make(&scope->cores, scope->topology, reserved) < 0)
        return topology_fail(text, text_size, "no memory for the plan");
    if (scope->cores.cpu_count > 0)
        return 0;
    return topology_fail(text, text_size,
                         hwloc_bitmap_iszero(reserved)
                             ? "no NUMA node has both CPUs and memory that are allowed; widen the "
                               "CPU affinity (taskset) or the cgroup's cpuset.cpus and cpuset.mems"
                             : "every allowed CPU is in reserved_cpus; leave one for the workers");
}

int scope_make(struct scope *scope, const struct topology *topology,
               const struct topology_rules *rules, char *text, size_t text_size)
{
    hwloc_bitmap_t reserved = hwloc_bitmap_alloc();

    *scope = (struct scope){.topology = topology};
    scope->gpu = calloc(topology->device_count + 1, sizeof(*scope->gpu));
    scope->nic = calloc(topology->device_count * TOPOLOGY_PORTS_MAX + 1, sizeof(*scope->nic));
    if (!scope->gpu || !scope->nic || !reserved) {
        topology_fail(text, text_size, "no memory for the plan");
        goto err_free;
    }
    devices_take(scope);
    if (rules && devices_exclude(scope, rules, text, text_size) < 0)
        goto err_free;
    no_nic_explain(scope);
    if (reserved_parse(topology, rules, reserved, text, text_size) < 0 ||
        cores_collect(scope, reserved, text, text_size) < 0)
        goto err_free;
    hwloc_bitmap_free(reserved);
    return 0;

err_free:
    hwloc_bitmap_free(reserved);
    scope_free(scope);
    return -1;
}

void scope_free(struct scope *scope)
{
    cores_free(&scope->cores);
    free(scope->gpu);
    free(scope->nic);
    *scope = (struct scope){0};
}
