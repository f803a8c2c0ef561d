/* What a process did with the stand-in of the CUDA driver: readable while it runs, and after it was
 * killed.  STANDIN_CUDA_COUNTERS names a folder; each process that uses CUDA keeps a file cuda.PID
 * in it. */
#ifndef TESUP_TESTS_STANDIN_COUNTERS_H
#define TESUP_TESTS_STANDIN_COUNTERS_H

#include <stdint.h>

/* X(field, alive): those that are alive must be 0 when the process ends. */
#define STANDIN_COUNTERS(X)                                                                   \
    X(contexts, 1)      /* primary contexts that somebody retains */                          \
    X(allocations, 1)   /* cuMemAlloc, cuMemAllocManaged */                                   \
    X(pinned, 1)        /* cuMemHostAlloc */                                                  \
    X(registrations, 1) /* cuMemHostRegister */                                               \
    X(ipc_opened, 1)    /* mappings by cuIpcOpenMemHandle, each counted as often as opened */ \
    X(handles, 1)       /* references to cuMemCreate's and imported handles */                \
    X(reservations, 1)                                                                        \
    X(mappings, 1) /* cuMemMap */                                                             \
    X(streams, 1)                                                                             \
    X(events, 1)                                                                              \
    X(modules, 1)                                                                             \
    X(pinned_bytes, 0)      /* now: allocated and registered */                               \
    X(pinned_bytes_most, 0) /* and the most at any time */                                    \
    X(calls, 0)                                                                               \
    X(blocking_calls, 0) /* that wait for the device */                                       \
    X(copies_to_device, 0)                                                                    \
    X(copies_to_host, 0)                                                                      \
    X(copies_on_device, 0)                                                                    \
    X(copies_between, 0) /* two devices */                                                    \
    X(bytes_to_device, 0)                                                                     \
    X(bytes_to_host, 0)                                                                       \
    X(bytes_on_device, 0)                                                                     \
    X(bytes_between, 0)                                                                       \
    X(copies_pageable, 0)    /* of those: the caller waited, because the host memory moves */ \
    X(copies_queued, 0)      /* now: submitted and not done */                                \
    X(copies_queued_most, 0) /* and the most at any time: greater than 1 is overlap */        \
    X(host_functions, 0)                                                                      \
    X(kernels, 0)                                                                             \
    X(ipc_exported, 0)                                                                        \
    X(dmabufs, 0)                                                                             \
    X(sync_memops, 0) /* cuPointerSetAttribute */                                             \
    X(flushes, 0)                                                                             \
    X(failures, 0) /* calls that were made to fail */

struct standin_counters {
#define STANDIN_MEMBER(field, alive) uint64_t field;
    STANDIN_COUNTERS(STANDIN_MEMBER)
#undef STANDIN_MEMBER
};

#endif
