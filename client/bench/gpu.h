/* Memory of a GPU for the blocks of one case, filled and fetched by the driver's own copies.
 *
 * A call of CUDA that fails ends the job with CUDA's word for it: there is no other way to go on.
 */
#ifndef TESUP_BENCH_GPU_H
#define TESUP_BENCH_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "client/bench/party.h"

/* Of the GPU with this index, as CUDA counts; one at a time. 0, or -1 with the party's error set.
 */
int gpu_create(struct party *party, uint32_t index, uint64_t length, uint64_t *at);
void gpu_destroy(void);
void gpu_store(uint64_t at, const void *bytes, size_t length);
void gpu_fetch(void *bytes, uint64_t at, size_t length);
/* At the end of the job, behind its session: frees what is left. */
void gpu_close(void);

#endif
