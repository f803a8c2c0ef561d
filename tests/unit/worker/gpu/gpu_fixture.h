/* Memory of cuMemCreate in the test's own process, offered to its worker as libtesup would. */
#ifndef TESUP_TESTS_UNIT_WORKER_GPU_FIXTURE_H
#define TESUP_TESTS_UNIT_WORKER_GPU_FIXTURE_H

#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/cuda.h"
#include "shm/err.h"
#include "tests/harness/standin.h"
#include "tests/harness/worker/job.h"
#include "worker/gpu/mapping.h"
#include "worker/gpu/staging.h"

#define GRAIN (2u << 20)
#define SIZE  (2u * GRAIN) /* of the allocation */
#define SKIP  4100u        /* the region begins within a page */

static struct cuda_driver cuda;
static struct cuda_context *context;
static cuda_pointer memory;
static cuda_memory handle;
static char text[PROTO_TEXT_MAX]; /* why something was refused */

static inline void check(enum cuda_result result)
{
    if (result != CUDA_OK)
        fail_msg("%s", cuda_name(&cuda, result));
}

static inline void memory_begin(void)
{
    const struct cuda_allocation shape = {.type = CUDA_ALLOCATION_PINNED,
                                          .requestedHandleTypes = CUDA_HANDLE_POSIX_FD,
                                          .location = {.type = CUDA_LOCATION_DEVICE, .id = 0}};
    const struct cuda_access_description access = {
        .location = {.type = CUDA_LOCATION_DEVICE, .id = 0}, .flags = CUDA_ACCESS_READ_WRITE};

    assert_int_equal(cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text)), 0);
    check(cuda.cuInit(0));
    check(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    check(cuda.cuCtxSetCurrent(context));
    check(cuda.cuMemCreate(&handle, SIZE, &shape, 0));
    check(cuda.cuMemAddressReserve(&memory, SIZE, 0, 0, 0));
    check(cuda.cuMemMap(memory, SIZE, 0, handle, 0));
    check(cuda.cuMemSetAccess(memory, SIZE, &access, 1));
}

static inline void memory_end(void)
{
    check(cuda.cuCtxSetCurrent(context));
    check(cuda.cuMemUnmap(memory, SIZE));
    check(cuda.cuMemAddressFree(memory, SIZE));
    check(cuda.cuMemRelease(handle));
    check(cuda.cuCtxSetCurrent(NULL));
    check(cuda.cuDevicePrimaryCtxRelease(0));
    cuda_driver_unload(&cuda);
}

/* [SKIP, SKIP + length) of it as region JOB_HANDLE(0). Returns how many descriptors go along. */
static inline int memory_offer(struct proto_region_gpu *ask, uint64_t length, bool dmabuf,
                               int fds[PROTO_GPU_FDS_MAX])
{
    struct cuda_uuid uuid;

    *ask = (struct proto_region_gpu){
        .region = {.handle = JOB_HANDLE(0),
                   .kind = REGION_KIND_GPU,
                   .access = REGION_ACCESS_MASK,
                   .base = memory + SKIP,
                   .length = length},
        .gpu = {.ways = PROTO_GPU_VMM,
                .dmabuf_result = CUDA_NOT_SUPPORTED,
                .pieces = 1,
                .piece = {SIZE},
                .offset = SKIP,
                .dmabuf_offset = SKIP % 4096},
    };
    check(cuda.cuDeviceGetUuid(&uuid, 0));
    memcpy(ask->gpu.uuid, uuid.bytes, sizeof(ask->gpu.uuid));
    check(cuda.cuMemExportToShareableHandle(&fds[0], handle, CUDA_HANDLE_POSIX_FD, 0));
    fds[1] = -1;
    if (!dmabuf)
        return 1;
    check(cuda.cuMemGetHandleForAddressRange(&fds[1], memory + 4096, SIZE - 4096,
                                             CUDA_RANGE_DMABUF_FD, 0));
    ask->gpu.ways |= PROTO_GPU_DMABUF;
    ask->gpu.dmabuf_result = CUDA_OK;
    return 2;
}

/* main() of such a test: with the stand-in, and a folder for its counters. */
static char counters_folder[] = "/tmp/tesup-unit-gpu-XXXXXX";

static inline void fixture_begin(char **argv)
{
    standin_use(argv);
    if (mkdtemp(counters_folder) == NULL)
        exit(1);
    setenv("STANDIN_CUDA_COUNTERS", counters_folder, 1);
}

static inline void fixture_end(void)
{
    char file[64];

    snprintf(file, sizeof(file), "%s/cuda.%d", counters_folder, (int)getpid());
    unlink(file);
    rmdir(counters_folder);
}

static inline struct standin_counters counters_now(void)
{
    struct standin_counters counters;

    assert_true(standin_counters_read(counters_folder, getpid(), &counters));
    return counters;
}

#endif
