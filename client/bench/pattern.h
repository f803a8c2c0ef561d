/* The bytes of a block: they depend on the iteration, the block and the offset, so that a stale,
 * shifted or torn block cannot look right. */
#ifndef TESUP_BENCH_PATTERN_H
#define TESUP_BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* The first wrong byte. */
struct pattern_fault {
    uint64_t iteration;
    uint64_t offset; /* in the block */
    uint32_t block;  /* of the iteration's batch */
    uint8_t expected;
    uint8_t found;
    uint8_t pad[2];
};

void pattern_fill(void *bytes, uint64_t length, uint64_t iteration, uint32_t block);
/* True when all bytes are right; else the first wrong one is in *fault. */
bool pattern_check(const void *bytes, uint64_t length, uint64_t iteration, uint32_t block,
                   struct pattern_fault *fault);

#endif
