/* Our prototypes are cuda.h's, symbol by symbol.  Built where there is a cuda.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cuda.h>

/* test_cuda_abi_types.c compares the types.  Here the prototypes get cuda.h's own in their place,
 * so that the compiler compares the rest. */
#define TESUP_SHM_CUDA_TYPES_H
#define cuda_context            CUctx_st
#define cuda_stream             CUstream_st
#define cuda_event              CUevent_st
#define cuda_module             CUmod_st
#define cuda_function           CUfunc_st
#define cuda_result             cudaError_enum
#define cuda_device_attribute   CUdevice_attribute_enum
#define cuda_pointer_attribute  CUpointer_attribute_enum
#define cuda_flush_target       CUflushGPUDirectRDMAWritesTarget_enum
#define cuda_flush_scope        CUflushGPUDirectRDMAWritesScope_enum
#define cuda_range_handle_type  CUmemRangeHandleType_enum
#define cuda_handle_type        CUmemAllocationHandleType_enum
#define cuda_granularity        CUmemAllocationGranularity_flags_enum
#define cuda_uuid               CUuuid_st
#define cuda_ipc_memory         CUipcMemHandle_st
#define cuda_ipc_event          CUipcEventHandle_st
#define cuda_allocation         CUmemAllocationProp_st
#define cuda_access_description CUmemAccessDesc_st
#include "shm/cuda.h"

/* What cuda.h renames (cuMemAlloc is cuMemAlloc_v2) is renamed in struct cuda_driver, too. */
#define SAME_PROTOTYPE(need, name, symbol, since, arguments)                                  \
    _Static_assert(__builtin_types_compatible_p(__typeof__(*((struct cuda_driver *)0)->name), \
                                                __typeof__(name)),                            \
                   #name);
CUDA_FUNCTIONS(SAME_PROTOTYPE)

#define TEXT(name)          #name
#define EXPANDED_TEXT(name) TEXT(name)

static void each_symbol_is_the_one_that_a_program_links(void **state)
{
    (void)state;
#define SAME_SYMBOL(need, name, symbol, since, arguments) \
    assert_string_equal(symbol, EXPANDED_TEXT(name));
    CUDA_FUNCTIONS(SAME_SYMBOL)
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_symbol_is_the_one_that_a_program_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
