/* A table of objects behind (index, generation) handles.
 *
 * Handle = generation << 14 | index; generation 0 is never given out, so 0 is never valid.  Free
 * slots are reused in first-in first-out order and the generation goes up on each reuse: a stale
 * handle can only come alive again after 2^18 reuses of its slot, which needs at least 2^18 times
 * as many allocations as there are free slots.
 */
#ifndef TESUP_SHM_TABLE_H
#define TESUP_SHM_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define TABLE_INDEX_BITS 14u
#define TABLE_SLOTS_MAX  (1u << TABLE_INDEX_BITS)

struct table_slot {
    void *object; /* NULL when free */
    uint32_t generation;
    uint32_t next_free; /* index + 1; 0 ends the list */
};

struct table {
    struct table_slot *slots;
    uint32_t count, limit; /* slots made so far, slots allowed */
    uint32_t used;
    uint32_t free_first, free_last; /* index + 1 */
    uint32_t salt;                  /* where generations begin, less one */
};

void table_init(struct table *table, uint32_t limit);
/* Generations begin at a random place: a handle of an earlier life of the same table (a supervisor
 * that was restarted) names nothing here. */
void table_init_random(struct table *table, uint32_t limit);
void table_fini(struct table *table);

/* A handle for `object`, or 0 when the limit is reached or memory is out. */
uint32_t table_add(struct table *table, void *object);
/* Puts `object` at the very handle that another process gave out. TS_OK, TS_ERR_EXISTS,
 * TS_ERR_LIMIT, TS_ERR_NO_MEMORY. Do not mix with table_add on one table. */
int table_put(struct table *table, uint32_t handle, void *object);
/* TS_OK with *object, TS_ERR_GONE for an old generation, TS_ERR_NOT_FOUND for a handle that was
 * never given out. */
int table_get(const struct table *table, uint32_t handle, void **object);
/* What lies at the index of `handle`, of whatever generation; NULL when nothing does. */
void *table_peek(const struct table *table, uint32_t handle);
void table_remove(struct table *table, uint32_t handle);

static inline uint32_t table_index(uint32_t handle)
{
    return handle & (TABLE_SLOTS_MAX - 1);
}

/* Walks the used slots: start with *cursor = 0; NULL at the end. */
void *table_next(const struct table *table, uint32_t *cursor);

#endif
