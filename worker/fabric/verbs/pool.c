#include "worker/fabric/verbs/pool.h"

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/err.h"

int verbs_pool_init(struct verbs_pool *pool, struct ibv_pd *pd, uint32_t limit)
{
    *pool = (struct verbs_pool){.pd = pd, .limit = limit};
    pool->chunks = calloc(limit / VERBS_POOL_CHUNK, sizeof(struct verbs_chunk *));
    return pool->chunks != NULL ? TS_OK : TS_ERR_NO_MEMORY;
}

static void chunk_free(struct verbs_chunk *chunk)
{
    if (chunk->mr != NULL)
        ibv_dereg_mr(chunk->mr);
    if (chunk->memory != NULL)
        munmap(chunk->memory, VERBS_POOL_CHUNK * VERBS_BUFFER_SIZE);
    free(chunk);
}

void verbs_pool_fini(struct verbs_pool *pool)
{
    for (uint32_t i = 0; i < pool->total / VERBS_POOL_CHUNK; i++)
        chunk_free(pool->chunks[i]);
    free(pool->chunks);
    *pool = (struct verbs_pool){.pd = NULL};
}

static struct verbs_chunk *chunk_new(struct ibv_pd *pd)
{
    const size_t size = VERBS_POOL_CHUNK * VERBS_BUFFER_SIZE;
    struct verbs_chunk *chunk = calloc(1, sizeof(*chunk));

    if (chunk == NULL)
        return NULL;
    chunk->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk->memory == MAP_FAILED) {
        free(chunk);
        return NULL;
    }
    chunk->mr = ibv_reg_mr(pd, chunk->memory, size, IBV_ACCESS_LOCAL_WRITE);
    if (chunk->mr != NULL)
        return chunk;
    chunk_free(chunk);
    return NULL;
}

int verbs_pool_grow(struct verbs_pool *pool)
{
    struct verbs_chunk *chunk;

    if (pool->total + VERBS_POOL_CHUNK > pool->limit)
        return TS_ERR_LIMIT;
    chunk = chunk_new(pool->pd);
    if (chunk == NULL)
        return TS_ERR_NO_MEMORY;
    pool->chunks[pool->total / VERBS_POOL_CHUNK] = chunk;
    for (uint32_t i = 0; i < VERBS_POOL_CHUNK; i++) {
        chunk->buffer[i] =
            (struct verbs_buffer){.bytes = (uint8_t *)chunk->memory + (size_t)i * VERBS_BUFFER_SIZE,
                                  .lkey = chunk->mr->lkey,
                                  .index = pool->total + i};
        verbs_pool_give(pool, &chunk->buffer[i]);
    }
    pool->total += VERBS_POOL_CHUNK;
    return TS_OK;
}

struct verbs_buffer *verbs_pool_take(struct verbs_pool *pool)
{
    struct verbs_buffer *buffer;

    if (pool->free == NULL && verbs_pool_grow(pool) != TS_OK)
        return NULL;
    buffer = pool->free;
    pool->free = buffer->next;
    pool->free_count--;
    return buffer;
}

void verbs_pool_give(struct verbs_pool *pool, struct verbs_buffer *buffer)
{
    buffer->owner = VERBS_POOL_OWNERLESS;
    buffer->next = pool->free;
    pool->free = buffer;
    pool->free_count++;
}

struct verbs_buffer *verbs_pool_at(const struct verbs_pool *pool, uint32_t index)
{
    if (index >= pool->total)
        return NULL;
    return &pool->chunks[index / VERBS_POOL_CHUNK]->buffer[index % VERBS_POOL_CHUNK];
}
