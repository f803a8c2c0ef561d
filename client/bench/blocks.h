/* The memory of one case at one job: room for depth x batch blocks, registered with tesup. */
#ifndef TESUP_BENCH_BLOCKS_H
#define TESUP_BENCH_BLOCKS_H

#include "client/bench/options.h"
#include "client/bench/party.h"

struct blocks {
    uint8_t *bytes; /* NULL: memory of a GPU */
    uint64_t gpu;   /* its address; 0: host memory */
    uint64_t length;
    uint64_t block_bytes;
    uint32_t batch;
    enum bench_memory memory;
    tesup_region_t region;    /* 0: nothing is held */
    uint64_t verified_on_gpu; /* blocks so far that a kernel found right */
};

/* `access` as in tesup.h, `gpu` is the index of the GPU for memory of one. 0, or -1 with the
 * party's error set and nothing held. */
int blocks_create(struct blocks *blocks, struct party *party, const struct message_case *shape,
                  uint32_t access, uint32_t gpu);
/* Zeroed or already destroyed ones are fine. */
int blocks_destroy(struct blocks *blocks, struct party *party);

/* Place of block `block` of the batch in iteration slot `slot` of the round. */
uint64_t blocks_offset(const struct blocks *blocks, uint32_t slot, uint32_t block);
/* All bytes 0: pages are touched, and nothing is left of an earlier case. */
void blocks_clear(const struct blocks *blocks);
/* All blocks of a round of `slots` iterations from `first_iteration`. */
void blocks_fill(const struct blocks *blocks, uint64_t first_iteration, uint32_t slots);
bool blocks_check(struct blocks *blocks, uint64_t first_iteration, uint32_t slots,
                  struct pattern_fault *fault);
/* Damages one byte if `iteration` is in the round and `offset` in its first block. */
void blocks_corrupt(const struct blocks *blocks, uint64_t first_iteration, uint32_t slots,
                    uint64_t iteration, uint64_t offset);

#endif
