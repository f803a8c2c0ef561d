/* Pinned buffers of one size, made a chunk at a time when they are first needed.
 *
 * 8192 receive and 4096 send buffers of 4 KiB are 48 MiB: what a worker pins for notifications at
 * most, whatever the number of endpoints (docs/rdma.md has the arithmetic).
 */
#ifndef TESUP_WORKER_FABRIC_VERBS_POOL_H
#define TESUP_WORKER_FABRIC_VERBS_POOL_H

#include <stddef.h>
#include <stdint.h>

#define VERBS_BUFFER_SIZE    4096u
#define VERBS_POOL_CHUNK     64u
#define VERBS_RECEIVE_MAX    8192u
#define VERBS_SEND_MAX       4096u
#define VERBS_POOL_OWNERLESS UINT32_MAX

struct ibv_mr;
struct ibv_pd;

struct verbs_buffer {
    uint8_t *bytes;
    uint32_t lkey;
    uint32_t index;
    uint32_t owner;            /* slot of the QP whose receive queue has it */
    uint32_t generation;       /* goes up when it is taken from a QP that is gone */
    struct verbs_buffer *next; /* in the free list */
};

struct verbs_chunk {
    void *memory;
    struct ibv_mr *mr;
    struct verbs_buffer buffer[VERBS_POOL_CHUNK];
};

struct verbs_pool {
    struct ibv_pd *pd;
    struct verbs_chunk **chunks; /* room for `limit` buffers */
    uint32_t total, limit;
    struct verbs_buffer *free;
    uint32_t free_count;
};

int verbs_pool_init(struct verbs_pool *pool, struct ibv_pd *pd, uint32_t limit);
void verbs_pool_fini(struct verbs_pool *pool);
/* Makes the pool one chunk larger. TS_OK, TS_ERR_LIMIT, or TS_ERR_NO_MEMORY with errno. */
int verbs_pool_grow(struct verbs_pool *pool);
/* A free buffer; grows the pool. NULL at the limit or without memory. */
struct verbs_buffer *verbs_pool_take(struct verbs_pool *pool);
void verbs_pool_give(struct verbs_pool *pool, struct verbs_buffer *buffer);
/* NULL for an index that was never made. */
struct verbs_buffer *verbs_pool_at(const struct verbs_pool *pool, uint32_t index);

#endif
