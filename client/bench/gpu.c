#include "client/bench/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "shm/cuda.h"

static struct cuda_driver driver;
static struct cuda_context *context;
static cuda_device device;
static cuda_pointer held; /* a case has one at a time; 0 none */

static void check(enum cuda_result result, const char *call)
{
    if (result == CUDA_OK)
        return;
    fprintf(stderr, "tesup bench: %s: %s\n", call, cuda_name(&driver, result));
    exit(EXIT_FAILURE);
}

static int fail_cuda(struct party *party, const char *call, enum cuda_result result)
{
    return party_fail(party, "no GPU memory: %s: %s", call, cuda_name(&driver, result));
}

/* The context stays as long as the job. */
static int gpu_open(struct party *party, uint32_t index)
{
    enum cuda_result result;
    char text[200];
    int count = 0;

    if (cuda_driver_load(&driver, CUDA_LOAD, text, sizeof(text)) != 0)
        return party_fail(party, "no GPU memory: %s", text);
    result = driver.cuInit(0);
    if (result != CUDA_OK)
        return fail_cuda(party, "cuInit", result);
    result = driver.cuDeviceGetCount(&count);
    if (result != CUDA_OK || index >= (uint32_t)count)
        return party_fail(party, "there is no GPU %u: CUDA sees %d", index, count);
    check(driver.cuDeviceGet(&device, (int)index), "cuDeviceGet");
    result = driver.cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_OK) {
        context = NULL;
        return fail_cuda(party, "cuDevicePrimaryCtxRetain", result);
    }
    check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    return 0;
}

int gpu_create(struct party *party, uint32_t index, uint64_t length, uint64_t *at)
{
    enum cuda_result result;

    if (context == NULL && gpu_open(party, index))
        return -1;
    result = driver.cuMemAlloc(&held, length);
    if (result != CUDA_OK) {
        held = 0;
        return fail_cuda(party, "cuMemAlloc", result);
    }
    *at = held;
    return 0;
}

void gpu_destroy(void)
{
    check(driver.cuMemFree(held), "cuMemFree");
    held = 0;
}

void gpu_store(uint64_t at, const void *bytes, size_t length)
{
    check(driver.cuMemcpyHtoD(at, bytes, length), "cuMemcpyHtoD");
}

void gpu_fetch(void *bytes, uint64_t at, size_t length)
{
    check(driver.cuMemcpyDtoH(bytes, at, length), "cuMemcpyDtoH");
}

void gpu_close(void)
{
    if (context == NULL)
        return;
    if (held != 0) /* of a case that failed */
        gpu_destroy();
    check(driver.cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
    check(driver.cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
    context = NULL;
}
