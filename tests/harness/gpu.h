/* GPU memory of a test's own process, with the stand-in of the CUDA driver (docs/gpu.md). */
#ifndef TESUP_TESTS_HARNESS_GPU_H
#define TESUP_TESTS_HARNESS_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/cuda.h"
#include "tests/harness/daemon.h"
#include "tests/harness/party.h"
#include "tests/standin/counters.h"

extern struct cuda_driver gpu_driver;

/* A folder for the counters of all processes that are started from here on. */
void gpu_counters_begin(void);
/* None of them has left anything. */
void gpu_counters_expect_clean(void);
void gpu_counters_end(void);
/* Of one that is killed next: what it leaves is no leak. */
void gpu_counters_forget(pid_t pid);
struct standin_counters gpu_own_counters(void);
/* Of the first worker of the daemon, which runs. */
struct standin_counters gpu_worker_counters(const struct daemon *daemon);
/* Waits until that worker has this many allocations of jobs open. */
void gpu_worker_opened_wait(const struct daemon *daemon, uint64_t count);

/* CUDA in this process: device 0 is current. */
void gpu_begin(void);
void gpu_end(void);
#define gpu_check(result) gpu_check_at((result), __FILE__, __LINE__)
void gpu_check_at(enum cuda_result result, const char *file, int line);
/* Makes that device's context current. */
void gpu_use(int ordinal);

cuda_pointer gpu_alloc(uint64_t size);
/* Memory that moves between host and device by itself. */
cuda_pointer gpu_alloc_managed(uint64_t size);
void gpu_free(cuda_pointer at);
/* As party_fill and party_verify. */
void gpu_fill(cuda_pointer at, uint64_t length, uint64_t seed);
void gpu_verify(cuda_pointer at, uint64_t length, uint64_t seed, const char *what);
void gpu_set(cuda_pointer at, uint64_t length, uint8_t value);
void gpu_verify_byte(cuda_pointer at, uint64_t length, uint8_t value, const char *what);

tesup_region_t gpu_register(const struct party *party, cuda_pointer at, uint64_t size,
                            uint32_t access);

#endif
