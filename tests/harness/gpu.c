#include "tests/harness/test.h"

#include "tests/harness/gpu.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/standin.h"
#include "tests/harness/wait.h"

#define DEVICES 2

struct cuda_driver gpu_driver;

static char folder[] = "/tmp/tesup-gpu-XXXXXX";
static struct cuda_context *contexts[DEVICES];

/* ---- counters ---- */

void gpu_counters_begin(void)
{
    assert_non_null(mkdtemp(folder));
    setenv("STANDIN_CUDA_COUNTERS", folder, 1);
}

static void counters_expect_none(pid_t pid)
{
    struct standin_counters counters;

    assert_true(standin_counters_read(folder, pid, &counters));
    /* Also at once: a group's tear-down that fails says nothing more. */
#define LEFT(field, alive)                                             \
    if ((alive) && counters.field) {                                   \
        fprintf(stderr, "process %d left %s: %lu\n", (int)pid, #field, \
                (unsigned long)counters.field);                        \
        fail();                                                        \
    }
    STANDIN_COUNTERS(LEFT)
#undef LEFT
}

/* Calls `visit` for each process; how many there are. */
static unsigned counters_each(void (*visit)(pid_t pid, const char *path))
{
    DIR *files = opendir(folder);
    const struct dirent *file;
    unsigned count = 0;
    char path[400];

    assert_non_null(files);
    while ((file = readdir(files)) != NULL) {
        if (strncmp(file->d_name, "cuda.", 5) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, file->d_name);
        visit((pid_t)strtol(file->d_name + 5, NULL, 10), path);
        count++;
    }
    closedir(files);
    return count;
}

static void counters_look(pid_t pid, const char *path)
{
    (void)path;
    if (pid != getpid())
        counters_expect_none(pid);
}

static void counters_remove(pid_t pid, const char *path)
{
    (void)pid;
    unlink(path);
}

void gpu_counters_expect_clean(void)
{
    assert_true(counters_each(counters_look) > 0);
}

void gpu_counters_end(void)
{
    counters_each(counters_remove);
    assert_int_equal(rmdir(folder), 0);
}

void gpu_counters_forget(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/cuda.%d", folder, (int)pid);
    assert_int_equal(unlink(path), 0);
}

void gpu_worker_opened_wait(const struct daemon *daemon, uint64_t count)
{
    struct wait wait = wait_begin("a worker's number of opened allocations", WAIT_MS);

    while (gpu_worker_counters(daemon).ipc_opened != count)
        wait_step(&wait);
}

struct standin_counters gpu_own_counters(void)
{
    struct standin_counters counters;

    assert_true(standin_counters_read(folder, getpid(), &counters));
    return counters;
}

struct standin_counters gpu_worker_counters(const struct daemon *daemon)
{
    struct standin_counters counters;
    pid_t pids[DAEMON_WORKERS];

    assert_true(daemon_workers(daemon, pids) > 0);
    assert_true(standin_counters_read(folder, pids[0], &counters));
    return counters;
}

/* ---- this process ---- */

void gpu_check_at(enum cuda_result result, const char *file, int line)
{
    if (result != CUDA_OK)
        fail_msg("%s:%d: %s", file, line, cuda_name(&gpu_driver, result));
}

void gpu_begin(void)
{
    char text[200] = "";

    if (cuda_driver_load(&gpu_driver, CUDA_LOAD, text, sizeof(text)) != 0)
        fail_msg("%s", text);
    gpu_check(gpu_driver.cuInit(0));
    gpu_use(0);
}

void gpu_use(int ordinal)
{
    cuda_device device;

    assert_in_range(ordinal, 0, DEVICES - 1);
    gpu_check(gpu_driver.cuDeviceGet(&device, ordinal));
    if (contexts[ordinal] == NULL)
        gpu_check(gpu_driver.cuDevicePrimaryCtxRetain(&contexts[ordinal], device));
    gpu_check(gpu_driver.cuCtxSetCurrent(contexts[ordinal]));
}

void gpu_end(void)
{
    gpu_check(gpu_driver.cuCtxSetCurrent(NULL));
    for (int i = 0; i < DEVICES; i++) {
        if (contexts[i] != NULL)
            gpu_check(gpu_driver.cuDevicePrimaryCtxRelease(i));
        contexts[i] = NULL;
    }
    cuda_driver_unload(&gpu_driver);
}

cuda_pointer gpu_alloc(uint64_t size)
{
    cuda_pointer at = 0;

    gpu_check(gpu_driver.cuMemAlloc(&at, size));
    return at;
}

cuda_pointer gpu_alloc_managed(uint64_t size)
{
    enum cuda_result (*alloc)(cuda_pointer *, size_t, unsigned int) = NULL;
    void *symbol = dlsym(gpu_driver.library, "cuMemAllocManaged"); /* only tests want it */
    cuda_pointer at = 0;

    assert_non_null(symbol);
    memcpy(&alloc, &symbol, sizeof(alloc));
    gpu_check(alloc(&at, size, 1));
    return at;
}

void gpu_free(cuda_pointer at)
{
    gpu_check(gpu_driver.cuMemFree(at));
}

/* ---- bytes ---- */

static uint8_t *host_bytes(uint64_t length)
{
    uint8_t *bytes = malloc(length > 0 ? length : 1);

    assert_non_null(bytes);
    return bytes;
}

void gpu_fill(cuda_pointer at, uint64_t length, uint64_t seed)
{
    uint8_t *bytes = host_bytes(length);

    party_fill(bytes, length, seed);
    gpu_check(gpu_driver.cuMemcpyHtoD(at, bytes, length));
    free(bytes);
}

void gpu_set(cuda_pointer at, uint64_t length, uint8_t value)
{
    uint8_t *bytes = host_bytes(length);

    memset(bytes, value, length);
    gpu_check(gpu_driver.cuMemcpyHtoD(at, bytes, length));
    free(bytes);
}

static uint8_t *bytes_fetch(cuda_pointer at, uint64_t length)
{
    uint8_t *bytes = host_bytes(length);

    if (length > 0)
        gpu_check(gpu_driver.cuMemcpyDtoH(bytes, at, length));
    return bytes;
}

void gpu_verify(cuda_pointer at, uint64_t length, uint64_t seed, const char *what)
{
    uint8_t *bytes = bytes_fetch(at, length);

    party_verify(bytes, length, seed, what);
    free(bytes);
}

void gpu_verify_byte(cuda_pointer at, uint64_t length, uint8_t value, const char *what)
{
    uint8_t *bytes = bytes_fetch(at, length);

    party_verify_byte(bytes, length, value, what);
    free(bytes);
}

tesup_region_t gpu_register(const struct party *party, cuda_pointer at, uint64_t size,
                            uint32_t access)
{
    tesup_region_t handle = 0;

    party_check(
        tesup_mem_register_gpu(party->session, (void *)(uintptr_t)at, size, access, &handle),
        "tesup_mem_register_gpu");
    return handle;
}
