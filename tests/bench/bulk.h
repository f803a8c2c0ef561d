/* Large blocks. */
#ifndef TESUP_TESTS_BENCH_BULK_H
#define TESUP_TESTS_BENCH_BULK_H

#include <stdint.h>

/* Size of one: 64 MiB, or a smoke run's 4 MiB. */
uint64_t bulk_bytes(void);
/* Shared memory, every page touched. */
uint8_t *bulk_map(void);
void bulk_unmap(uint8_t *bytes);
/* Blocks that one sample moves. */
unsigned bulk_rounds(void);
/* Rate of one block, in 10^9 bytes a second. */
double bulk_gbs(uint64_t ns);

#endif
