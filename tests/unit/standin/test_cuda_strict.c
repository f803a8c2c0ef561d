/* What the stand-in refuses: each rule of the driver that our code could break, the failures that
 * tests ask for, and a device that is lost. */
#include "tests/unit/standin/cuda_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

static cuda_pointer device;
static struct cuda_stream *stream;
static void *host;

static void begin_all(void)
{
    cuda_begin();
    OK(cuda.cuMemAlloc(&device, 1 << 20));
    OK(cuda.cuMemHostAlloc(&host, 1 << 20, 0));
    OK(cuda.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING));
}

static void end_all(void)
{
    OK(cuda.cuStreamDestroy(stream));
    OK(cuda.cuMemFreeHost(host));
    OK(cuda.cuMemFree(device));
    cuda_end();
}

static void copy_behind_the_end(void)
{
    cuda.cuMemcpyHtoDAsync(device + (1 << 20) - 5, host, 6, stream);
}

static void copy_behind_the_pinned(void)
{
    cuda.cuMemcpyDtoHAsync((char *)host + (1 << 20) - 5, device, 6, stream);
}

static void copy_from_nowhere(void)
{
    char here[8];

    cuda.cuMemcpyDtoH(here, (cuda_pointer)(uintptr_t)here, sizeof(here));
}

static void copy_after_free(void)
{
    char here[8];

    OK(cuda.cuMemFree(device));
    cuda.cuMemcpyDtoH(here, device, sizeof(here));
}

static void free_twice(void)
{
    OK(cuda.cuMemFree(device));
    cuda.cuMemFree(device);
}

static void free_the_middle(void)
{
    cuda.cuMemFree(device + 512);
}

static void wait_for_ever(void *unused)
{
    (void)unused;
    pause();
}

static void free_during_a_copy(void)
{
    OK(cuda.cuLaunchHostFunc(stream, wait_for_ever, NULL));
    OK(cuda.cuMemcpyHtoDAsync(device, host, 1 << 20, stream));
    cuda.cuMemFree(device);
}

static void unpin_during_a_copy(void)
{
    OK(cuda.cuLaunchHostFunc(stream, wait_for_ever, NULL));
    OK(cuda.cuMemcpyHtoDAsync(device, host, 1 << 20, stream));
    cuda.cuMemFreeHost(host);
}

static void call_without_context(void)
{
    OK(cuda.cuCtxSetCurrent(NULL));
    cuda.cuMemFree(device);
}

static void call_with_ended_stream(void)
{
    OK(cuda.cuStreamDestroy(stream));
    cuda.cuStreamQuery(stream);
}

static void call_from_host_function(void *unused)
{
    (void)unused;
    cuda.cuStreamQuery(stream);
}

static void host_function_calls(void)
{
    OK(cuda.cuLaunchHostFunc(stream, call_from_host_function, NULL));
    cuda.cuStreamSynchronize(stream);
}

static void stream_of_another_context(void)
{
    struct cuda_context *second;

    OK(cuda.cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuda.cuCtxSetCurrent(second));
    cuda.cuLaunchHostFunc(stream, wait_for_ever, NULL);
}

static void export_the_middle(void)
{
    struct cuda_ipc_memory handle;

    cuda.cuIpcGetMemHandle(&handle, device + 256);
}

static void export_half_a_page(void)
{
    int fd;

    cuda.cuMemGetHandleForAddressRange(&fd, device + 100, 4096, CUDA_RANGE_DMABUF_FD, 0);
}

static void close_what_was_not_opened(void)
{
    cuda.cuIpcCloseMemHandle(device);
}

static void release_while_in_use(void)
{
    cuda.cuDevicePrimaryCtxRelease(0);
}

static void write_without_access(void)
{
    const struct cuda_allocation properties = {.type = CUDA_ALLOCATION_PINNED,
                                               .location = {.type = CUDA_LOCATION_DEVICE}};
    cuda_memory memory;
    cuda_pointer mapped;

    OK(cuda.cuMemCreate(&memory, 2 << 20, &properties, 0));
    OK(cuda.cuMemAddressReserve(&mapped, 2 << 20, 0, 0, 0));
    OK(cuda.cuMemMap(mapped, 2 << 20, 0, memory, 0));
    OK(cuda.cuMemcpyHtoDAsync(mapped, host, 8, stream));
    cuda.cuStreamSynchronize(stream);
}

static void peer_copy_with_the_wrong_context(void)
{
    struct cuda_context *second;

    OK(cuda.cuDevicePrimaryCtxRetain(&second, 1));
    cuda.cuMemcpyPeerAsync(device, second, device + 4096, context, 10, stream);
}

#define PTX_BEGIN ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry standin_invert("

static void invert(const char *parameters, cuda_pointer at, size_t size)
{
    void *arguments[] = {&at, &size};
    struct cuda_function *function;
    struct cuda_module *module;
    char ptx[200];

    snprintf(ptx, sizeof(ptx), PTX_BEGIN "%s)\n{ ret; }\n", parameters);
    OK(cuda.cuModuleLoadData(&module, ptx));
    OK(cuda.cuModuleGetFunction(&function, module, "standin_invert"));
    OK(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

static void kernel_behind_the_end(void)
{
    invert(".param .u64 a, .param .u64 n", device + (1 << 20) - 5, 6);
}

static void kernel_with_host_memory(void)
{
    invert(".param .u64 a, .param .u64 n", (cuda_pointer)(uintptr_t)host, 6);
}

static void kernel_of_other_parameters(void)
{
    invert(".param .u64 a", device, 6);
}

static void kernel_of_other_sizes(void)
{
    invert(".param .u64 a, .param .u32 n", device, 6);
}

static void free_during_a_kernel(void)
{
    OK(cuda.cuLaunchHostFunc(stream, wait_for_ever, NULL));
    invert(".param .u64 a, .param .u64 n", device, 1 << 20);
    cuda.cuMemFree(device);
}

static void leave_it_all(void)
{
    exit(0);
}

static void break_rule(void *rule)
{
    begin_all();
    (*(void (**)(void))rule)();
    _exit(0);
}

static void whoever_breaks_a_rule_is_stopped(void **state)
{
    static void (*const rules[])(void) = {
        copy_behind_the_end,
        copy_behind_the_pinned,
        copy_from_nowhere,
        copy_after_free,
        free_twice,
        free_the_middle,
        free_during_a_copy,
        unpin_during_a_copy,
        call_without_context,
        call_with_ended_stream,
        host_function_calls,
        stream_of_another_context,
        export_the_middle,
        export_half_a_page,
        close_what_was_not_opened,
        release_while_in_use,
        write_without_access,
        peer_copy_with_the_wrong_context,
        kernel_behind_the_end,
        kernel_with_host_memory,
        kernel_of_other_parameters,
        kernel_of_other_sizes,
        free_during_a_kernel,
        leave_it_all,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        void (*rule)(void) = rules[i];

        if (standin_child(break_rule, &rule, NULL) != ABORTED)
            fail_msg("rule %zu of the list was broken, and nothing happened", i);
    }
}

/* ---- failures on demand ---- */

static void third_copy_is_refused(void *unused)
{
    (void)unused;
    begin_all();
    for (int i = 1; i <= 4; i++)
        EXPECT(cuda.cuMemcpyHtoDAsync(device, host, 8, stream) ==
               (i == 3 ? CUDA_OUT_OF_MEMORY : CUDA_OK));
    OK(cuda.cuStreamSynchronize(stream));
    end_all();
}

static void set_flag(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

/* The second copy fails when the device comes to it: what follows in the stream never happens. */
static void second_copy_fails_later(void *unused)
{
    int first = 0, second = 0;

    (void)unused;
    begin_all();
    OK(cuda.cuMemcpyHtoDAsync(device, host, 8, stream));
    OK(cuda.cuLaunchHostFunc(stream, set_flag, &first));
    OK(cuda.cuMemcpyHtoDAsync(device, host, 8, stream));
    cuda.cuLaunchHostFunc(stream, set_flag, &second);
    EXPECT(cuda.cuStreamSynchronize(stream) == CUDA_LAUNCH_FAILED);
    EXPECT(first == 1 && second == 0);
    EXPECT(cuda.cuMemFree(device) == CUDA_LAUNCH_FAILED); /* sticky */
}

static void failures_come_where_they_were_ordered(void **state)
{
    (void)state;
    assert_int_equal(
        standin_child(third_copy_is_refused, NULL,
                      (const char *const[]){"STANDIN_CUDA_FAIL=cuMemcpyHtoDAsync:3:2", NULL}),
        0);
    assert_int_equal(
        standin_child(
            second_copy_fails_later, NULL,
            (const char *const[]){
                "STANDIN_CUDA_FAIL=cuCtxEnablePeerAccess:1:1,cuMemcpyHtoDAsync@2:719", NULL}),
        0);
}

static void device_is_lost(void *file)
{
    struct cuda_context *second;
    int called = 0, fd;

    begin_all();
    OK(cuda.cuMemcpyHtoDAsync(device, host, 8, stream));
    OK(cuda.cuStreamSynchronize(stream));
    fd = open(file, O_WRONLY);
    EXPECT(write(fd, "0000:17:00.0 214\n", 17) == 17);
    close(fd);
    EXPECT(cuda.cuLaunchHostFunc(stream, set_flag, &called) == CUDA_ECC_UNCORRECTABLE);
    EXPECT(cuda.cuStreamQuery(stream) == CUDA_ECC_UNCORRECTABLE);
    OK(cuda.cuDevicePrimaryCtxRetain(&second, 1)); /* the other one goes on */
    OK(cuda.cuCtxSetCurrent(second));
    OK(cuda.cuStreamCreate(&stream, 0));
    OK(cuda.cuLaunchHostFunc(stream, set_flag, &called));
    OK(cuda.cuStreamSynchronize(stream));
    EXPECT(called == 1);
}

static void a_lost_device_fails_everything_and_no_other(void **state)
{
    char file[] = "/tmp/tesup-lost-XXXXXX", variable[64];
    int fd = mkstemp(file);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(variable, sizeof(variable), "STANDIN_CUDA_LOST=%s", file);
    assert_int_equal(standin_child(device_is_lost, file, (const char *const[]){variable, NULL}), 0);
    unlink(file);
}

/* ---- what may be asked about anything ---- */

static void strangers_are_only_asked_about(void *unused)
{
    int local, managed = 1, memory = 0;
    unsigned long long id, next;
    void *answers[] = {&memory, &managed};
    enum cuda_pointer_attribute asked[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED};

    (void)unused;
    begin_all();
    EXPECT(cuda.cuPointerGetAttribute(&memory, CUDA_POINTER_MEMORY_TYPE,
                                      (cuda_pointer)(uintptr_t)&local) == CUDA_INVALID_VALUE);
    OK(cuda.cuPointerGetAttributes(2, asked, answers, (cuda_pointer)(uintptr_t)&local));
    EXPECT(memory == 0 && managed == 0);
    OK(cuda.cuPointerGetAttributes(2, asked, answers, device + 77));
    EXPECT(memory == CUDA_MEMORY_DEVICE && managed == 0);
    OK(cuda.cuPointerGetAttribute(&memory, CUDA_POINTER_MEMORY_TYPE,
                                  (cuda_pointer)(uintptr_t)host));
    EXPECT(memory == CUDA_MEMORY_HOST);
    OK(cuda.cuPointerGetAttribute(&id, CUDA_POINTER_BUFFER_ID, device));
    OK(cuda.cuMemFree(device));
    OK(cuda.cuMemAlloc(&device, 1 << 20));
    OK(cuda.cuPointerGetAttribute(&next, CUDA_POINTER_BUFFER_ID, device));
    EXPECT(next != id);
    local = 1;
    OK(cuda.cuPointerSetAttribute(&local, CUDA_POINTER_SYNC_MEMOPS, device));
    EXPECT(cuda.cuPointerSetAttribute(&local, CUDA_POINTER_SYNC_MEMOPS,
                                      (cuda_pointer)(uintptr_t)host) == CUDA_INVALID_VALUE);
    end_all();
}

static void any_pointer_may_be_asked_about(void **state)
{
    (void)state;
    assert_int_equal(standin_child(strangers_are_only_asked_about, NULL, NULL), 0);
}

static void one_mig_instance(void *unused)
{
    char bus_id[16];
    int count;

    (void)unused;
    cuda_begin();
    OK(cuda.cuDeviceGetCount(&count));
    EXPECT(count == 1);
    OK(cuda.cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
    EXPECT(strcmp(bus_id, "0000:C1:00.0") == 0);
    cuda_end();
}

static void a_process_has_one_mig_instance(void **state)
{
    (void)state;
    assert_int_equal(
        standin_child(
            one_mig_instance, NULL,
            (const char *const[]){
                "STANDIN_CUDA_DEVICES=0000:17:00.0,0000:c1:00.0/mig0,0000:c1:00.0/mig1", NULL}),
        0);
}

static void child_has_no_driver(void *unused)
{
    pid_t pid;

    int awake = 0;

    (void)unused;
    begin_all();
    /* The stream's thread has begun and waits: a fork while it starts would copy locks that it
     * holds.
     */
    OK(cuda.cuLaunchHostFunc(stream, set_flag, &awake));
    OK(cuda.cuStreamSynchronize(stream));
    pid = fork();
    if (pid == 0) {
        EXPECT(cuda.cuStreamQuery(stream) == CUDA_NOT_INITIALIZED);
        exit(0); /* and nothing of the parent's is its leak */
    }
    EXPECT(wait_child(pid, WAIT_MS, "a child") == 0);
    end_all();
}

static void the_driver_does_not_survive_a_fork(void **state)
{
    (void)state;
    assert_int_equal(standin_child(child_has_no_driver, NULL, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_breaks_a_rule_is_stopped),
        cmocka_unit_test(failures_come_where_they_were_ordered),
        cmocka_unit_test(a_lost_device_fails_everything_and_no_other),
        cmocka_unit_test(any_pointer_may_be_asked_about),
        cmocka_unit_test(a_process_has_one_mig_instance),
        cmocka_unit_test(the_driver_does_not_survive_a_fork),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
