/* The stand-in libnvidia-ml.so.1: the machine of STANDIN_CUDA_DEVICES, without
 * CUDA_VISIBLE_DEVICES.
 *
 * STANDIN_NVML_NVLINK: "0000:17:00.0+0000:65:00.0" with commas, pairs that are linked (four links
 * each).  STANDIN_NVML_EVENTS names a file; each line "BUS_ID XID" that is there and was not yet
 * given out is an event (XID 0: a double bit ECC error).  STANDIN_CUDA_LOST as for CUDA. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shm/nvml_abi.h"
#include "tests/standin/cuda.h"

#define NVML_DECLARE(need, name, symbol, arguments) \
    __attribute__((visibility("default"))) enum nvml_return nvml_##name arguments __asm__(symbol);
NVML_FUNCTIONS(NVML_DECLARE)

struct nvml_device {
    struct standin_device is;
};

struct nvml_event_set {
    struct nvml_device *device;
    unsigned long long types;
    long seen; /* lines of the file */
};

static struct nvml_device devices[STANDIN_DEVICES]; /* one for each MIG instance, too */
static int device_count, users, event_sets;

static void users_check(const char *call)
{
    if (users == 0)
        standin_die("%s: nvmlInit was not called", call);
}

static struct nvml_device *device_check(const char *call, struct nvml_device *device)
{
    users_check(call);
    if (device < devices || device >= devices + device_count)
        standin_die("%s: %p is no device", call, (void *)device);
    return device;
}

enum nvml_return nvml_init(void)
{
    if (strcmp(standin_env("STANDIN_NVML_INIT", "0"), "0") != 0)
        return (enum nvml_return)strtol(standin_env("STANDIN_NVML_INIT", "0"), NULL, 10);
    if (users++ == 0) {
        struct standin_device all[STANDIN_DEVICES];

        device_count = standin_devices_read(all, STANDIN_DEVICES);
        for (int i = 0; i < device_count; i++)
            devices[i].is = all[i];
    }
    return NVML_OK;
}

enum nvml_return nvml_shutdown(void)
{
    users_check("nvmlShutdown");
    if (--users == 0 && event_sets)
        standin_die("nvmlShutdown: %d event sets are left", event_sets);
    return NVML_OK;
}

/* The instances of one GPU are one device here. */
static bool is_first_of_gpu(int index)
{
    for (int i = 0; i < index; i++) {
        if (strcmp(devices[i].is.bus_id, devices[index].is.bus_id) == 0)
            return false;
    }
    return true;
}

static struct nvml_device *gpu_at(unsigned int index)
{
    for (int i = 0; i < device_count; i++) {
        if (is_first_of_gpu(i) && index-- == 0)
            return &devices[i];
    }
    return NULL;
}

enum nvml_return nvml_count(unsigned int *count)
{
    users_check("nvmlDeviceGetCount");
    *count = 0;
    while (gpu_at(*count))
        ++*count;
    return NVML_OK;
}

static enum nvml_return lost_or(const struct nvml_device *device, enum nvml_return result)
{
    return standin_device_lost(&device->is) == CUDA_OK ? result : NVML_GPU_IS_LOST;
}

enum nvml_return nvml_by_index(unsigned int index, struct nvml_device **device)
{
    users_check("nvmlDeviceGetHandleByIndex");
    *device = gpu_at(index);
    return *device ? lost_or(*device, NVML_OK) : NVML_INVALID_ARGUMENT;
}

/* Four digits of the domain or eight. */
enum nvml_return nvml_by_bus_id(const char *bus_id, struct nvml_device **device)
{
    users_check("nvmlDeviceGetHandleByPciBusId");
    if (strlen(bus_id) == 16)
        bus_id += 4;
    for (int i = 0; i < device_count; i++) {
        if (strcasecmp(devices[i].is.bus_id, bus_id) == 0) {
            *device = &devices[i];
            return lost_or(*device, NVML_OK);
        }
    }
    return NVML_NOT_FOUND;
}

enum nvml_return nvml_pci(struct nvml_device *device, struct nvml_pci *pci)
{
    const char *bus_id = device_check("nvmlDeviceGetPciInfo", device)->is.bus_id;

    memset(pci, 0, sizeof(*pci));
    snprintf(pci->bus_id, sizeof(pci->bus_id), "0000%s", bus_id);
    for (char *c = pci->bus_id; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return NVML_OK;
}

static enum nvml_return uuid_write(const struct cuda_uuid *uuid, const char *prefix, char *text,
                                   unsigned int size)
{
    char hex[33];

    for (size_t i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)uuid->bytes[i]);
    if (size < 41)
        standin_die("nvmlDeviceGetUUID: %u bytes are too few", size);
    snprintf(text, size, "%s-%.8s-%.4s-%.4s-%.4s-%s", prefix, hex, hex + 8, hex + 12, hex + 16,
             hex + 20);
    return NVML_OK;
}

/* A GPU with instances is not an instance: its own UUID is another one. */
enum nvml_return nvml_uuid(struct nvml_device *device, char *text, unsigned int size)
{
    bool is_mig = ((uintptr_t)device & 1) != 0;

    device = (struct nvml_device *)((uintptr_t)device & ~(uintptr_t)1);
    device_check("nvmlDeviceGetUUID", device);
    return uuid_write(&device->is.uuid, is_mig ? "MIG" : "GPU", text, size);
}

enum nvml_return nvml_mig_by_index(struct nvml_device *device, unsigned int index,
                                   struct nvml_device **mig)
{
    device_check("nvmlDeviceGetMigDeviceHandleByIndex", device);
    for (int i = 0; i < device_count; i++) {
        if (strcmp(devices[i].is.bus_id, device->is.bus_id) == 0 &&
            devices[i].is.mig == (int)index) {
            *mig = (struct nvml_device *)((uintptr_t)&devices[i] | 1);
            return NVML_OK;
        }
    }
    return NVML_NOT_FOUND;
}

enum nvml_return nvml_memory_affinity(struct nvml_device *device, unsigned int words,
                                      unsigned long *nodes, unsigned int scope)
{
    long node = strtol(standin_env("STANDIN_CUDA_NUMA", "0"), NULL, 10);

    device_check("nvmlDeviceGetMemoryAffinity", device);
    if (scope != NVML_SCOPE_NODE || words == 0)
        standin_die("nvmlDeviceGetMemoryAffinity: scope %u, %u words", scope, words);
    memset(nodes, 0, words * sizeof(*nodes));
    if (node >= 0)
        nodes[node / 64] = 1UL << node % 64;
    return NVML_OK;
}

enum nvml_return nvml_ancestor(struct nvml_device *one, struct nvml_device *other,
                               unsigned int *level)
{
    device_check("nvmlDeviceGetTopologyCommonAncestor", one);
    device_check("nvmlDeviceGetTopologyCommonAncestor", other);
    *level = one == other ? 0 : 40; /* NODE */
    return NVML_OK;
}

static bool linked(const struct nvml_device *one, const struct nvml_device *other)
{
    const char *pairs = standin_env("STANDIN_NVML_NVLINK", "");
    char text[64], turned[64];

    snprintf(text, sizeof(text), "%s+%s", one->is.bus_id, other->is.bus_id);
    snprintf(turned, sizeof(turned), "%s+%s", other->is.bus_id, one->is.bus_id);
    return strstr(pairs, text) || strstr(pairs, turned);
}

enum nvml_return nvml_p2p(struct nvml_device *one, struct nvml_device *other, unsigned int index,
                          unsigned int *status)
{
    device_check("nvmlDeviceGetP2PStatus", one);
    device_check("nvmlDeviceGetP2PStatus", other);
    if (index != NVML_P2P_NVLINK)
        standin_die("nvmlDeviceGetP2PStatus: index %u is not known here", index);
    *status = linked(one, other) ? NVML_P2P_OK : 5; /* not supported */
    return NVML_OK;
}

enum nvml_return nvml_nvlink(struct nvml_device *device, unsigned int link, unsigned int *active)
{
    unsigned int links = 0;

    device_check("nvmlDeviceGetNvLinkState", device);
    for (int i = 0; i < device_count; i++)
        links += linked(device, &devices[i]) ? 4 : 0;
    if (links == 0)
        return NVML_NOT_SUPPORTED;
    *active = link < links;
    return NVML_OK;
}

enum nvml_return nvml_event_types(struct nvml_device *device, unsigned long long *types)
{
    device_check("nvmlDeviceGetSupportedEventTypes", device);
    *types = strtoull(standin_env("STANDIN_NVML_EVENT_TYPES", "31"), NULL, 10);
    return NVML_OK;
}

enum nvml_return nvml_event_set_create(struct nvml_event_set **set)
{
    users_check("nvmlEventSetCreate");
    *set = calloc(1, sizeof(**set));
    if (!*set)
        standin_die("no memory for the stand-in itself");
    event_sets++;
    return NVML_OK;
}

enum nvml_return nvml_register_events(struct nvml_device *device, unsigned long long types,
                                      struct nvml_event_set *set)
{
    unsigned long long supported;

    nvml_event_types(device, &supported);
    if (types & ~supported)
        return NVML_NOT_SUPPORTED;
    set->device = device;
    set->types = types;
    return lost_or(device, NVML_OK);
}

/* The next line of the file that nobody had. */
static bool event_next(struct nvml_event_set *set, struct nvml_event_data *data)
{
    const char *path = standin_env("STANDIN_NVML_EVENTS", NULL);
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[64], bus_id[16];
    unsigned long long xid;
    bool found = false;

    if (!file)
        return false;
    fseek(file, set->seen, SEEK_SET);
    while (!found && fgets(line, sizeof(line), file)) {
        set->seen = ftell(file);
        /* NOLINTNEXTLINE(cert-err34-c): lines that are no pair are nobody's */
        found = sscanf(line, "%15s %llu", bus_id, &xid) == 2 &&
                strcmp(bus_id, set->device->is.bus_id) == 0;
    }
    fclose(file);
    if (found) {
        data->device = set->device;
        data->type = xid ? NVML_EVENT_XID : NVML_EVENT_DOUBLE_BIT_ECC;
        data->data = xid;
    }
    return found;
}

enum nvml_return nvml_event_wait(struct nvml_event_set *set, struct nvml_event_data *data,
                                 unsigned int timeout_ms)
{
    users_check("nvmlEventSetWait");
    if (timeout_ms)
        standin_die("nvmlEventSetWait: %u ms: nobody here may wait", timeout_ms);
    if (!set->device)
        standin_die("nvmlEventSetWait: the set has no device");
    return event_next(set, data) ? NVML_OK : lost_or(set->device, NVML_TIMEOUT);
}

enum nvml_return nvml_event_set_free(struct nvml_event_set *set)
{
    users_check("nvmlEventSetFree");
    event_sets--;
    free(set);
    return NVML_OK;
}
