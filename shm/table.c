#include "shm/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "shm/err.h"

#define GENERATION_MAX ((1u << (32 - TABLE_INDEX_BITS)) - 1)

void table_init(struct table *table, uint32_t limit)
{
    *table = (struct table){.limit = limit < TABLE_SLOTS_MAX ? limit : TABLE_SLOTS_MAX};
}

void table_init_random(struct table *table, uint32_t limit)
{
    uint32_t salt = 0;

    table_init(table, limit);
    if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) == (ssize_t)sizeof(salt))
        table->salt = salt % GENERATION_MAX;
}

void table_fini(struct table *table)
{
    free(table->slots);
    *table = (struct table){.limit = 0};
}

static int table_grow(struct table *table, uint32_t count)
{
    uint32_t want = table->count > 0 ? table->count * 2 : 16;
    struct table_slot *slots;

    if (count > table->limit)
        return TS_ERR_LIMIT;
    if (want < count)
        want = count;
    if (want > table->limit)
        want = table->limit;
    slots = realloc(table->slots, want * sizeof(*slots));
    if (slots == NULL)
        return TS_ERR_NO_MEMORY;
    table->slots = slots;
    memset(slots + table->count, 0, (want - table->count) * sizeof(*slots));
    for (uint32_t i = table->count; i < want; i++) {
        if (table->free_last != 0)
            slots[table->free_last - 1].next_free = i + 1;
        else
            table->free_first = i + 1;
        table->free_last = i + 1;
    }
    table->count = want;
    return TS_OK;
}

uint32_t table_add(struct table *table, void *object)
{
    struct table_slot *slot;
    uint32_t index;

    if (table->free_first == 0 && table_grow(table, table->count + 1) != TS_OK)
        return 0;
    index = table->free_first - 1;
    slot = &table->slots[index];
    table->free_first = slot->next_free;
    if (table->free_first == 0)
        table->free_last = 0;
    slot->next_free = 0;
    if (slot->generation == 0)
        slot->generation = table->salt;
    slot->generation = slot->generation == GENERATION_MAX ? 1 : slot->generation + 1;
    slot->object = object;
    table->used++;
    return slot->generation << TABLE_INDEX_BITS | index;
}

int table_put(struct table *table, uint32_t handle, void *object)
{
    uint32_t index = table_index(handle);
    int rc;

    if (handle >> TABLE_INDEX_BITS == 0)
        return TS_ERR_INVALID;
    while (index >= table->count) {
        rc = table_grow(table, index + 1);
        if (rc != TS_OK)
            return rc;
    }
    if (table->slots[index].object != NULL)
        return TS_ERR_EXISTS;
    table->slots[index].object = object;
    table->slots[index].generation = handle >> TABLE_INDEX_BITS;
    table->used++;
    return TS_OK;
}

int table_get(const struct table *table, uint32_t handle, void **object)
{
    uint32_t index = table_index(handle);
    uint32_t generation = handle >> TABLE_INDEX_BITS;
    const struct table_slot *slot;

    if (generation == 0 || index >= table->count)
        return TS_ERR_NOT_FOUND;
    slot = &table->slots[index];
    if (slot->object != NULL && slot->generation == generation) {
        *object = slot->object;
        return TS_OK;
    }
    return generation <= slot->generation ? TS_ERR_GONE : TS_ERR_NOT_FOUND;
}

void *table_peek(const struct table *table, uint32_t handle)
{
    uint32_t index = table_index(handle);

    return index < table->count ? table->slots[index].object : NULL;
}

void table_remove(struct table *table, uint32_t handle)
{
    uint32_t index = table_index(handle);
    struct table_slot *slot;

    if (index >= table->count)
        return;
    slot = &table->slots[index];
    if (slot->object == NULL || slot->generation != handle >> TABLE_INDEX_BITS)
        return;
    slot->object = NULL;
    slot->next_free = 0;
    if (table->free_last != 0)
        table->slots[table->free_last - 1].next_free = index + 1;
    else
        table->free_first = index + 1;
    table->free_last = index + 1;
    table->used--;
}

void *table_next(const struct table *table, uint32_t *cursor)
{
    while (*cursor < table->count) {
        void *object = table->slots[(*cursor)++].object;

        if (object != NULL)
            return object;
    }
    return NULL;
}
