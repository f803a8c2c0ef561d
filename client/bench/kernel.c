#include "client/bench/kernel.h"

#include <assert.h>
#include <stddef.h>

#include "client/bench/pattern.h"

/* A kernel strides over its block, so this only says how much of the GPU it keeps busy: some 2,000
 * threads for each multiprocessor of the largest ones. */
#define KERNEL_THREADS    256u
#define KERNEL_GRID_MOST  1024u
#define KERNEL_WORD_BYTES 8u

/* pattern.ptx adds to them by these offsets. */
static_assert(offsetof(struct kernel_verdict, seen) == 0, "[verdict]");
static_assert(offsetof(struct kernel_verdict, wrong) == 8, "[verdict+8]");
static_assert(offsetof(struct kernel_verdict, first) == 16, "[verdict+16]");

__asm__(".pushsection .rodata\n"
        ".global kernel_text\n"
        ".hidden kernel_text\n"
        ".type kernel_text, %object\n"
        "kernel_text:\n"
        ".incbin \"client/bench/pattern.ptx\"\n"
        ".byte 0\n"
        ".size kernel_text, . - kernel_text\n"
        ".popsection\n");

/* The value of the expression, after a note which call it was if it is a failure. */
static enum cuda_result noted(struct kernel *kernel, const char *call, enum cuda_result result)
{
    if (result != CUDA_OK)
        kernel->call = call;
    return result;
}

#define KERNEL_CALL(kernel, name, ...) noted(kernel, #name, (kernel)->driver->name(__VA_ARGS__))

const char *kernel_lacks(const struct cuda_driver *driver)
{
    return !driver->cuModuleLoadData      ? "cuModuleLoadData"
           : !driver->cuModuleUnload      ? "cuModuleUnload"
           : !driver->cuModuleGetFunction ? "cuModuleGetFunction"
           : !driver->cuLaunchKernel      ? "cuLaunchKernel"
                                          : NULL;
}

enum cuda_result kernel_open(struct kernel *kernel, const struct cuda_driver *driver)
{
    enum cuda_result result;

    *kernel = (struct kernel){.driver = driver};
    result = KERNEL_CALL(kernel, cuModuleLoadData, &kernel->module, kernel_text);
    if (result != CUDA_OK) {
        kernel->module = NULL;
        return result;
    }
    result =
        KERNEL_CALL(kernel, cuModuleGetFunction, &kernel->fill, kernel->module, "pattern_fill");
    if (result == CUDA_OK)
        result = KERNEL_CALL(kernel, cuModuleGetFunction, &kernel->check, kernel->module,
                             "pattern_check");
    if (result == CUDA_OK)
        result = KERNEL_CALL(kernel, cuMemAlloc, &kernel->verdict, sizeof(struct kernel_verdict));
    if (result != CUDA_OK) {
        driver->cuModuleUnload(kernel->module); /* the first failure is the one to tell */
        kernel->module = NULL;
    }
    return result;
}

enum cuda_result kernel_close(struct kernel *kernel)
{
    enum cuda_result result = KERNEL_CALL(kernel, cuMemFree, kernel->verdict);

    return result != CUDA_OK ? result : KERNEL_CALL(kernel, cuModuleUnload, kernel->module);
}

/* In the default stream: copies before and after it keep the order. */
static enum cuda_result kernel_run(struct kernel *kernel, struct cuda_function *function,
                                   const struct kernel_block *block)
{
    struct kernel_block passed = *block;
    uint64_t step = PATTERN_STEP;
    /* As pattern.ptx lists them; pattern_fill takes the first four. */
    void *arguments[] = {&passed.at, &passed.length, &passed.start, &step, &kernel->verdict};
    /* A block that is done in bytes strides more often. */
    uint64_t grid = block->length / KERNEL_WORD_BYTES / KERNEL_THREADS + 1;
    enum cuda_result result;

    if (grid > KERNEL_GRID_MOST)
        grid = KERNEL_GRID_MOST;
    result = KERNEL_CALL(kernel, cuLaunchKernel, function, (unsigned int)grid, 1, 1, KERNEL_THREADS,
                         1, 1, 0, NULL, arguments, NULL);
    return result != CUDA_OK ? result : KERNEL_CALL(kernel, cuStreamSynchronize, NULL);
}

enum cuda_result kernel_fill(struct kernel *kernel, const struct kernel_block *block)
{
    return kernel_run(kernel, kernel->fill, block);
}

enum cuda_result kernel_check(struct kernel *kernel, const struct kernel_block *block,
                              struct kernel_verdict *verdict)
{
    const struct kernel_verdict none = {.first = UINT64_MAX};
    enum cuda_result result;

    result = KERNEL_CALL(kernel, cuMemcpyHtoD, kernel->verdict, &none, sizeof(none));
    if (result == CUDA_OK)
        result = kernel_run(kernel, kernel->check, block);
    if (result == CUDA_OK)
        result = KERNEL_CALL(kernel, cuMemcpyDtoH, verdict, kernel->verdict, sizeof(*verdict));
    return result;
}
