#include "client/bench/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/bench/pattern.h"
#include "shm/cuda.h"

static struct cuda_driver driver;
static struct cuda_context *context;
static cuda_device device;
static struct kernel kernel; /* module NULL: it is not there */
static cuda_pointer held;    /* a case has one at a time; 0 none */

static void check(enum cuda_result result, const char *call)
{
    if (result == CUDA_OK)
        return;
    fprintf(stderr, "tesup bench: %s: %s\n", call, cuda_name(&driver, result));
    exit(EXIT_FAILURE);
}

/* Of a call of kernel.h, which has been made when its name is looked at. */
static void check_kernel(enum cuda_result result)
{
    check(result, kernel.call);
}

static int fail_cuda(struct party *party, const char *call, enum cuda_result result)
{
    return party_fail(party, "no GPU memory: %s: %s", call, cuda_name(&driver, result));
}

/* A driver that has all that is called here. */
static int driver_open(struct party *party)
{
    enum cuda_result result;
    const char *lacking;
    char text[200];

    if (cuda_driver_load(&driver, CUDA_LOAD, text, sizeof(text)) != 0)
        return party_fail(party, "no GPU memory: %s", text);
    lacking = kernel_lacks(&driver);
    if (lacking)
        return party_fail(
            party, "no GPU memory: a kernel has to check it, and this driver has no %s", lacking);
    result = driver.cuInit(0);
    return result == CUDA_OK ? 0 : fail_cuda(party, "cuInit", result);
}

/* The context and the kernels stay as long as the job. */
static int gpu_open(struct party *party, uint32_t index)
{
    enum cuda_result result;
    int count = 0;

    if (driver_open(party))
        return -1;
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
    result = kernel_open(&kernel, &driver);
    return result == CUDA_OK ? 0 : fail_cuda(party, kernel.call, result);
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

void gpu_clear(uint64_t at, uint64_t length)
{
    check(driver.cuMemsetD8Async(at, 0, length, NULL), "cuMemsetD8Async");
    check(driver.cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

void gpu_fill(const struct kernel_block *block)
{
    check_kernel(kernel_fill(&kernel, block));
}

/* The byte itself did not come with the verdict. */
static void fault_locate(const struct kernel_block *block, const struct kernel_verdict *verdict,
                         struct pattern_fault *fault)
{
    fault->offset = verdict->first;
    fault->wrong = verdict->wrong;
    fault->expected = pattern_byte(block->start, verdict->first);
    check(driver.cuMemcpyDtoH(&fault->found, block->at + verdict->first, 1), "cuMemcpyDtoH");
}

bool gpu_check(const struct kernel_block *block, struct pattern_fault *fault)
{
    struct kernel_verdict verdict;

    check_kernel(kernel_check(&kernel, block, &verdict));
    if (verdict.seen != block->length || (verdict.wrong != 0 && verdict.first >= block->length)) {
        fprintf(stderr,
                "tesup bench: pattern_check: the kernel saw %llu of %llu bytes, %llu wrong ones\n",
                (unsigned long long)verdict.seen, (unsigned long long)block->length,
                (unsigned long long)verdict.wrong);
        exit(EXIT_FAILURE);
    }
    if (verdict.wrong != 0)
        fault_locate(block, &verdict, fault);
    return verdict.wrong == 0;
}

void gpu_flip(uint64_t at)
{
    uint8_t byte;

    check(driver.cuMemcpyDtoH(&byte, at, 1), "cuMemcpyDtoH");
    byte ^= 1;
    check(driver.cuMemcpyHtoD(at, &byte, 1), "cuMemcpyHtoD");
}

void gpu_close(void)
{
    if (context == NULL)
        return;
    if (held != 0) /* of a case that failed */
        gpu_destroy();
    if (kernel.module != NULL)
        check_kernel(kernel_close(&kernel));
    check(driver.cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
    check(driver.cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
    context = NULL;
}
