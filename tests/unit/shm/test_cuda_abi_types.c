/* Our constants and structures are cuda.h's.  Built where there is a cuda.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cuda.h>

#include "shm/cuda.h"

#define RESULTS(X)                                                                    \
    X(CUDA_OK, CUDA_SUCCESS)                                                          \
    X(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE)                                   \
    X(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)                                   \
    X(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED)                               \
    X(CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED)                                   \
    X(CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY)                                     \
    X(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE)                                           \
    X(CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE)                                 \
    X(CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE)                                   \
    X(CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)                               \
    X(CUDA_MAP_FAILED, CUDA_ERROR_MAP_FAILED)                                         \
    X(CUDA_ALREADY_MAPPED, CUDA_ERROR_ALREADY_MAPPED)                                 \
    X(CUDA_NOT_MAPPED, CUDA_ERROR_NOT_MAPPED)                                         \
    X(CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE)                           \
    X(CUDA_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)               \
    X(CUDA_INVALID_PTX, CUDA_ERROR_INVALID_PTX)                                       \
    X(CUDA_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE)                     \
    X(CUDA_CONTAINED, CUDA_ERROR_CONTAINED)                                           \
    X(CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE)                                 \
    X(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND)                                           \
    X(CUDA_NOT_READY, CUDA_ERROR_NOT_READY)                                           \
    X(CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS)                               \
    X(CUDA_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)       \
    X(CUDA_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED)                     \
    X(CUDA_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) \
    X(CUDA_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)         \
    X(CUDA_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR)                     \
    X(CUDA_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS)                         \
    X(CUDA_INVALID_PC, CUDA_ERROR_INVALID_PC)                                         \
    X(CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED)                                   \
    X(CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED)                                   \
    X(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED)                                   \
    X(CUDA_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY)                             \
    X(CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)                 \
    X(CUDA_EXTERNAL_DEVICE, CUDA_ERROR_EXTERNAL_DEVICE)                               \
    X(CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN)

#define ATTRIBUTES(X)                                                                           \
    X(CUDA_DEVICE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)               \
    X(CUDA_DEVICE_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED)                                   \
    X(CUDA_DEVICE_CAN_MAP_HOST_MEMORY, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)                 \
    X(CUDA_DEVICE_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)                                      \
    X(CUDA_DEVICE_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)                                \
    X(CUDA_DEVICE_ASYNC_ENGINE_COUNT, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)                   \
    X(CUDA_DEVICE_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)                   \
    X(CUDA_DEVICE_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)                                \
    X(CUDA_DEVICE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)               \
    X(CUDA_DEVICE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)               \
    X(CUDA_DEVICE_HOST_REGISTER_SUPPORTED, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)         \
    X(CUDA_DEVICE_VMM_SUPPORTED, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)       \
    X(CUDA_DEVICE_POSIX_FD_SUPPORTED,                                                           \
      CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)                          \
    X(CUDA_DEVICE_RDMA_WITH_VMM_SUPPORTED,                                                      \
      CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)                              \
    X(CUDA_DEVICE_RDMA_SUPPORTED, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)                \
    X(CUDA_DEVICE_RDMA_FLUSH_OPTIONS, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) \
    X(CUDA_DEVICE_RDMA_WRITES_ORDERING, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)    \
    X(CUDA_DEVICE_DMABUF_SUPPORTED, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)                      \
    X(CUDA_DEVICE_HOST_NUMA_ID, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)                               \
    X(CUDA_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT)                                       \
    X(CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)                               \
    X(CUDA_POINTER_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER)                         \
    X(CUDA_POINTER_HOST_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER)                             \
    X(CUDA_POINTER_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)                               \
    X(CUDA_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID)                                   \
    X(CUDA_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED)                                 \
    X(CUDA_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)                         \
    X(CUDA_POINTER_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)                \
    X(CUDA_POINTER_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)                          \
    X(CUDA_POINTER_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE)                                 \
    X(CUDA_POINTER_MAPPED, CU_POINTER_ATTRIBUTE_MAPPED)                                         \
    X(CUDA_POINTER_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)             \
    X(CUDA_POINTER_RDMA_CAPABLE, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)               \
    X(CUDA_POINTER_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MAPPING_SIZE)                             \
    X(CUDA_POINTER_MAPPING_BASE, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR)

#define FLAGS(X)                                                                        \
    X(CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST)                                             \
    X(CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE)                                         \
    X(CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE)                                     \
    X(CUDA_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE)                                  \
    X(CUDA_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP)                                   \
    X(CUDA_HOST_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP)                                \
    X(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING)                                 \
    X(CUDA_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC)                                 \
    X(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING)                               \
    X(CUDA_EVENT_INTERPROCESS, CU_EVENT_INTERPROCESS)                                   \
    X(CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)                    \
    X(CUDA_PROC_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM)                       \
    X(CUDA_FLUSH_OPTION_HOST, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST)              \
    X(CUDA_FLUSH_OPTION_MEMOPS, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS)          \
    X(CUDA_WRITES_ORDERING_NONE, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE)               \
    X(CUDA_WRITES_ORDERING_OWNER, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)             \
    X(CUDA_WRITES_ORDERING_ALL_DEVICES, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES) \
    X(CUDA_FLUSH_CURRENT_CONTEXT, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX)   \
    X(CUDA_FLUSH_TO_OWNER, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER)                    \
    X(CUDA_FLUSH_TO_ALL_DEVICES, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES)        \
    X(CUDA_RANGE_DMABUF_FD, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)                        \
    X(CUDA_HANDLE_NONE, CU_MEM_HANDLE_TYPE_NONE)                                        \
    X(CUDA_DMABUF_PCIE, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)                    \
    X(CUDA_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC)                                    \
    X(CUDA_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)                   \
    X(CUDA_ALLOCATION_INVALID, CU_MEM_ALLOCATION_TYPE_INVALID)                          \
    X(CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED)                            \
    X(CUDA_LOCATION_INVALID, CU_MEM_LOCATION_TYPE_INVALID)                              \
    X(CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE)                                \
    X(CUDA_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE)                                  \
    X(CUDA_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ)                                  \
    X(CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)                       \
    X(CUDA_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM)                       \
    X(CUDA_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)               \
    X(CUDA_PROC_FOUND, CU_GET_PROC_ADDRESS_SUCCESS)                                     \
    X(CUDA_PROC_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)                        \
    X(CUDA_PROC_TOO_NEW, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs);
RESULTS(SAME_NUMBER)
ATTRIBUTES(SAME_NUMBER)
FLAGS(SAME_NUMBER)
#define SAME_TYPE(ours, theirs) _Static_assert(__builtin_types_compatible_p(ours, theirs), #theirs);
SAME_TYPE(cuda_device, CUdevice)
SAME_TYPE(cuda_pointer, CUdeviceptr)
SAME_TYPE(cuda_memory, CUmemGenericAllocationHandle)

#define SAME_SIZE(ours, theirs) \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs), #theirs);
SAME_SIZE(enum cuda_result, CUresult)
SAME_SIZE(enum cuda_device_attribute, CUdevice_attribute)
SAME_SIZE(enum cuda_pointer_attribute, CUpointer_attribute)
SAME_SIZE(enum cuda_handle_type, CUmemAllocationHandleType)
SAME_SIZE(enum cuda_range_handle_type, CUmemRangeHandleType)
SAME_SIZE(enum cuda_allocation_type, CUmemAllocationType)
SAME_SIZE(enum cuda_location_type, CUmemLocationType)
SAME_SIZE(enum cuda_access, CUmemAccess_flags)
SAME_SIZE(enum cuda_granularity, CUmemAllocationGranularity_flags)
SAME_SIZE(enum cuda_proc_status, CUdriverProcAddressQueryResult)
SAME_SIZE(struct cuda_uuid, CUuuid)
SAME_SIZE(struct cuda_ipc_memory, CUipcMemHandle)
SAME_SIZE(struct cuda_ipc_event, CUipcEventHandle)
SAME_SIZE(struct cuda_location, CUmemLocation)
SAME_SIZE(struct cuda_allocation, CUmemAllocationProp)
SAME_SIZE(struct cuda_access_description, CUmemAccessDesc)

#define SAME_PLACE(ours, theirs, member)                                             \
    _Static_assert(offsetof(ours, member) == offsetof(theirs, member) &&             \
                       sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->member), \
                   #theirs "." #member);
SAME_PLACE(struct cuda_location, CUmemLocation, type)
SAME_PLACE(struct cuda_location, CUmemLocation, id)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, type)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, requestedHandleTypes)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, location)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, win32HandleMetaData)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, allocFlags.compressionType)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, allocFlags.usage)
SAME_PLACE(struct cuda_allocation, CUmemAllocationProp, allocFlags.reserved)
SAME_PLACE(struct cuda_access_description, CUmemAccessDesc, location)
SAME_PLACE(struct cuda_access_description, CUmemAccessDesc, flags)

/* The compiler has checked everything above; the run says against which header. */
static void the_types_are_those_of_cuda_h(void **state)
{
    (void)state;
    print_message("compared with cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000,
                  CUDA_VERSION % 1000 / 10);
    assert_true(CUDA_VERSION >= CUDA_DRIVER_OLDEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_types_are_those_of_cuda_h),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
