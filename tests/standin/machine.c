/* The GPUs of the machine that the stand-ins pretend, for CUDA and for NVML.
 *
 * STANDIN_CUDA_DEVICES: bus ids with commas, "/migN" behind one for a MIG instance. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/standin/cuda.h"

void standin_die(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "stand-in driver, process %d: %s\n", (int)getpid(), text);
    abort();
}

const char *standin_env(const char *name, const char *otherwise)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): nobody sets it then */

    return value && *value ? value : otherwise;
}

/* Any fixed bytes will do, different for each device and instance. */
static void uuid_make(struct standin_device *device)
{
    uint64_t hash = 0xcbf29ce484222325U + (uint64_t)(device->mig + 1);

    for (const char *c = device->bus_id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3U;
    for (size_t i = 0; i < sizeof(device->uuid.bytes); i++) {
        hash = hash * 6364136223846793005U + 1442695040888963407U;
        device->uuid.bytes[i] = (char)(hash >> 56);
    }
}

int standin_devices_read(struct standin_device *devices, int size)
{
    const char *text = standin_env("STANDIN_CUDA_DEVICES", "0000:17:00.0,0000:65:00.0");
    int count = 0;

    if (strcmp(text, "none") == 0)
        return 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        struct standin_device *device = &devices[count];

        if (count == size || length >= 32)
            standin_die("STANDIN_CUDA_DEVICES: too many, or no bus ids");
        device->mig = -1;
        /* NOLINTNEXTLINE(cert-err34-c): an instance that is no number stays -1 */
        if (sscanf(text, "%15[^/,]/mig%d", device->bus_id, &device->mig) < 1)
            standin_die("STANDIN_CUDA_DEVICES: no bus id at \"%s\"", text);
        uuid_make(device);
        count++;
        text += length + (text[length] == ',');
    }
    return count;
}

enum cuda_result standin_device_lost(const struct standin_device *device)
{
    const char *path = standin_env("STANDIN_CUDA_LOST", NULL);
    FILE *file = path ? fopen(path, "re") : NULL;
    enum cuda_result lost = CUDA_OK;
    char line[64];

    if (!file)
        return CUDA_OK;
    while (lost == CUDA_OK && fgets(line, sizeof(line), file)) {
        char bus_id[16];
        int code;

        /* NOLINTNEXTLINE(cert-err34-c): lines that are no pair are nobody's */
        if (sscanf(line, "%15s %d", bus_id, &code) == 2 && strcmp(bus_id, device->bus_id) == 0)
            lost = (enum cuda_result)code;
    }
    fclose(file);
    return lost;
}
