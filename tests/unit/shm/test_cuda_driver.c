/* Opening the CUDA driver: loaded or not, too old, not complete, with failures of its own. */
#include "tests/unit/standin/cuda_fixture.h"

#include <dlfcn.h>
#include <string.h>

#include "shm/err.h"

static char text[256];

static void is_loaded_on_demand(void *unused)
{
    (void)unused;
    EXPECT(cuda_driver_load(&cuda, CUDA_LOADED_ONLY, text, sizeof(text)) == TS_ERR_NOT_FOUND);
    EXPECT(strstr(text, "not loaded"));
    EXPECT(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)); /* and the question loaded nothing */
    EXPECT(dlopen("libcuda.so.1", RTLD_NOW));
    EXPECT(cuda_driver_load(&cuda, CUDA_LOADED_ONLY, text, sizeof(text)) == 0);
    EXPECT(cuda.version == 12080);
#define EACH_IS_THERE(need, name, symbol, since, arguments) EXPECT(cuda.name);
    CUDA_FUNCTIONS(EACH_IS_THERE)
    EXPECT(cuda.cuCtxSetCurrent(NULL) == CUDA_NOT_INITIALIZED); /* nobody called cuInit */
    cuda_driver_unload(&cuda);
    EXPECT(!cuda.library);
}

static void a_job_without_cuda_stays_without(void **state)
{
    (void)state;
    assert_int_equal(standin_child(is_loaded_on_demand, NULL, NULL), 0);
}

static void is_refused(void *sentence)
{
    int rc = cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text));

    EXPECT(rc == TS_ERR_UNSUPPORTED);
    EXPECT(strstr(text, sentence));
    EXPECT(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)); /* and is not kept */
}

static void a_driver_that_is_too_old_is_named(void **state)
{
    const char *const old[] = {"STANDIN_CUDA_VERSION=10020", NULL};
    const char *const stub[] = {"STANDIN_CUDA_FAIL=cuDriverGetVersion:1:34", NULL};
    char needs[] = "supports CUDA 10.2, GPU memory needs 11.4";
    char is_stub[] = "CUDA error 34 (the toolkit's stub";

    (void)state;
    assert_int_equal(standin_child(is_refused, needs, old), 0);
    assert_int_equal(standin_child(is_refused, is_stub, stub), 0);
}

/* Another libcuda.so.1 under the same name, as dlopen finds whatever was loaded first. */
static void other_driver_load(const char *folder)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s/libcuda.so.1", TESUP_STANDIN_DIR, folder);
    EXPECT(dlopen(path, RTLD_NOW));
}

static void lacks_what_is_needed(void *unused)
{
    (void)unused;
    other_driver_load("no-pop");
    EXPECT(cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text)) == TS_ERR_UNSUPPORTED);
    EXPECT(strstr(text, "(CUDA 12.8) has no cuCtxPopCurrent_v2"));
}

static void lacks_what_is_optional(void *unused)
{
    (void)unused;
    other_driver_load("no-range");
    EXPECT(cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text)) == 0);
    EXPECT(!cuda.cuMemGetHandleForAddressRange && !cuda.cuFlushGPUDirectRDMAWrites);
    EXPECT(!cuda.cuModuleLoadData && !cuda.cuModuleUnload && !cuda.cuModuleGetFunction);
    EXPECT(!cuda.cuLaunchKernel);
    EXPECT(cuda.cuMemAlloc && cuda.cuMemcpyPeerAsync);
    OK(cuda.cuInit(0));
}

static void a_missing_function_is_named_if_it_is_needed(void **state)
{
    (void)state;
    assert_int_equal(standin_child(lacks_what_is_needed, NULL, NULL), 0);
    assert_int_equal(standin_child(lacks_what_is_optional, NULL, NULL), 0);
}

static void has_names(void *unused)
{
    (void)unused;
    EXPECT(cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text)) == 0);
    EXPECT(strcmp(cuda_name(&cuda, CUDA_INVALID_VALUE), "CUDA_ERROR_INVALID_VALUE") == 0);
    EXPECT(strcmp(cuda_name(&cuda, (enum cuda_result)4711), "CUDA error 4711") == 0);
}

static void an_error_has_its_cuda_name(void **state)
{
    (void)state;
    assert_int_equal(standin_child(has_names, NULL, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_cuda_stays_without),
        cmocka_unit_test(a_driver_that_is_too_old_is_named),
        cmocka_unit_test(a_missing_function_is_named_if_it_is_needed),
        cmocka_unit_test(an_error_has_its_cuda_name),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
