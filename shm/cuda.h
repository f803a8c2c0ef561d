/* The CUDA driver, opened at run time: nothing of tesup is linked with it, and a machine without it
 * builds and runs everything else.
 *
 * Members of struct cuda_driver are named as NVIDIA's documentation names the functions.  Each is
 * the version of the function whose name is in CUDA_FUNCTIONS, whatever the driver has beside it.
 */
#ifndef TESUP_SHM_CUDA_H
#define TESUP_SHM_CUDA_H

#include <stddef.h>

#include "shm/cuda_types.h"

/* The driver's own scalars: CUdevice, CUdeviceptr, CUmemGenericAllocationHandle. */
typedef int cuda_device;
typedef unsigned long long cuda_pointer;
typedef unsigned long long cuda_memory;

/* Drivers from this version of CUDA on: R470. Each needed function is older. */
#define CUDA_DRIVER_OLDEST 11040

/* X(need, name, symbol, version, arguments): the driver exports `symbol`; cuGetProcAddress gives
 * the same function for `name` and the version of CUDA in which it came.  OPTIONAL ones are NULL
 * where the driver has none. */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(NEEDED, cuInit, "cuInit", 2000, (unsigned int flags))                                        \
    X(NEEDED, cuDriverGetVersion, "cuDriverGetVersion", 2020, (int *version))                      \
    X(NEEDED, cuGetErrorName, "cuGetErrorName", 6000, (enum cuda_result, const char **name))       \
    X(NEEDED, cuDeviceGetCount, "cuDeviceGetCount", 2000, (int *count))                            \
    X(NEEDED, cuDeviceGet, "cuDeviceGet", 2000, (cuda_device *, int ordinal))                      \
    X(NEEDED, cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010,                                \
      (cuda_device *, const char *bus_id))                                                         \
    X(NEEDED, cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010,                                    \
      (char *bus_id, int size, cuda_device))                                                       \
    X(NEEDED, cuDeviceGetUuid, "cuDeviceGetUuid_v2", 11040, (struct cuda_uuid *, cuda_device))     \
    X(NEEDED, cuDeviceGetName, "cuDeviceGetName", 2000, (char *name, int size, cuda_device))       \
    X(NEEDED, cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000,                                  \
      (int *value, enum cuda_device_attribute, cuda_device))                                       \
    X(NEEDED, cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000,                                \
      (int *can, cuda_device, cuda_device peer))                                                   \
    X(NEEDED, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000,                          \
      (struct cuda_context **, cuda_device))                                                       \
    X(NEEDED, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", 11000, (cuda_device))     \
    X(NEEDED, cuCtxSetCurrent, "cuCtxSetCurrent", 4000, (struct cuda_context *))                   \
    X(NEEDED, cuCtxGetCurrent, "cuCtxGetCurrent", 4000, (struct cuda_context **))                  \
    X(NEEDED, cuCtxPushCurrent, "cuCtxPushCurrent_v2", 4000, (struct cuda_context *))              \
    X(NEEDED, cuCtxPopCurrent, "cuCtxPopCurrent_v2", 4000, (struct cuda_context **))               \
    X(NEEDED, cuCtxGetDevice, "cuCtxGetDevice", 2000, (cuda_device *))                             \
    X(NEEDED, cuCtxSynchronize, "cuCtxSynchronize", 2000, (void))                                  \
    X(NEEDED, cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000,                                \
      (struct cuda_context *, unsigned int flags))                                                 \
    X(NEEDED, cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", 5050,                    \
      (int *least, int *greatest))                                                                 \
    X(NEEDED, cuPointerGetAttribute, "cuPointerGetAttribute", 4000,                                \
      (void *data, enum cuda_pointer_attribute, cuda_pointer))                                     \
    X(NEEDED, cuPointerGetAttributes, "cuPointerGetAttributes", 7000,                              \
      (unsigned int count, enum cuda_pointer_attribute *, void **data, cuda_pointer))              \
    X(NEEDED, cuPointerSetAttribute, "cuPointerSetAttribute", 6000,                                \
      (const void *value, enum cuda_pointer_attribute, cuda_pointer))                              \
    X(NEEDED, cuMemGetAddressRange, "cuMemGetAddressRange_v2", 3020,                               \
      (cuda_pointer * base, size_t * size, cuda_pointer))                                          \
    X(NEEDED, cuMemAlloc, "cuMemAlloc_v2", 3020, (cuda_pointer *, size_t))                         \
    X(NEEDED, cuMemFree, "cuMemFree_v2", 3020, (cuda_pointer))                                     \
    X(NEEDED, cuMemHostAlloc, "cuMemHostAlloc", 2020, (void **, size_t, unsigned int flags))       \
    X(NEEDED, cuMemFreeHost, "cuMemFreeHost", 2000, (void *))                                      \
    X(NEEDED, cuMemHostRegister, "cuMemHostRegister_v2", 6050,                                     \
      (void *, size_t, unsigned int flags))                                                        \
    X(NEEDED, cuMemHostUnregister, "cuMemHostUnregister", 4000, (void *))                          \
    X(NEEDED, cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", 3020,                     \
      (cuda_pointer *, void *, unsigned int flags))                                                \
    X(NEEDED, cuMemcpyHtoD, "cuMemcpyHtoD_v2", 3020, (cuda_pointer to, const void *from, size_t))  \
    X(NEEDED, cuMemcpyDtoH, "cuMemcpyDtoH_v2", 3020, (void *to, cuda_pointer from, size_t))        \
    X(NEEDED, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", 3020,                                     \
      (cuda_pointer to, const void *from, size_t, struct cuda_stream *))                           \
    X(NEEDED, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", 3020,                                     \
      (void *to, cuda_pointer from, size_t, struct cuda_stream *))                                 \
    X(NEEDED, cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", 3020,                                     \
      (cuda_pointer to, cuda_pointer from, size_t, struct cuda_stream *))                          \
    X(NEEDED, cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000,                                        \
      (cuda_pointer to, struct cuda_context *, cuda_pointer from, struct cuda_context *, size_t,   \
       struct cuda_stream *))                                                                      \
    X(NEEDED, cuMemsetD8Async, "cuMemsetD8Async", 3020,                                            \
      (cuda_pointer, unsigned char, size_t, struct cuda_stream *))                                 \
    X(NEEDED, cuStreamCreate, "cuStreamCreate", 2000, (struct cuda_stream **, unsigned int flags)) \
    X(NEEDED, cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050,                      \
      (struct cuda_stream **, unsigned int flags, int priority))                                   \
    X(NEEDED, cuStreamDestroy, "cuStreamDestroy_v2", 4000, (struct cuda_stream *))                 \
    X(NEEDED, cuStreamSynchronize, "cuStreamSynchronize", 2000, (struct cuda_stream *))            \
    X(NEEDED, cuStreamQuery, "cuStreamQuery", 2000, (struct cuda_stream *))                        \
    X(NEEDED, cuStreamWaitEvent, "cuStreamWaitEvent", 3020,                                        \
      (struct cuda_stream *, struct cuda_event *, unsigned int flags))                             \
    X(NEEDED, cuLaunchHostFunc, "cuLaunchHostFunc", 10000,                                         \
      (struct cuda_stream *, void (*)(void *context), void *context))                              \
    X(NEEDED, cuEventCreate, "cuEventCreate", 2000, (struct cuda_event **, unsigned int flags))    \
    X(NEEDED, cuEventDestroy, "cuEventDestroy_v2", 4000, (struct cuda_event *))                    \
    X(NEEDED, cuEventRecord, "cuEventRecord", 2000, (struct cuda_event *, struct cuda_stream *))   \
    X(NEEDED, cuEventQuery, "cuEventQuery", 2000, (struct cuda_event *))                           \
    X(NEEDED, cuEventSynchronize, "cuEventSynchronize", 2000, (struct cuda_event *))               \
    X(NEEDED, cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010,                                        \
      (struct cuda_ipc_memory *, cuda_pointer))                                                    \
    X(NEEDED, cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", 11000,                                  \
      (cuda_pointer *, struct cuda_ipc_memory, unsigned int flags))                                \
    X(NEEDED, cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, (cuda_pointer))                    \
    X(NEEDED, cuIpcGetEventHandle, "cuIpcGetEventHandle", 4010,                                    \
      (struct cuda_ipc_event *, struct cuda_event *))                                              \
    X(NEEDED, cuIpcOpenEventHandle, "cuIpcOpenEventHandle", 4010,                                  \
      (struct cuda_event **, struct cuda_ipc_event))                                               \
    X(OPTIONAL, cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070,             \
      (void *handle, cuda_pointer, size_t, enum cuda_range_handle_type, unsigned long long flags)) \
    X(NEEDED, cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000,                   \
      (cuda_memory *, void *address))                                                              \
    X(NEEDED, cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020,                 \
      (void *handle, cuda_memory, enum cuda_handle_type, unsigned long long flags))                \
    X(NEEDED, cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020,             \
      (cuda_memory *, void *handle, enum cuda_handle_type))                                        \
    X(NEEDED, cuMemCreate, "cuMemCreate", 10020,                                                   \
      (cuda_memory *, size_t, const struct cuda_allocation *, unsigned long long flags))           \
    X(NEEDED, cuMemRelease, "cuMemRelease", 10020, (cuda_memory))                                  \
    X(NEEDED, cuMemAddressReserve, "cuMemAddressReserve", 10020,                                   \
      (cuda_pointer *, size_t, size_t alignment, cuda_pointer hint, unsigned long long flags))     \
    X(NEEDED, cuMemAddressFree, "cuMemAddressFree", 10020, (cuda_pointer, size_t))                 \
    X(NEEDED, cuMemMap, "cuMemMap", 10020,                                                         \
      (cuda_pointer, size_t, size_t offset, cuda_memory, unsigned long long flags))                \
    X(NEEDED, cuMemUnmap, "cuMemUnmap", 10020, (cuda_pointer, size_t))                             \
    X(NEEDED, cuMemSetAccess, "cuMemSetAccess", 10020,                                             \
      (cuda_pointer, size_t, const struct cuda_access_description *, size_t count))                \
    X(NEEDED, cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020,               \
      (size_t *, const struct cuda_allocation *, enum cuda_granularity))                           \
    X(NEEDED, cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle",    \
      10020, (struct cuda_allocation *, cuda_memory))                                              \
    X(OPTIONAL, cuFlushGPUDirectRDMAWrites, "cuFlushGPUDirectRDMAWrites", 11030,                   \
      (enum cuda_flush_target, enum cuda_flush_scope))                                             \
    X(OPTIONAL, cuModuleLoadData, "cuModuleLoadData", 2000,                                        \
      (struct cuda_module **, const void *image))                                                  \
    X(OPTIONAL, cuModuleUnload, "cuModuleUnload", 2000, (struct cuda_module *))                    \
    X(OPTIONAL, cuModuleGetFunction, "cuModuleGetFunction", 2000,                                  \
      (struct cuda_function **, struct cuda_module *, const char *name))                           \
    X(OPTIONAL, cuLaunchKernel, "cuLaunchKernel", 4000,                                            \
      (struct cuda_function *, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,      \
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,      \
       struct cuda_stream *, void **arguments, void **extra))

struct cuda_driver {
    void *library;
    int version; /* 12080: the newest CUDA that this driver supports is 12.8 */
#define CUDA_MEMBER(need, name, symbol, since, arguments) enum cuda_result(*name) arguments;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

enum cuda_load {
    CUDA_LOADED_ONLY, /* never loads it into a process that has none: for jobs */
    CUDA_LOAD,
};

/* Fills *driver; cuInit is left to the caller.  0; TS_ERR_NOT_FOUND: no such library, or with
 * CUDA_LOADED_ONLY not loaded; TS_ERR_UNSUPPORTED: too old, or no driver.  `text` says which, and
 * the remedy. */
int cuda_driver_load(struct cuda_driver *driver, enum cuda_load how, char *text, size_t size);
/* The library stays in the process if somebody else loaded it. */
void cuda_driver_unload(struct cuda_driver *driver);

/* "CUDA_ERROR_INVALID_VALUE"; never NULL, also for numbers that this driver does not know. */
const char *cuda_name(const struct cuda_driver *driver, enum cuda_result result);

#endif
