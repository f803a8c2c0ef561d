/* cuGetProcAddress: the version of a function that a program of some CUDA would have been linked
 * with.  Left out of the libraries that pretend an older driver. */
#include <string.h>

#include "tests/standin/cuda.h"

__attribute__((visibility("default"))) enum cuda_result
cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                    enum cuda_proc_status *status);

enum cuda_result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                     enum cuda_proc_status *status)
{
    static const struct {
        const char *name;
        void (*function)(void);
        int since;
    } functions[] = {
#define STANDIN_ENTRY(need, name, symbol, since, arguments) {#name, (void (*)(void))name, since},
        CUDA_FUNCTIONS(STANDIN_ENTRY)
#undef STANDIN_ENTRY
    };

    if (flags != CUDA_PROC_LEGACY_STREAM)
        standin_die("cuGetProcAddress: %s: flags %lu: which default stream is meant?", name,
                    (unsigned long)flags);
    *function = NULL;
    *status = CUDA_PROC_NOT_FOUND;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(functions[i].name, name) != 0)
            continue;
        *status = version < functions[i].since ? CUDA_PROC_TOO_NEW : CUDA_PROC_FOUND;
        if (*status == CUDA_PROC_FOUND)
            memcpy(function, &functions[i].function, sizeof(*function));
        return CUDA_OK;
    }
    return CUDA_NOT_FOUND;
}
