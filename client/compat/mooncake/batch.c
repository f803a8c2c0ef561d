/* Batches: tasks behind ids that are never used twice, in no engine of this process. */
#include <stdlib.h>

#include "client/compat/mooncake/engine.h"

#define INDEX_BITS 20u
#define INDEX_MAX  ((1u << INDEX_BITS) - 1)

static _Atomic uint64_t serials;

struct batch *batch_find(const struct engine *engine, uint64_t id)
{
    const struct batch_table *table = &engine->batches;
    uint32_t index = (uint32_t)(id & INDEX_MAX);
    struct batch *batch = index < table->count ? table->batches[index] : NULL;

    return batch != NULL && batch->id == id ? batch : NULL;
}

int batch_grow(struct batch *batch, size_t count)
{
    size_t room = batch->room > 0 ? batch->room : 16;
    void *larger;

    if (batch->count + count <= batch->room)
        return 0;
    while (room < batch->count + count)
        room *= 2;
    larger = realloc(batch->tasks, room * sizeof(*batch->tasks));
    if (larger == NULL)
        return TRANSFER_ENGINE_MEMORY;
    batch->tasks = larger;
    batch->room = room;
    return 0;
}

static int table_grow(struct batch_table *table)
{
    uint32_t room = table->room > 0 ? 2 * table->room : 64;
    void *batches, *indexes;

    if (table->count < table->room)
        return 0;
    if (room > INDEX_MAX)
        return -1;
    batches = realloc(table->batches, room * sizeof(struct batch *));
    if (batches == NULL)
        return -1;
    table->batches = batches;
    indexes = realloc(table->free_indexes, room * sizeof(uint32_t));
    if (indexes == NULL)
        return -1;
    table->free_indexes = indexes;
    table->room = room;
    return 0;
}

static uint64_t batch_add(struct batch_table *table, struct batch *batch)
{
    uint64_t serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
    uint32_t index;

    if (table->free_count > 0)
        index = table->free_indexes[--table->free_count];
    else if (table_grow(table) == 0)
        index = table->count++;
    else
        return INVALID_BATCH;
    batch->id = serial << INDEX_BITS | index;
    table->batches[index] = batch;
    return batch->id;
}

static void batch_free(struct batch *batch)
{
    free(batch->tasks);
    free(batch);
}

void batches_fini(struct batch_table *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (table->batches[i] != NULL)
            batch_free(table->batches[i]);
    free(table->batches);
    free(table->free_indexes);
    *table = (struct batch_table){0};
}

batch_id_t allocateBatchID(transfer_engine_t handle, size_t batch_size)
{
    struct engine *engine;
    struct batch *batch;
    batch_id_t id = INVALID_BATCH;

    if (slot_enter(handle, __func__, &engine) != 0)
        return INVALID_BATCH;
    batch = calloc(1, sizeof(*batch));
    if (batch != NULL) {
        batch->size = batch_size;
        id = batch_add(&engine->batches, batch);
    }
    if (id == INVALID_BATCH) {
        free(batch);
        say(LOG_LEVEL_ERROR, __func__, "no room for one more batch beside %u; freeBatchID",
            engine->batches.count);
    }
    slot_leave(engine);
    return id;
}

static int batch_end(struct engine *engine, batch_id_t id, const char *call)
{
    struct batch_table *table = &engine->batches;
    struct batch *batch = batch_find(engine, id);

    if (batch == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "batch %#llx is none of this engine, or was freed before",
                      (unsigned long long)id);
    if (batch->open > 0)
        (void)engine_progress(engine);
    if (batch->open > 0)
        return refuse(TRANSFER_ENGINE_BATCH_BUSY, call,
                      "batch %#llx has %zu tasks in flight: poll getTransferStatus until they are "
                      "done",
                      (unsigned long long)id, batch->open);
    table->batches[id & INDEX_MAX] = NULL;
    table->free_indexes[table->free_count++] = (uint32_t)(id & INDEX_MAX);
    batch_free(batch);
    return 0;
}

int freeBatchID(transfer_engine_t handle, batch_id_t id)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code;
    code = batch_end(engine, id, __func__);
    slot_leave(engine);
    return code;
}

static int task_status(struct engine *engine, batch_id_t id, size_t index,
                       struct transfer_status *status, const char *call)
{
    const struct batch *batch = batch_find(engine, id);
    const struct task *task;

    if (batch == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "batch %#llx is none of this engine, or was freed", (unsigned long long)id);
    if (index >= batch->count || status == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "task %zu of a batch with %zu tasks, and a status at %p", index, batch->count,
                      (void *)status);
    task = &batch->tasks[index];
    if (task->pieces > 0 && engine_progress(engine) == 0)
        engine_idle(engine);
    if (batch_find(engine, id) != batch)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call, "batch %#llx was freed meanwhile",
                      (unsigned long long)id);
    task = &batch->tasks[index];
    if (task->pieces > 0)
        status->status = STATUS_WAITING;
    else
        status->status = task->failed ? STATUS_FAILED : STATUS_COMPLETED;
    status->transferred_bytes = task->bytes;
    return 0;
}

int getTransferStatus(transfer_engine_t handle, batch_id_t id, size_t index,
                      struct transfer_status *status)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code;
    code = task_status(engine, id, index, status, __func__);
    slot_leave(engine);
    return code;
}
