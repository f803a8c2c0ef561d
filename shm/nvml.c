#include "shm/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/nvml_abi.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

struct nvml {
    void *library;
#define NVML_MEMBER(need, name, symbol, arguments) enum nvml_return(*name) arguments;
    NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
};

struct nvml_watch {
    const struct nvml *nvml;
    struct nvml_event_set *set;
    struct nvml_device *device;
    bool is_lost; /* said once */
};

enum { OPTIONAL, NEEDED };

static const struct {
    const char *symbol;
    bool needed;
    size_t offset;
} functions[] = {
#define NVML_ENTRY(need, name, symbol, arguments) \
    {symbol, (need) == NEEDED, offsetof(struct nvml, name)},
    NVML_FUNCTIONS(NVML_ENTRY)
#undef NVML_ENTRY
};

static const char *functions_find(struct nvml *nvml)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = dlsym(nvml->library, functions[i].symbol);

        if (!function && functions[i].needed)
            return functions[i].symbol;
        memcpy((char *)nvml + functions[i].offset, &function, sizeof(function));
    }
    return NULL;
}

struct nvml *nvml_open(char *text, size_t size)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    const char *missing;
    enum nvml_return rc;

    if (!nvml) {
        snprintf(text, size, "no memory");
        return NULL;
    }
    nvml->library = dlopen(NVML_LIBRARY, RTLD_NOW);
    if (!nvml->library) {
        snprintf(text, size, "no %s: install the NVIDIA driver", NVML_LIBRARY);
        goto err_free;
    }
    missing = functions_find(nvml);
    if (missing) {
        snprintf(text, size, "%s has no %s: install driver 470 or newer", NVML_LIBRARY, missing);
        goto err_close;
    }
    rc = nvml->init();
    if (rc != NVML_OK) {
        snprintf(text, size, "nvmlInit failed with error %d%s: nvidia-smi says what is wrong",
                 (int)rc, rc == NVML_DRIVER_NOT_LOADED ? " (the driver is not loaded)" : "");
        goto err_close;
    }
    return nvml;

err_close:
    dlclose(nvml->library);
err_free:
    free(nvml);
    return NULL;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    nvml->shutdown();
    dlclose(nvml->library);
    free(nvml);
}

/* "00000000:44:00.0" is NVML's; sysfs has four digits of the domain, and small letters. */
static void bus_id_normalise(const char *theirs, char ours[16])
{
    size_t length = strlen(theirs);

    if (length >= 16)
        theirs += length - 12;
    snprintf(ours, 16, "%.15s", theirs);
    for (char *c = ours; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

static int numa_node_read(const struct nvml *nvml, struct nvml_device *device)
{
    unsigned long nodes[16] = {0};
    const unsigned bits = 8 * sizeof(nodes[0]);

    if (!nvml->memory_affinity ||
        nvml->memory_affinity(device, 16, nodes, NVML_SCOPE_NODE) != NVML_OK)
        return -1;
    for (unsigned i = 0; i < 16 * bits; i++) {
        if (nodes[i / bits] >> i % bits & 1)
            return (int)i;
    }
    return -1;
}

static void gpu_read(const struct nvml *nvml, struct nvml_device *device, struct nvml_gpu *gpu)
{
    *gpu = (struct nvml_gpu){.numa_node = numa_node_read(nvml, device)};
    if (nvml->uuid(device, gpu->uuid, sizeof(gpu->uuid)) != NVML_OK)
        gpu->uuid[0] = '\0';
    for (unsigned link = 0; nvml->nvlink && link < NVML_LINKS; link++) {
        unsigned int active = 0;

        gpu->nvlinks += nvml->nvlink(device, link, &active) == NVML_OK && active;
    }
    for (unsigned i = 0; nvml->mig_by_index && i < NVML_MIG_MAX; i++) {
        struct nvml_device *mig;

        if (nvml->mig_by_index(device, i, &mig) == NVML_OK &&
            nvml->uuid(mig, gpu->mig[gpu->mig_count], NVML_UUID) == NVML_OK)
            gpu->mig_count++;
    }
}

unsigned nvml_gpus(const struct nvml *nvml, struct nvml_gpu gpus[NVML_GPUS_MAX])
{
    unsigned int all = 0, count = 0;

    if (nvml->count(&all) != NVML_OK)
        return 0;
    for (unsigned int i = 0; i < all && count < NVML_GPUS_MAX; i++) {
        struct nvml_device *device;
        struct nvml_pci pci = {0};

        /* One that is lost has no handle, and the others go on. */
        if (nvml->by_index(i, &device) != NVML_OK || nvml->pci(device, &pci) != NVML_OK)
            continue;
        gpu_read(nvml, device, &gpus[count]);
        bus_id_normalise(pci.bus_id, gpus[count].bus_id);
        count++;
    }
    return count;
}

static bool pair_find(const struct nvml *nvml, const char *one, const char *other,
                      struct nvml_device *pair[2])
{
    return nvml->by_bus_id(one, &pair[0]) == NVML_OK && nvml->by_bus_id(other, &pair[1]) == NVML_OK;
}

enum nvml_path nvml_path(const struct nvml *nvml, const char *one, const char *other)
{
    struct nvml_device *pair[2];
    unsigned int level;

    if (!nvml->ancestor || !pair_find(nvml, one, other, pair) ||
        nvml->ancestor(pair[0], pair[1], &level) != NVML_OK)
        return NVML_PATH_UNKNOWN;
    switch (level) {
    case NVML_PATH_BOARD:
    case NVML_PATH_SWITCH:
    case NVML_PATH_SWITCHES:
    case NVML_PATH_HOST_BRIDGE:
    case NVML_PATH_NODE:
    case NVML_PATH_SYSTEM:
        return (enum nvml_path)level;
    default:
        return NVML_PATH_UNKNOWN;
    }
}

bool nvml_is_nvlinked(const struct nvml *nvml, const char *one, const char *other)
{
    struct nvml_device *pair[2];
    unsigned int status;

    return nvml->p2p && pair_find(nvml, one, other, pair) && pair[0] != pair[1] &&
           nvml->p2p(pair[0], pair[1], NVML_P2P_NVLINK, &status) == NVML_OK &&
           status == NVML_P2P_OK;
}

int nvml_watch_open(const struct nvml *nvml, const char *bus_id, struct nvml_watch **out,
                    char *text, size_t size)
{
    struct nvml_watch *watch;
    unsigned long long types = 0;
    enum nvml_return result;
    int rc = TS_ERR_UNSUPPORTED;

    watch = calloc(1, sizeof(*watch));
    if (!watch)
        return TS_ERR_NO_MEMORY;
    watch->nvml = nvml;
    result = nvml->by_bus_id(bus_id, &watch->device);
    if (result != NVML_OK) {
        snprintf(text, size, "NVML knows no GPU %s (error %d)", bus_id, (int)result);
        rc = TS_ERR_NOT_FOUND;
        goto err_free;
    }
    if (nvml->event_types(watch->device, &types) == NVML_OK)
        types &= NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC;
    if (!types) {
        snprintf(text, size, "GPU %s reports neither Xids nor ECC errors", bus_id);
        goto err_free;
    }
    result = nvml->event_set_create(&watch->set);
    if (result == NVML_OK) {
        result = nvml->register_events(watch->device, types, watch->set);
        if (result != NVML_OK)
            nvml->event_set_free(watch->set);
    }
    if (result != NVML_OK) {
        snprintf(text, size, "GPU %s: no events by NVML (error %d)", bus_id, (int)result);
        goto err_free;
    }
    *out = watch;
    return 0;

err_free:
    free(watch);
    return rc;
}

void nvml_watch_close(struct nvml_watch *watch)
{
    if (!watch)
        return;
    watch->nvml->event_set_free(watch->set);
    free(watch);
}

/* NVIDIA's "Xid Errors": these come from what a program did, and end that program's context only.
 */
static bool xid_is_of_a_program(uint64_t xid)
{
    switch (xid) {
    case 13:  /* graphics engine exception */
    case 31:  /* memory page fault */
    case 43:  /* a channel was reset */
    case 45:  /* channels were removed, as when a program is killed */
    case 68:  /* video processor exception */
    case 109: /* context switch timeout */
        return true;
    default:
        return false;
    }
}

static void event_read(const struct nvml_event_data *data, struct nvml_event *event)
{
    *event = (struct nvml_event){.severe = true};
    if (data->type & NVML_EVENT_XID) {
        event->xid = data->data;
        event->severe = !xid_is_of_a_program(event->xid);
        snprintf(event->text, sizeof(event->text), "Xid %llu%s", data->data,
                 event->xid == 79   ? " (the GPU has fallen off the bus)"
                 : event->xid == 48 ? " (uncorrectable ECC error)"
                                    : "");
    } else {
        snprintf(event->text, sizeof(event->text), "uncorrectable ECC error");
    }
}

bool nvml_watch_poll(struct nvml_watch *watch, struct nvml_event *event)
{
    struct nvml_event_data data = {0};
    enum nvml_return rc = watch->nvml->event_wait(watch->set, &data, 0);

    if (rc == NVML_GPU_IS_LOST && !watch->is_lost) {
        watch->is_lost = true;
        *event = (struct nvml_event){.severe = true, .text = "the GPU is lost"};
        return true;
    }
    if (rc != NVML_OK || data.device != watch->device ||
        !(data.type & (NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC)))
        return false;
    event_read(&data, event);
    return true;
}
