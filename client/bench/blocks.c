#include "client/bench/blocks.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "client/bench/gpu.h"

static int private_create(struct blocks *blocks, struct party *party, uint32_t access)
{
    void *bytes =
        mmap(NULL, blocks->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (bytes == MAP_FAILED)
        return party_fail(party, "no private memory of %llu bytes: %s",
                          (unsigned long long)blocks->length, strerror(errno));
    int code = tesup_mem_register(party->session, bytes, blocks->length, access, &blocks->region);
    if (code != TESUP_OK) {
        munmap(bytes, blocks->length);
        return party_fail_code(party, code, "cannot register private memory");
    }
    blocks->bytes = bytes;
    return 0;
}

static int shared_create(struct blocks *blocks, struct party *party, uint32_t access)
{
    void *bytes;
    int code = tesup_mem_alloc(party->session, blocks->length, access, &bytes, &blocks->region);

    if (code != TESUP_OK)
        return party_fail_code(party, code, "cannot allocate shared memory");
    blocks->bytes = bytes;
    return 0;
}

static int device_create(struct blocks *blocks, struct party *party, uint32_t access, uint32_t gpu)
{
    int code;

    if (gpu_create(party, gpu, blocks->length, &blocks->gpu))
        return -1;
    code = tesup_mem_register_gpu(party->session, (void *)(uintptr_t)blocks->gpu, blocks->length,
                                  access, &blocks->region);
    if (code == TESUP_OK)
        return 0;
    gpu_destroy();
    return party_fail_code(party, code, "cannot register GPU memory");
}

int blocks_create(struct blocks *blocks, struct party *party, const struct message_case *shape,
                  uint32_t access, uint32_t gpu)
{
    *blocks = (struct blocks){
        .length = shape->block_bytes * shape->batch * shape->depth,
        .block_bytes = shape->block_bytes,
        .batch = shape->batch,
        .memory = (enum bench_memory)shape->memory,
    };
    if (blocks->memory == BENCH_MEMORY_PRIVATE)
        return private_create(blocks, party, access);
    if (blocks->memory == BENCH_MEMORY_GPU)
        return device_create(blocks, party, access, gpu);
    return shared_create(blocks, party, access);
}

int blocks_destroy(struct blocks *blocks, struct party *party)
{
    int code;

    if (blocks->region == 0)
        return 0;
    if (blocks->memory == BENCH_MEMORY_PRIVATE) {
        code = tesup_mem_unregister(party->session, blocks->region);
        if (code == TESUP_OK)
            munmap(blocks->bytes, blocks->length);
    } else if (blocks->memory == BENCH_MEMORY_GPU) {
        code = tesup_mem_unregister(party->session, blocks->region);
        if (code == TESUP_OK)
            gpu_destroy();
    } else {
        code = tesup_mem_free(party->session, blocks->region);
    }
    blocks->region = 0;
    blocks->bytes = NULL;
    return code == TESUP_OK ? 0 : party_fail_code(party, code, "cannot free memory");
}

uint64_t blocks_offset(const struct blocks *blocks, uint32_t slot, uint32_t block)
{
    return ((uint64_t)slot * blocks->batch + block) * blocks->block_bytes;
}

/* The same block as `blocks` has it on the GPU. */
static struct kernel_block device_block(const struct blocks *blocks, uint64_t first_iteration,
                                        uint32_t slot, uint32_t block)
{
    return (struct kernel_block){
        .at = blocks->gpu + blocks_offset(blocks, slot, block),
        .length = blocks->block_bytes,
        .start = pattern_start(first_iteration + slot, block),
    };
}

void blocks_clear(const struct blocks *blocks)
{
    if (blocks->gpu != 0)
        gpu_clear(blocks->gpu, blocks->length);
    else
        memset(blocks->bytes, 0, blocks->length);
}

static void block_fill(const struct blocks *blocks, uint64_t first_iteration, uint32_t slot,
                       uint32_t block)
{
    struct kernel_block there;

    if (blocks->gpu == 0) {
        pattern_fill(blocks->bytes + blocks_offset(blocks, slot, block), blocks->block_bytes,
                     first_iteration + slot, block);
        return;
    }
    there = device_block(blocks, first_iteration, slot, block);
    gpu_fill(&there);
}

void blocks_fill(const struct blocks *blocks, uint64_t first_iteration, uint32_t slots)
{
    for (uint32_t slot = 0; slot < slots; slot++)
        for (uint32_t block = 0; block < blocks->batch; block++)
            block_fill(blocks, first_iteration, slot, block);
}

static bool block_check(struct blocks *blocks, uint64_t first_iteration, uint32_t slot,
                        uint32_t block, struct pattern_fault *fault)
{
    struct kernel_block there;

    if (blocks->gpu == 0)
        return pattern_check(blocks->bytes + blocks_offset(blocks, slot, block),
                             blocks->block_bytes, first_iteration + slot, block, fault);
    there = device_block(blocks, first_iteration, slot, block);
    *fault = (struct pattern_fault){.iteration = first_iteration + slot, .block = block};
    if (!gpu_check(&there, fault))
        return false;
    blocks->verified_on_gpu++;
    return true;
}

bool blocks_check(struct blocks *blocks, uint64_t first_iteration, uint32_t slots,
                  struct pattern_fault *fault)
{
    for (uint32_t slot = 0; slot < slots; slot++)
        for (uint32_t block = 0; block < blocks->batch; block++)
            if (!block_check(blocks, first_iteration, slot, block, fault))
                return false;
    return true;
}

void blocks_corrupt(const struct blocks *blocks, uint64_t first_iteration, uint32_t slots,
                    uint64_t iteration, uint64_t offset)
{
    if (iteration < first_iteration || iteration - first_iteration >= slots ||
        offset >= blocks->block_bytes)
        return;
    offset += blocks_offset(blocks, (uint32_t)(iteration - first_iteration), 0);
    if (blocks->gpu != 0)
        gpu_flip(blocks->gpu + offset);
    else
        blocks->bytes[offset] ^= 1;
}
