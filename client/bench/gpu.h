/* Memory of a GPU for the blocks of one case; what is done with its bytes is done on the GPU.
 *
 * A call of CUDA that fails ends the job with CUDA's word for it: there is no other way to go on.
 */
#ifndef TESUP_BENCH_GPU_H
#define TESUP_BENCH_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "client/bench/kernel.h"
#include "client/bench/party.h"

/* Of the GPU with this index, as CUDA counts; one at a time. 0, or -1 with the party's error set.
 */
int gpu_create(struct party *party, uint32_t index, uint64_t length, uint64_t *at);
void gpu_destroy(void);
void gpu_clear(uint64_t at, uint64_t length);
void gpu_fill(const struct kernel_block *block);
/* True when all bytes are right; else the first wrong one is in *fault, but not which block it is
 * in. */
bool gpu_check(const struct kernel_block *block, struct pattern_fault *fault);
/* One bit of one byte. */
void gpu_flip(uint64_t at);
/* At the end of the job, behind its session: frees what is left. */
void gpu_close(void);

#endif
