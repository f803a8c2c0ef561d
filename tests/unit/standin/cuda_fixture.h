/* A process with the stand-in loaded, its first device's context current: in a child of the test.
 */
#ifndef TESUP_TESTS_UNIT_STANDIN_CUDA_FIXTURE_H
#define TESUP_TESTS_UNIT_STANDIN_CUDA_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shm/cuda.h"
#include "tests/harness/standin.h"
#include "tests/harness/test.h"
#include "tests/harness/wait.h"

static struct cuda_driver cuda;
static struct cuda_context *context;

/* In a child, where cmocka's asserts cannot be used: says what is wrong and leaves. */
#define EXPECT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)

#define OK(call)                                                          \
    do {                                                                  \
        enum cuda_result result_ = (call);                                \
        if (result_ != CUDA_OK) {                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cuda_name(&cuda, result_));                           \
            _exit(1);                                                     \
        }                                                                 \
    } while (0)

static inline void cuda_begin(void)
{
    char text[256];

    if (cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text))) {
        fprintf(stderr, "%s\n", text);
        _exit(1);
    }
    OK(cuda.cuInit(0));
    OK(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuda.cuCtxSetCurrent(context));
}

static inline void cuda_end(void)
{
    OK(cuda.cuCtxSetCurrent(NULL));
    OK(cuda.cuDevicePrimaryCtxRelease(0));
}

#define ABORTED (128 + SIGABRT)

#endif
