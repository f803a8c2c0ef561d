/* The types and constants of the CUDA driver's interface that tesup uses.
 *
 * They are declared here because the driver is opened at run time and its header is on no machine
 * that only builds.  The interface is stable: the driver keeps every version of a function under
 * its own name.  tests/unit/shm/test_cuda_abi.c compares all this with cuda.h where there is one.
 */
#ifndef TESUP_SHM_CUDA_TYPES_H
#define TESUP_SHM_CUDA_TYPES_H

#include <stdint.h>

struct cuda_context;
struct cuda_stream;
struct cuda_event;
struct cuda_module;
struct cuda_function;

/* Only what the code tells apart; cuda_name() knows the rest. */
enum cuda_result {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_STUB_LIBRARY = 34,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_IMAGE = 200,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_MAP_FAILED = 205,
    CUDA_ALREADY_MAPPED = 208,
    CUDA_NOT_MAPPED = 211,
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_INVALID_PTX = 218,
    CUDA_NVLINK_UNCORRECTABLE = 220,
    CUDA_CONTAINED = 226,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_MISALIGNED_ADDRESS = 716,
    CUDA_INVALID_PC = 718,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_NOT_PERMITTED = 800,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_SYSTEM_NOT_READY = 802,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_EXTERNAL_DEVICE = 911,
    CUDA_UNKNOWN = 999,
};

enum cuda_device_attribute {
    CUDA_DEVICE_MULTIPROCESSOR_COUNT = 16,
    CUDA_DEVICE_INTEGRATED = 18,
    CUDA_DEVICE_CAN_MAP_HOST_MEMORY = 19,
    CUDA_DEVICE_PCI_BUS = 33,
    CUDA_DEVICE_PCI_DEVICE = 34,
    CUDA_DEVICE_ASYNC_ENGINE_COUNT = 40,
    CUDA_DEVICE_UNIFIED_ADDRESSING = 41,
    CUDA_DEVICE_PCI_DOMAIN = 50,
    CUDA_DEVICE_CAPABILITY_MAJOR = 75,
    CUDA_DEVICE_CAPABILITY_MINOR = 76,
    CUDA_DEVICE_HOST_REGISTER_SUPPORTED = 99,
    CUDA_DEVICE_VMM_SUPPORTED = 102,
    CUDA_DEVICE_POSIX_FD_SUPPORTED = 103,
    CUDA_DEVICE_RDMA_WITH_VMM_SUPPORTED = 110,
    CUDA_DEVICE_RDMA_SUPPORTED = 116,
    CUDA_DEVICE_RDMA_FLUSH_OPTIONS = 117,   /* CUDA_FLUSH_OPTION_* */
    CUDA_DEVICE_RDMA_WRITES_ORDERING = 118, /* CUDA_WRITES_ORDERING_* */
    CUDA_DEVICE_DMABUF_SUPPORTED = 124,
    CUDA_DEVICE_HOST_NUMA_ID = 134,
};

enum cuda_pointer_attribute {
    CUDA_POINTER_CONTEXT = 1,
    CUDA_POINTER_MEMORY_TYPE = 2, /* unsigned int, CUDA_MEMORY_* */
    CUDA_POINTER_DEVICE_POINTER = 3,
    CUDA_POINTER_HOST_POINTER = 4,
    CUDA_POINTER_SYNC_MEMOPS = 6,
    CUDA_POINTER_BUFFER_ID = 7,
    CUDA_POINTER_IS_MANAGED = 8,
    CUDA_POINTER_DEVICE_ORDINAL = 9,
    CUDA_POINTER_IPC_CAPABLE = 10, /* cuIpcGetMemHandle */
    CUDA_POINTER_RANGE_START = 11,
    CUDA_POINTER_RANGE_SIZE = 12,
    CUDA_POINTER_MAPPED = 13,
    CUDA_POINTER_ALLOWED_HANDLE_TYPES = 14,
    CUDA_POINTER_RDMA_CAPABLE = 15,
    CUDA_POINTER_MAPPING_SIZE = 18, /* of one physical piece of a reservation */
    CUDA_POINTER_MAPPING_BASE = 19,
};

enum { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2 };

/* cuMemHostAlloc and cuMemHostRegister: the same bits. */
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_DEVICEMAP = 2 };

enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_EVENT_BLOCKING_SYNC = 1, CUDA_EVENT_DISABLE_TIMING = 2, CUDA_EVENT_INTERPROCESS = 4 };
enum { CUDA_IPC_LAZY_PEER_ACCESS = 1 };
enum { CUDA_PROC_LEGACY_STREAM = 1 };

enum { CUDA_FLUSH_OPTION_HOST = 1, CUDA_FLUSH_OPTION_MEMOPS = 2 };
enum {
    CUDA_WRITES_ORDERING_NONE = 0,
    CUDA_WRITES_ORDERING_OWNER = 100,
    CUDA_WRITES_ORDERING_ALL_DEVICES = 200,
};
enum cuda_flush_target { CUDA_FLUSH_CURRENT_CONTEXT = 0 };
enum cuda_flush_scope { CUDA_FLUSH_TO_OWNER = 100, CUDA_FLUSH_TO_ALL_DEVICES = 200 };

enum cuda_range_handle_type { CUDA_RANGE_DMABUF_FD = 1 };
enum { CUDA_DMABUF_PCIE = 1 };

enum cuda_handle_type { CUDA_HANDLE_NONE = 0, CUDA_HANDLE_POSIX_FD = 1, CUDA_HANDLE_FABRIC = 8 };
enum cuda_allocation_type { CUDA_ALLOCATION_INVALID = 0, CUDA_ALLOCATION_PINNED = 1 };
enum cuda_location_type { CUDA_LOCATION_INVALID = 0, CUDA_LOCATION_DEVICE = 1 };
enum cuda_access { CUDA_ACCESS_NONE = 0, CUDA_ACCESS_READ = 1, CUDA_ACCESS_READ_WRITE = 3 };
enum cuda_granularity { CUDA_GRANULARITY_MINIMUM = 0, CUDA_GRANULARITY_RECOMMENDED = 1 };

enum cuda_proc_status { CUDA_PROC_FOUND = 0, CUDA_PROC_NOT_FOUND = 1, CUDA_PROC_TOO_NEW = 2 };

struct cuda_uuid {
    char bytes[16];
};

struct cuda_ipc_memory {
    char reserved[64];
};

struct cuda_ipc_event {
    char reserved[64];
};

struct cuda_location {
    enum cuda_location_type type;
    int id;
};

struct cuda_allocation {
    enum cuda_allocation_type type;
    enum cuda_handle_type requestedHandleTypes;
    struct cuda_location location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
};

struct cuda_access_description {
    struct cuda_location location;
    enum cuda_access flags;
};

#endif
