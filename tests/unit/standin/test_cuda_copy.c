/* Memory, copies and streams of the stand-in: what is right works, in order, and is counted. */
#include "tests/unit/standin/cuda_fixture.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#define MANY (3UL << 20)

static void pattern_fill(unsigned char *bytes, size_t size, unsigned int seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((i * 31 + seed) >> (i % 7));
}

static void copies_there_and_back(void *unused)
{
    unsigned char *out, *in;
    struct cuda_stream *stream;
    cuda_pointer first, second;

    (void)unused;
    cuda_begin();
    OK(cuda.cuMemHostAlloc((void **)&out, MANY, CUDA_HOST_PORTABLE));
    OK(cuda.cuMemHostAlloc((void **)&in, MANY, 0));
    OK(cuda.cuMemAlloc(&first, MANY));
    OK(cuda.cuMemAlloc(&second, MANY));
    OK(cuda.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING));
    pattern_fill(out, MANY, 5);
    /* Odd offsets and lengths; each step needs the one before. */
    OK(cuda.cuMemcpyHtoDAsync(first + 1, out + 3, MANY - 7, stream));
    OK(cuda.cuMemcpyDtoDAsync(second + 5, first + 1, MANY - 7, stream));
    OK(cuda.cuMemcpyDtoHAsync(in, second + 5, MANY - 7, stream));
    OK(cuda.cuStreamSynchronize(stream));
    EXPECT(memcmp(in, out + 3, MANY - 7) == 0);
    OK(cuda.cuMemsetD8Async(first, 0xa5, 9, NULL));
    OK(cuda.cuMemcpyDtoH(in, first, 9));
    EXPECT(in[0] == 0xa5 && in[8] == 0xa5);
    OK(cuda.cuStreamDestroy(stream));
    OK(cuda.cuMemFree(second));
    OK(cuda.cuMemFree(first));
    OK(cuda.cuMemFreeHost(in));
    OK(cuda.cuMemFreeHost(out));
    cuda_end();
}

static void what_is_right_leaves_nothing(void **state)
{
    (void)state;
    for (int seed = 1; seed < 6; seed++) {
        char variable[32];
        const char *const environment[] = {variable, NULL};

        snprintf(variable, sizeof(variable), "STANDIN_CUDA_SEED=%d", seed);
        assert_int_equal(standin_child(copies_there_and_back, NULL, environment), 0);
    }
}

static void host_function(void *word)
{
    __atomic_add_fetch((int *)word, 1, __ATOMIC_RELEASE);
}

static void host_functions_follow_their_stream(void *unused)
{
    struct cuda_stream *stream;
    cuda_pointer device;
    unsigned char *host;
    int called = 0;

    (void)unused;
    cuda_begin();
    OK(cuda.cuMemAlloc(&device, 4096));
    OK(cuda.cuMemHostAlloc((void **)&host, 4096, 0));
    OK(cuda.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING));
    for (int i = 1; i <= 50; i++) {
        OK(cuda.cuMemsetD8Async(device, (unsigned char)i, 4096, stream));
        OK(cuda.cuMemcpyDtoHAsync(host, device, 4096, stream));
        OK(cuda.cuLaunchHostFunc(stream, host_function, &called));
        while (__atomic_load_n(&called, __ATOMIC_ACQUIRE) < i)
            sched_yield();
        EXPECT(host[0] == i && host[4095] == i);
    }
    OK(cuda.cuStreamSynchronize(stream));
    OK(cuda.cuStreamQuery(stream));
    OK(cuda.cuStreamDestroy(stream));
    OK(cuda.cuMemFreeHost(host));
    OK(cuda.cuMemFree(device));
    cuda_end();
}

static void a_host_function_comes_after_the_copies_before_it(void **state)
{
    (void)state;
    assert_int_equal(standin_child(host_functions_follow_their_stream, NULL, NULL), 0);
}

/* A stream that waits for an event sees what the other one wrote before it. */
static void streams_wait_for_events(void *unused)
{
    struct cuda_stream *writer, *reader;
    struct cuda_event *event;
    cuda_pointer device;
    unsigned char *host;

    (void)unused;
    cuda_begin();
    OK(cuda.cuMemAlloc(&device, MANY));
    OK(cuda.cuMemHostAlloc((void **)&host, MANY, 0));
    OK(cuda.cuStreamCreate(&writer, CUDA_STREAM_NON_BLOCKING));
    OK(cuda.cuStreamCreateWithPriority(&reader, CUDA_STREAM_NON_BLOCKING, -1));
    OK(cuda.cuEventCreate(&event, CUDA_EVENT_DISABLE_TIMING));
    for (unsigned char i = 1; i < 40; i++) {
        OK(cuda.cuMemsetD8Async(device, i, MANY, writer));
        OK(cuda.cuEventRecord(event, writer));
        OK(cuda.cuStreamWaitEvent(reader, event, 0));
        OK(cuda.cuMemcpyDtoHAsync(host, device, MANY, reader));
        OK(cuda.cuStreamSynchronize(reader));
        OK(cuda.cuEventQuery(event));
        EXPECT(host[0] == i && host[MANY - 1] == i);
    }
    OK(cuda.cuEventSynchronize(event));
    OK(cuda.cuEventDestroy(event));
    OK(cuda.cuStreamDestroy(writer));
    OK(cuda.cuStreamDestroy(reader));
    OK(cuda.cuMemFreeHost(host));
    OK(cuda.cuMemFree(device));
    cuda_end();
}

static void an_event_orders_two_streams(void **state)
{
    (void)state;
    assert_int_equal(standin_child(streams_wait_for_events, NULL, NULL), 0);
}

static void copies_are_counted_while_they_run(void *folder)
{
    struct standin_counters counters;
    struct cuda_stream *streams[2];
    unsigned char local[64];
    cuda_pointer device;
    char file[96];
    void *host;

    cuda_begin();
    OK(cuda.cuMemAlloc(&device, MANY));
    OK(cuda.cuMemHostAlloc(&host, MANY, 0));
    OK(cuda.cuStreamCreate(&streams[0], CUDA_STREAM_NON_BLOCKING));
    OK(cuda.cuStreamCreate(&streams[1], CUDA_STREAM_NON_BLOCKING));
    OK(cuda.cuMemcpyHtoDAsync(device, host, MANY, streams[0]));
    OK(cuda.cuMemcpyDtoHAsync(host, device, 1000, streams[1]));
    OK(cuda.cuStreamSynchronize(streams[0]));
    OK(cuda.cuStreamSynchronize(streams[1]));
    OK(cuda.cuMemcpyDtoHAsync(local, device, sizeof(local), streams[1])); /* pageable */
    EXPECT(standin_counters_read(folder, getpid(), &counters));
    EXPECT(counters.copies_to_device == 1 && counters.bytes_to_device == MANY);
    EXPECT(counters.copies_to_host == 2 && counters.bytes_to_host == 1000 + sizeof(local));
    EXPECT(counters.copies_queued == 0 && counters.copies_queued_most == 2);
    EXPECT(counters.copies_pageable == 1 && counters.blocking_calls == 2);
    EXPECT(counters.pinned == 1 && counters.pinned_bytes == MANY);
    OK(cuda.cuStreamDestroy(streams[0]));
    OK(cuda.cuStreamDestroy(streams[1]));
    OK(cuda.cuMemFreeHost(host));
    OK(cuda.cuMemFree(device));
    cuda_end();
    EXPECT(standin_counters_read(folder, getpid(), &counters));
    EXPECT(counters.pinned_bytes == 0 && counters.pinned_bytes_most == MANY);
    snprintf(file, sizeof(file), "%s/cuda.%d", (const char *)folder, (int)getpid());
    EXPECT(unlink(file) == 0);
}

static void the_counters_say_what_was_copied(void **state)
{
    char folder[] = "/tmp/tesup-standin-XXXXXX", variable[96];
    const char *const environment[] = {variable, "STANDIN_CUDA_DELAY_US=2000", NULL};

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(variable, sizeof(variable), "STANDIN_CUDA_COUNTERS=%s", folder);
    assert_int_equal(standin_child(copies_are_counted_while_they_run, folder, environment), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void on_fault(int signal)
{
    (void)signal;
    _exit(42);
}

static void the_cpu_reads_device_memory(void *unused)
{
    struct sigaction action = {.sa_handler = on_fault};
    cuda_pointer device;

    (void)unused;
    cuda_begin();
    OK(cuda.cuMemAlloc(&device, 4096));
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    (void)*(volatile unsigned char *)(uintptr_t)device;
}

static void a_cpu_access_to_device_memory_faults(void **state)
{
    (void)state;
    assert_int_equal(standin_child(the_cpu_reads_device_memory, NULL, NULL), 42);
}

static const char ptx[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry standin_invert(.param .u64 a, .param .u64 n)\n{ ret; }\n";

static void a_kernel_runs_in_its_stream(void *unused)
{
    struct cuda_module *module;
    struct cuda_function *function;
    cuda_pointer device;
    unsigned long long size = 100;
    void *arguments[] = {&device, &size};
    unsigned char host[101] = {1};

    (void)unused;
    cuda_begin();
    OK(cuda.cuMemAlloc(&device, sizeof(host)));
    EXPECT(cuda.cuModuleLoadData(&module, "no PTX at all") == CUDA_INVALID_IMAGE);
    EXPECT(cuda.cuModuleLoadData(&module, ".version 7.0\n") == CUDA_INVALID_PTX);
    OK(cuda.cuModuleLoadData(&module, ptx));
    EXPECT(cuda.cuModuleGetFunction(&function, module, "standin_") == CUDA_NOT_FOUND);
    OK(cuda.cuModuleGetFunction(&function, module, "standin_invert"));
    OK(cuda.cuMemcpyHtoD(device, host, sizeof(host)));
    OK(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuda.cuMemcpyDtoH(host, device, sizeof(host)));
    EXPECT(host[0] == 0xfe && host[99] == 0xff && host[100] == 0);
    OK(cuda.cuModuleUnload(module));
    OK(cuda.cuMemFree(device));
    cuda_end();
}

static void a_kernels_twin_does_its_work(void **state)
{
    (void)state;
    assert_int_equal(standin_child(a_kernel_runs_in_its_stream, NULL, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_leaves_nothing),
        cmocka_unit_test(a_host_function_comes_after_the_copies_before_it),
        cmocka_unit_test(an_event_orders_two_streams),
        cmocka_unit_test(the_counters_say_what_was_copied),
        cmocka_unit_test(a_cpu_access_to_device_memory_faults),
        cmocka_unit_test(a_kernels_twin_does_its_work),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
