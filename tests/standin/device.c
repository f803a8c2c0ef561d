/* Devices: who they are, which of them this process sees, and what they can do. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tests/standin/cuda.h"

struct standin_device standin_devices[STANDIN_DEVICES];
int standin_device_count;

static void uuid_text(char *text, size_t size, const struct standin_device *device)
{
    size_t used = (size_t)snprintf(text, size, device->mig < 0 ? "GPU-" : "MIG-");

    for (size_t i = 0; i < sizeof(device->uuid.bytes); i++)
        used += (size_t)snprintf(text + used, size - used,
                                 i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                                 (unsigned char)device->uuid.bytes[i]);
}

/* "2", or the beginning of a UUID. */
static const struct standin_device *device_named(const struct standin_device *all, int count,
                                                 const char *name, size_t length)
{
    if (length && isdigit((unsigned char)*name)) {
        long index = strtol(name, NULL, 10);

        return index < count ? &all[index] : NULL;
    }
    for (int i = 0; i < count; i++) {
        char text[48];

        uuid_text(text, sizeof(text), &all[i]);
        if (length > 4 && strncasecmp(text, name, length) == 0)
            return &all[i];
    }
    return NULL;
}

/* As the driver: the list ends at the first name that is nobody's; one MIG instance is all that a
 * process may have. */
void standin_devices_init(void)
{
    struct standin_device all[STANDIN_DEVICES];
    int count = standin_devices_read(all, STANDIN_DEVICES);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"); /* NOLINT(concurrency-mt-unsafe) */

    standin_device_count = 0;
    for (int i = 0; !visible && i < count; i++)
        standin_devices[standin_device_count++] = all[i];
    while (visible && *visible) {
        size_t length = strcspn(visible, ",");
        const struct standin_device *one = device_named(all, count, visible, length);

        if (!one || standin_device_count == STANDIN_DEVICES)
            break;
        standin_devices[standin_device_count++] = *one;
        visible += length + (visible[length] == ',');
    }
    for (int i = 0; i < standin_device_count; i++) {
        if (standin_devices[i].mig >= 0) {
            standin_devices[0] = standin_devices[i];
            standin_device_count = 1;
        }
    }
}

cuda_device standin_device_find(const struct cuda_uuid *uuid)
{
    for (int i = 0; i < standin_device_count; i++) {
        if (memcmp(&standin_devices[i].uuid, uuid, sizeof(*uuid)) == 0)
            return i;
    }
    return -1;
}

static const struct standin_device *device_check(const char *call, cuda_device device)
{
    if (device < 0 || device >= standin_device_count)
        standin_die("%s: no device %d", call, device);
    return &standin_devices[device];
}

static int version(void)
{
    return (int)strtol(standin_env("STANDIN_CUDA_VERSION", "12080"), NULL, 10);
}

enum cuda_result cuDriverGetVersion(int *out)
{
    STANDIN_ENTER("cuDriverGetVersion");
    *out = version();
    return standin_leave(CUDA_OK);
}

enum cuda_result cuDeviceGetCount(int *count)
{
    STANDIN_ENTER("cuDeviceGetCount");
    *count = standin_device_count;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuDeviceGet(cuda_device *device, int ordinal)
{
    STANDIN_ENTER("cuDeviceGet");
    if (ordinal < 0 || ordinal >= standin_device_count)
        return standin_leave(CUDA_INVALID_DEVICE);
    *device = ordinal;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuDeviceGetByPCIBusId(cuda_device *device, const char *bus_id)
{
    STANDIN_ENTER("cuDeviceGetByPCIBusId");
    for (int i = 0; i < standin_device_count; i++) {
        const char *ours = standin_devices[i].bus_id;

        /* Domain and function may be left out. */
        if (strcasecmp(ours, bus_id) == 0 || strcasecmp(ours + 5, bus_id) == 0) {
            *device = i;
            return standin_leave(CUDA_OK);
        }
    }
    return standin_leave(CUDA_INVALID_DEVICE);
}

enum cuda_result cuDeviceGetPCIBusId(char *bus_id, int size, cuda_device device)
{
    STANDIN_ENTER("cuDeviceGetPCIBusId");
    if (size < 13)
        standin_die("cuDeviceGetPCIBusId: 13 bytes are needed, not %d", size);
    snprintf(bus_id, (size_t)size, "%s", device_check("cuDeviceGetPCIBusId", device)->bus_id);
    for (char *c = bus_id; *c; c++) /* nobody promises which case it is in */
        *c = (char)toupper((unsigned char)*c);
    return standin_leave(CUDA_OK);
}

enum cuda_result cuDeviceGetUuid(struct cuda_uuid *uuid, cuda_device device)
{
    STANDIN_ENTER("cuDeviceGetUuid");
    *uuid = device_check("cuDeviceGetUuid", device)->uuid;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuDeviceGetName(char *name, int size, cuda_device device)
{
    STANDIN_ENTER("cuDeviceGetName");
    device_check("cuDeviceGetName", device);
    snprintf(name, (size_t)size, "Stand-in GPU");
    return standin_leave(CUDA_OK);
}

/* 1 unless the variable says 0. */
static int can(const char *name)
{
    return strcmp(standin_env(name, "1"), "0") != 0;
}

enum cuda_result cuDeviceCanAccessPeer(int *out, cuda_device device, cuda_device peer)
{
    STANDIN_ENTER("cuDeviceCanAccessPeer");
    device_check("cuDeviceCanAccessPeer", device);
    device_check("cuDeviceCanAccessPeer", peer);
    *out = device != peer && can("STANDIN_CUDA_PEER");
    return standin_leave(CUDA_OK);
}

enum cuda_result cuDeviceGetAttribute(int *value, enum cuda_device_attribute attribute,
                                      cuda_device device)
{
    const struct standin_device *found;
    unsigned int domain, bus, slot;

    STANDIN_ENTER("cuDeviceGetAttribute");
    found = device_check("cuDeviceGetAttribute", device);
    /* NOLINTNEXTLINE(cert-err34-c): the result is checked */
    if (sscanf(found->bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        standin_die("STANDIN_CUDA_DEVICES: \"%s\" is no bus id", found->bus_id);
    switch (attribute) {
    case CUDA_DEVICE_PCI_DOMAIN:
        *value = (int)domain;
        break;
    case CUDA_DEVICE_PCI_BUS:
        *value = (int)bus;
        break;
    case CUDA_DEVICE_PCI_DEVICE:
        *value = (int)slot;
        break;
    case CUDA_DEVICE_MULTIPROCESSOR_COUNT:
        *value = 4;
        break;
    case CUDA_DEVICE_ASYNC_ENGINE_COUNT:
        *value = 2;
        break;
    case CUDA_DEVICE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CUDA_DEVICE_CAPABILITY_MINOR:
    case CUDA_DEVICE_INTEGRATED:
        *value = 0;
        break;
    case CUDA_DEVICE_HOST_NUMA_ID:
        *value = (int)strtol(standin_env("STANDIN_CUDA_NUMA", "0"), NULL, 10);
        break;
    case CUDA_DEVICE_DMABUF_SUPPORTED:
        *value = can("STANDIN_CUDA_DMABUF");
        break;
    case CUDA_DEVICE_RDMA_SUPPORTED:
    case CUDA_DEVICE_RDMA_WITH_VMM_SUPPORTED:
        *value = can("STANDIN_CUDA_RDMA");
        break;
    case CUDA_DEVICE_RDMA_FLUSH_OPTIONS:
        *value = can("STANDIN_CUDA_FLUSH") ? CUDA_FLUSH_OPTION_HOST : 0;
        break;
    case CUDA_DEVICE_RDMA_WRITES_ORDERING:
        *value = (int)strtol(standin_env("STANDIN_CUDA_ORDERING", "0"), NULL, 10);
        break;
    case CUDA_DEVICE_VMM_SUPPORTED:
    case CUDA_DEVICE_POSIX_FD_SUPPORTED:
    case CUDA_DEVICE_UNIFIED_ADDRESSING:
    case CUDA_DEVICE_CAN_MAP_HOST_MEMORY:
    case CUDA_DEVICE_HOST_REGISTER_SUPPORTED:
        *value = 1;
        break;
    default:
        standin_die("cuDeviceGetAttribute: attribute %d is not known here", (int)attribute);
    }
    return standin_leave(CUDA_OK);
}

enum cuda_result cuGetErrorName(enum cuda_result code, const char **name)
{
    /* The names that tests look for; the driver calls all others something, too. */
    static const struct {
        enum cuda_result code;
        const char *name;
    } names[] = {
        {CUDA_OK, "CUDA_SUCCESS"},
        {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {CUDA_MAP_FAILED, "CUDA_ERROR_MAP_FAILED"},
        {CUDA_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
        {CUDA_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
        {CUDA_INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
        {CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {CUDA_NOT_READY, "CUDA_ERROR_NOT_READY"},
        {CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
        {CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
        {CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
    };

    *name = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].code == code)
            *name = names[i].name;
    }
    return *name ? CUDA_OK : CUDA_INVALID_VALUE;
}
