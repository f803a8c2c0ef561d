#include "tests/gpu/probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool failed;

void probe_say(const char *name, const char *result, const char *format, ...)
{
    va_list args;

    failed = failed || strcmp(result, "fail") == 0;
    printf("%s\t%s\t", name, result);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void probe_fill(unsigned char *bytes, size_t size, unsigned int seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((i * 2654435761U + seed) >> 13);
}

bool probe_is_filled(const unsigned char *bytes, size_t size, unsigned int seed)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != (unsigned char)((i * 2654435761U + seed) >> 13))
            return false;
    }
    return true;
}

/* Device, stream, memory on both sides. */
static void probe_open(struct probe *probe)
{
    PROBE_STEP(probe, "context", cuDevicePrimaryCtxRetain(&probe->context, 0));
    PROBE_STEP(probe, "context", cuCtxSetCurrent(probe->context));
    PROBE_STEP(probe, "context", cuStreamCreate(&probe->stream, CUDA_STREAM_NON_BLOCKING));
    PROBE_STEP(probe, "context",
               cuMemHostAlloc((void **)&probe->host, 2 * PROBE_BYTES, CUDA_HOST_PORTABLE));
    PROBE_STEP(probe, "context", cuMemAlloc(&probe->device, 2 * PROBE_BYTES));
    probe_say("context", "pass", "one stream, 128 MiB on either side");
}

static void probe_close(struct probe *probe)
{
    PROBE_STEP(probe, "close", cuStreamDestroy(probe->stream));
    PROBE_STEP(probe, "close", cuMemFree(probe->device));
    PROBE_STEP(probe, "close", cuMemFreeHost(probe->host));
    PROBE_STEP(probe, "close", cuCtxSetCurrent(NULL));
    PROBE_STEP(probe, "close", cuDevicePrimaryCtxRelease(0));
    probe_say("close", "pass", "everything was given back");
}

static void probe_devices(struct probe *probe)
{
    for (cuda_device i = 0; i < probe->devices; i++) {
        char name[96], bus_id[32];
        int major, minor;

        PROBE_STEP(probe, "device", cuDeviceGetName(name, sizeof(name), i));
        PROBE_STEP(probe, "device", cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), i));
        PROBE_STEP(probe, "device", cuDeviceGetAttribute(&major, CUDA_DEVICE_CAPABILITY_MAJOR, i));
        PROBE_STEP(probe, "device", cuDeviceGetAttribute(&minor, CUDA_DEVICE_CAPABILITY_MINOR, i));
        probe_say("device", "pass", "%s at %s, compute capability %d.%d, CUDA %d.%d", name, bus_id,
                  major, minor, probe->cuda.version / 1000, probe->cuda.version % 1000 / 10);
    }
}

/* 77: no driver, or it has no GPU; the reason is on standard error. */
static int driver_open(struct probe *probe)
{
    char text[256];
    enum cuda_result result;

    if (cuda_driver_load(&probe->cuda, CUDA_LOAD, text, sizeof(text))) {
        fprintf(stderr, "%s\n", text);
        return 77;
    }
    result = probe->cuda.cuInit(0);
    if (result == CUDA_OK)
        result = probe->cuda.cuDeviceGetCount(&probe->devices);
    if (result != CUDA_OK || probe->devices == 0) {
        fprintf(stderr, "the driver finds no GPU (%s)\n", cuda_name(&probe->cuda, result));
        return 77;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct probe probe = {0};
    int rc = driver_open(&probe);

    if (rc)
        return rc;
    if (argc == 3)
        return probe_guest(&probe, argv[1], (int)strtol(argv[2], NULL, 10));
    probe_devices(&probe);
    probe_open(&probe);
    if (failed)
        return 1;
    probe_copies(&probe);
    probe_small_copy(&probe);
    probe_peer_copy(&probe);
    probe_host_function(&probe);
    probe_ring_memory(&probe);
    probe_ipc(&probe);
    probe_vmm(&probe);
    probe_dmabuf(&probe);
    probe_flush(&probe);
    probe_close(&probe);
    return failed;
}
