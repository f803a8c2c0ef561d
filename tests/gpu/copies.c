/* Copies: their bytes, their rates, and what comes behind them. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/clock.h"
#include "tests/gpu/probe.h"

#define ROUNDS 8

enum way { TO_DEVICE, TO_HOST, ON_DEVICE };

static enum cuda_result copy(struct probe *probe, enum way way, size_t size)
{
    switch (way) {
    case TO_DEVICE:
        return probe->cuda.cuMemcpyHtoDAsync(probe->device, probe->host, size, probe->stream);
    case TO_HOST:
        return probe->cuda.cuMemcpyDtoHAsync(probe->host + PROBE_BYTES, probe->device + PROBE_BYTES,
                                             size, probe->stream);
    default:
        return probe->cuda.cuMemcpyDtoDAsync(probe->device + PROBE_BYTES, probe->device, size,
                                             probe->stream);
    }
}

static double gigabytes_per_second(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes / (double)ns : 0;
}

static void rate(struct probe *probe, const char *name, enum way way)
{
    uint64_t start = clock_now();

    for (int i = 0; i < ROUNDS; i++) {
        enum cuda_result result = copy(probe, way, PROBE_BYTES);

        if (result != CUDA_OK) {
            probe_say(name, "fail", "%s", cuda_name(&probe->cuda, result));
            return;
        }
    }
    PROBE_STEP(probe, name, cuStreamSynchronize(probe->stream));
    probe_say(name, "pass", "%.2f GB/s",
              gigabytes_per_second(ROUNDS * PROBE_BYTES, clock_now() - start));
}

/* There, across and back: then all three rates. */
void probe_copies(struct probe *probe)
{
    probe_fill(probe->host, PROBE_BYTES, 7);
    memset(probe->host + PROBE_BYTES, 0, PROBE_BYTES);
    rate(probe, "copy to device", TO_DEVICE);
    rate(probe, "copy on device", ON_DEVICE);
    rate(probe, "copy to host", TO_HOST);
    if (probe_is_filled(probe->host + PROBE_BYTES, PROBE_BYTES, 7))
        probe_say("copied bytes", "pass", "64 MiB, there and back");
    else
        probe_say("copied bytes", "fail", "what came back is something else");
}

/* What staging costs a small block: docs/gpu.md compares with it. */
void probe_small_copy(struct probe *probe)
{
    enum { SMALL = 200 };
    uint64_t start = clock_now();

    for (int i = 0; i < SMALL; i++) {
        PROBE_STEP(probe, "copy of 4 KiB",
                   cuMemcpyDtoHAsync(probe->host, probe->device, 4096, probe->stream));
        PROBE_STEP(probe, "copy of 4 KiB", cuStreamSynchronize(probe->stream));
    }
    probe_say("copy of 4 KiB", "pass", "%.2f us", (double)(clock_now() - start) / SMALL / 1000);
}

static void peer_copy_timed(struct probe *probe, struct cuda_context *peer, cuda_pointer there)
{
    uint64_t start = clock_now();

    for (int i = 0; i < ROUNDS; i++)
        PROBE_STEP(probe, "copy between GPUs",
                   cuMemcpyPeerAsync(there, peer, probe->device, probe->context, PROBE_BYTES,
                                     probe->stream));
    PROBE_STEP(probe, "copy between GPUs", cuStreamSynchronize(probe->stream));
    probe_say("copy between GPUs", "pass", "%.2f GB/s",
              gigabytes_per_second(ROUNDS * PROBE_BYTES, clock_now() - start));
}

void probe_peer_copy(struct probe *probe)
{
    struct cuda_context *peer;
    cuda_pointer there;

    if (probe->devices < 2) {
        probe_say("copy between GPUs", "absent", "there is one GPU");
        return;
    }
    PROBE_STEP(probe, "copy between GPUs", cuDevicePrimaryCtxRetain(&peer, 1));
    PROBE_STEP(probe, "copy between GPUs", cuCtxPushCurrent(peer));
    PROBE_STEP(probe, "copy between GPUs", cuMemAlloc(&there, PROBE_BYTES));
    PROBE_STEP(probe, "copy between GPUs", cuCtxPopCurrent(NULL));
    peer_copy_timed(probe, peer, there);
    PROBE_STEP(probe, "copy between GPUs", cuCtxPushCurrent(peer));
    PROBE_STEP(probe, "copy between GPUs", cuMemFree(there));
    PROBE_STEP(probe, "copy between GPUs", cuCtxPopCurrent(NULL));
    PROBE_STEP(probe, "copy between GPUs", cuDevicePrimaryCtxRelease(1));
}

struct order {
    const unsigned char *bytes;
    int seen; /* what the last byte was when the function was called */
};

static void look(void *context)
{
    struct order *order = context;

    order->seen = order->bytes[PROBE_BYTES - 1];
}

/* The completion of a copy is a host function behind it: it has to see all bytes. */
void probe_host_function(struct probe *probe)
{
    struct order order = {.bytes = probe->host};

    for (unsigned char i = 1; i < 20; i++) {
        PROBE_STEP(probe, "host function",
                   cuMemsetD8Async(probe->device, i, PROBE_BYTES, probe->stream));
        PROBE_STEP(probe, "host function",
                   cuMemcpyDtoHAsync(probe->host, probe->device, PROBE_BYTES, probe->stream));
        PROBE_STEP(probe, "host function", cuLaunchHostFunc(probe->stream, look, &order));
        PROBE_STEP(probe, "host function", cuStreamSynchronize(probe->stream));
        if (order.seen != i) {
            probe_say("host function", "fail", "it saw %d, the copy before it wrote %d", order.seen,
                      i);
            return;
        }
    }
    probe_say("host function", "pass", "always behind the copy");
}

/* Rings are memfds: kernels reach them only if such memory can be registered. */
void probe_ring_memory(struct probe *probe)
{
    const size_t size = 1 << 20;
    int fd = memfd_create("probe", MFD_CLOEXEC);
    void *ring = MAP_FAILED;
    cuda_pointer address;

    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (ring == MAP_FAILED) {
        probe_say("ring memory", "fail", "no memfd: %s", strerrordesc_np(errno));
        return;
    }
    PROBE_STEP(probe, "ring memory", cuMemHostRegister(ring, size, CUDA_HOST_DEVICEMAP));
    PROBE_STEP(probe, "ring memory", cuMemHostGetDevicePointer(&address, ring, 0));
    PROBE_STEP(probe, "ring memory", cuMemHostUnregister(ring));
    munmap(ring, size);
    probe_say("ring memory", "pass", "a memfd is mapped to the device");
}
