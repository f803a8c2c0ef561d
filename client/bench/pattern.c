#include "client/bench/pattern.h"

#include <string.h>

/* splitmix64's finaliser: neighbouring iterations and blocks start far apart. */
uint64_t pattern_start(uint64_t iteration, uint32_t block)
{
    uint64_t z = (iteration << 16 ^ block) + PATTERN_STEP;

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint8_t pattern_byte(uint64_t start, uint64_t offset)
{
    uint64_t word = start + offset / sizeof(word) * PATTERN_STEP;
    uint8_t bytes[sizeof(word)];

    memcpy(bytes, &word, sizeof(word));
    return bytes[offset % sizeof(word)];
}

void pattern_fill(void *bytes, uint64_t length, uint64_t iteration, uint32_t block)
{
    uint8_t *at = bytes;
    uint64_t word = pattern_start(iteration, block);
    uint64_t offset = 0;

    for (; offset + sizeof(word) <= length; offset += sizeof(word), word += PATTERN_STEP)
        memcpy(at + offset, &word, sizeof(word));
    memcpy(at + offset, &word, length - offset);
}

static void fault_locate(const uint8_t *found, uint64_t word, uint64_t offset,
                         struct pattern_fault *fault)
{
    uint8_t expected[sizeof(word)];
    uint32_t i = 0;

    memcpy(expected, &word, sizeof(word));
    while (found[i] == expected[i])
        i++;
    fault->offset = offset + i;
    fault->expected = expected[i];
    fault->found = found[i];
}

bool pattern_check(const void *bytes, uint64_t length, uint64_t iteration, uint32_t block,
                   struct pattern_fault *fault)
{
    const uint8_t *at = bytes;
    uint64_t word = pattern_start(iteration, block);
    uint64_t offset = 0;

    for (; offset + sizeof(word) <= length; offset += sizeof(word), word += PATTERN_STEP)
        if (memcmp(at + offset, &word, sizeof(word)) != 0)
            goto wrong;
    if (memcmp(at + offset, &word, length - offset) == 0)
        return true;

wrong:
    *fault = (struct pattern_fault){.iteration = iteration, .block = block};
    fault_locate(at + offset, word, offset, fault);
    return false;
}
