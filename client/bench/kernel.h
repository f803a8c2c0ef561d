/* The kernels that fill and check a block where it lies (pattern.ptx), for the context in which
 * kernel_open() was called.
 *
 * Calls wait for the kernel's end.  Each returns CUDA's word; if it is not CUDA_OK, `call` names
 * the function of the driver that said it.
 */
#ifndef TESUP_BENCH_KERNEL_H
#define TESUP_BENCH_KERNEL_H

#include "shm/cuda.h"

struct kernel {
    const struct cuda_driver *driver;
    const char *call;
    struct cuda_module *module;
    struct cuda_function *fill, *check;
    cuda_pointer verdict; /* a struct kernel_verdict */
};

/* What a check found.  The kernel counts what it looked at, so that one that did not run cannot
 * look like one that found nothing. */
struct kernel_verdict {
    uint64_t seen;  /* bytes */
    uint64_t wrong; /* bytes */
    uint64_t first; /* offset of the lowest wrong one; UINT64_MAX: none */
};

/* A block in the GPU's memory: at least one byte, at any address. `start`: its pattern_start(). */
struct kernel_block {
    cuda_pointer at;
    uint64_t length;
    uint64_t start;
};

/* The text that the driver compiles. */
extern const char kernel_text[];

/* The name of a function that kernels need and this driver does not have, or NULL. */
const char *kernel_lacks(const struct cuda_driver *driver);
/* The driver stays the caller's, and must outlive *kernel. Nothing is held if it fails. */
enum cuda_result kernel_open(struct kernel *kernel, const struct cuda_driver *driver);
enum cuda_result kernel_close(struct kernel *kernel);
enum cuda_result kernel_fill(struct kernel *kernel, const struct kernel_block *block);
enum cuda_result kernel_check(struct kernel *kernel, const struct kernel_block *block,
                              struct kernel_verdict *verdict);

#endif
