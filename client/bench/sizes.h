/* Lists of block sizes as people write them: "4K:64M" (doubling), "4K,1M", "1,4K:16K,3M". */
#ifndef TESUP_BENCH_SIZES_H
#define TESUP_BENCH_SIZES_H

#include <stddef.h>
#include <stdint.h>

#define SIZES_MAX       64u
#define SIZES_BLOCK_MAX (UINT64_C(1) << 30)

struct size_list {
    uint64_t size[SIZES_MAX];
    uint32_t count;
};

/* 0, or -1 with a sentence in `why`. */
int sizes_parse(const char *text, struct size_list *list, char *why, size_t why_size);
/* The shortest exact form: 4096 -> "4K". */
void sizes_format(uint64_t bytes, char *text, size_t text_size);

#endif
