/* The bytes of a block: they depend on the iteration, the block and the offset, so that a stale,
 * shifted or torn block cannot look right. */
#ifndef TESUP_BENCH_PATTERN_H
#define TESUP_BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* Word i of a block is its first word + i * PATTERN_STEP, the bytes behind the last whole word are
 * the first ones of the next.  An odd constant: consecutive words differ in every byte position
 * sooner or later, and adding it is all that a loop does per word, so filling keeps up with memory.
 */
#define PATTERN_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The first wrong byte. */
struct pattern_fault {
    uint64_t iteration;
    uint64_t offset; /* in the block */
    uint64_t wrong;  /* bytes of the block that are wrong; 0: not counted */
    uint32_t block;  /* of the iteration's batch */
    uint8_t expected;
    uint8_t found;
    uint8_t pad[2];
};

/* The first word of a block. */
uint64_t pattern_start(uint64_t iteration, uint32_t block);
/* The byte at this offset of a block with that first word. */
uint8_t pattern_byte(uint64_t start, uint64_t offset);
void pattern_fill(void *bytes, uint64_t length, uint64_t iteration, uint32_t block);
/* True when all bytes are right; else the first wrong one is in *fault. */
bool pattern_check(const void *bytes, uint64_t length, uint64_t iteration, uint32_t block,
                   struct pattern_fault *fault);

#endif
