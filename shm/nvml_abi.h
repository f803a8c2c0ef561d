/* The stable part of NVML's interface that tesup uses: nvml.h is on no machine that only builds. */
#ifndef TESUP_SHM_NVML_ABI_H
#define TESUP_SHM_NVML_ABI_H

enum nvml_return {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_GPU_IS_LOST = 15,
    NVML_UNKNOWN = 999,
};

enum { NVML_P2P_NVLINK = 2 }; /* nvmlGpuP2PCapsIndex_t */
enum { NVML_P2P_OK = 0 };     /* nvmlGpuP2PStatus_t */
enum { NVML_SCOPE_NODE = 0 }; /* nvmlAffinityScope_t */

enum { NVML_EVENT_DOUBLE_BIT_ECC = 2, NVML_EVENT_XID = 8 };

enum { NVML_LINKS = 18 }; /* NVML_NVLINK_MAX_LINKS: more of them fail, and are not counted */

struct nvml_device;
struct nvml_event_set;

/* nvmlPciInfo_t since version 3 */
struct nvml_pci {
    char bus_id_legacy[16];
    unsigned int domain, bus, device;
    unsigned int pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");

/* nvmlEventData_t of nvmlEventSetWait_v2 */
struct nvml_event_data {
    struct nvml_device *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct nvml_event_data) == 32, "nvmlEventData_t");

/* X(need, member, symbol, arguments) */
#define NVML_FUNCTIONS(X)                                                                     \
    X(NEEDED, init, "nvmlInit_v2", (void))                                                    \
    X(NEEDED, shutdown, "nvmlShutdown", (void))                                               \
    X(NEEDED, count, "nvmlDeviceGetCount_v2", (unsigned int *))                               \
    X(NEEDED, by_index, "nvmlDeviceGetHandleByIndex_v2",                                      \
      (unsigned int index, struct nvml_device **))                                            \
    X(NEEDED, by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2",                                  \
      (const char *bus_id, struct nvml_device **))                                            \
    X(NEEDED, pci, "nvmlDeviceGetPciInfo_v3", (struct nvml_device *, struct nvml_pci *))      \
    X(NEEDED, uuid, "nvmlDeviceGetUUID", (struct nvml_device *, char *, unsigned int size))   \
    X(OPTIONAL, memory_affinity, "nvmlDeviceGetMemoryAffinity",                               \
      (struct nvml_device *, unsigned int words, unsigned long *nodes, unsigned int scope))   \
    X(OPTIONAL, ancestor, "nvmlDeviceGetTopologyCommonAncestor",                              \
      (struct nvml_device *, struct nvml_device *, unsigned int *level))                      \
    X(OPTIONAL, p2p, "nvmlDeviceGetP2PStatus",                                                \
      (struct nvml_device *, struct nvml_device *, unsigned int index, unsigned int *status)) \
    X(OPTIONAL, nvlink, "nvmlDeviceGetNvLinkState",                                           \
      (struct nvml_device *, unsigned int link, unsigned int *active))                        \
    X(OPTIONAL, mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex",                          \
      (struct nvml_device *, unsigned int index, struct nvml_device **))                      \
    X(NEEDED, event_set_create, "nvmlEventSetCreate", (struct nvml_event_set **))             \
    X(NEEDED, event_types, "nvmlDeviceGetSupportedEventTypes",                                \
      (struct nvml_device *, unsigned long long *types))                                      \
    X(NEEDED, register_events, "nvmlDeviceRegisterEvents",                                    \
      (struct nvml_device *, unsigned long long types, struct nvml_event_set *))              \
    X(NEEDED, event_wait, "nvmlEventSetWait_v2",                                              \
      (struct nvml_event_set *, struct nvml_event_data *, unsigned int timeout_ms))           \
    X(NEEDED, event_set_free, "nvmlEventSetFree", (struct nvml_event_set *))

#endif
