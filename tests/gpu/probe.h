/* gpu-probe: what the driver and the GPUs of this machine can do, one line a check:
 *
 *   NAME <tab> pass|fail|absent <tab> what was measured, or why not
 *
 * It uses shm/cuda.h as the worker does, so it proves those declarations as well. */
#ifndef TESUP_TESTS_GPU_PROBE_H
#define TESUP_TESTS_GPU_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/cuda.h"

#define PROBE_BYTES (64UL << 20)

struct probe {
    struct cuda_driver cuda;
    int devices;
    struct cuda_context *context; /* of device 0, current */
    struct cuda_stream *stream;
    unsigned char *host; /* pinned, 2 x PROBE_BYTES */
    cuda_pointer device; /* 2 x PROBE_BYTES */
};

/* A step that has to work: otherwise the check fails with its name. */
#define PROBE_STEP(probe, name, call)                                                     \
    do {                                                                                  \
        enum cuda_result result_ = (probe)->cuda.call;                                    \
        if (result_ != CUDA_OK) {                                                         \
            probe_say(name, "fail", "%s: %s", #call, cuda_name(&(probe)->cuda, result_)); \
            return;                                                                       \
        }                                                                                 \
    } while (0)

void probe_say(const char *name, const char *result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void probe_fill(unsigned char *bytes, size_t size, unsigned int seed);
bool probe_is_filled(const unsigned char *bytes, size_t size, unsigned int seed);

/* copies.c */
void probe_copies(struct probe *probe);
void probe_small_copy(struct probe *probe);
void probe_peer_copy(struct probe *probe);
void probe_host_function(struct probe *probe);
void probe_ring_memory(struct probe *probe);

/* sharing.c: the other process is this program again. */
void probe_ipc(struct probe *probe);
void probe_vmm(struct probe *probe);
void probe_dmabuf(struct probe *probe);
void probe_flush(struct probe *probe);
int probe_guest(struct probe *probe, const char *what, int line);

#endif
