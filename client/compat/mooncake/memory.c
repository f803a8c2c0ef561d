/* Registered memory: a table sorted by base, and the functions that fill it. */
#include <stdlib.h>
#include <string.h>

#include "client/compat/mooncake/engine.h"
#include "client/compat/mooncake/location.h"
#include "client/compat/mooncake/probe.h"

#define ACCESS_ALL (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

/* The first entry behind `address`. */
static size_t memory_upper(const struct memory_table *table, uint64_t address)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (table->entries[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct memory_entry *memory_find(const struct memory_table *table, uint64_t address)
{
    size_t upper = memory_upper(table, address);
    struct memory_entry *entry = upper > 0 ? &table->entries[upper - 1] : NULL;

    return entry != NULL && address - entry->base < entry->length ? entry : NULL;
}

void memory_fini(struct memory_table *table)
{
    free(table->entries);
    *table = (struct memory_table){0};
}

struct range *memory_ranges(const struct memory_table *table, size_t *count)
{
    struct range *ranges = calloc(table->count + 1, sizeof(*ranges));

    *count = 0;
    for (size_t i = 0; ranges != NULL && i < table->count && *count < CARD_RANGES_MAX; i++) {
        const struct memory_entry *entry = &table->entries[i];

        if (entry->ready && entry->access != TESUP_ACCESS_LOCAL)
            ranges[(*count)++] = (struct range){entry->base, entry->length, entry->access};
    }
    return ranges;
}

static int memory_insert(struct memory_table *table, const struct memory_entry *entry,
                         const char *call)
{
    size_t at = memory_upper(table, entry->base);
    const struct memory_entry *before = at > 0 ? &table->entries[at - 1] : NULL;
    const struct memory_entry *after = at < table->count ? &table->entries[at] : NULL;

    if ((before != NULL && entry->base - before->base < before->length) ||
        (after != NULL && after->base - entry->base < entry->length))
        return refuse(TRANSFER_ENGINE_OVERLAPPED, call,
                      "%#llx + %llu bytes overlap memory that is registered already",
                      (unsigned long long)entry->base, (unsigned long long)entry->length);
    if (table->entries == NULL || table->count == table->room) {
        size_t room = table->room > 0 ? 2 * table->room : 64;
        void *larger = realloc(table->entries, room * sizeof(*table->entries));

        if (larger == NULL)
            return refuse(TRANSFER_ENGINE_MEMORY, call, "no memory to keep a region");
        table->entries = larger;
        table->room = room;
    }
    memmove(&table->entries[at + 1], &table->entries[at],
            (table->count - at) * sizeof(*table->entries));
    table->entries[at] = *entry;
    table->count++;
    return 0;
}

static void memory_remove(struct memory_table *table, const struct memory_entry *entry)
{
    size_t at = (size_t)(entry - table->entries);

    table->count--;
    memmove(&table->entries[at], &table->entries[at + 1],
            (table->count - at) * sizeof(*table->entries));
}

static int range_check(const void *address, size_t length, const char *location, const char *call)
{
    char text[256];
    int code;

    if (address == NULL || length == 0 || length > INT64_MAX ||
        length > UINT64_MAX - (uint64_t)(uintptr_t)address)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "%p + %zu bytes is no range of memory", address, length);
    code = location_check(location, text, sizeof(text));
    return code == 0 ? 0 : refuse(code, call, "%s", text);
}

/* Looks at the memory and decides what peers may do. */
static void entry_probe(struct memory_entry *entry, const char *call)
{
    switch (probe_memory(entry->base, entry->length)) {
    case PROBE_UNMAPPED:
        entry->gpu = true; /* else it is nobody's */
        break;
    case PROBE_READ_ONLY:
        say(LOG_LEVEL_WARNING, call,
            "%#llx is read-only memory: it is registered to be read; what is written to it fails",
            (unsigned long long)entry->base);
        entry->read_only = true;
        entry->access &= ~TESUP_ACCESS_REMOTE_WRITE;
        break;
    case PROBE_PLAIN:
        break;
    }
}

/* Without the lock. */
static int entry_register(struct engine *engine, struct memory_entry *entry)
{
    int rc;

    slot_release(engine);
    rc = entry->gpu ? tesup_mem_register_gpu(engine->session, (void *)(uintptr_t)entry->base,
                                             entry->length, entry->access, &entry->region)
                    : tesup_mem_register(engine->session, (void *)(uintptr_t)entry->base,
                                         entry->length, entry->access, &entry->region);
    slot_retake(engine);
    return rc;
}

static int entry_refuse(const struct memory_entry *entry, int rc, const char *call)
{
    if (entry->gpu && !entry->gpu_said)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "%#llx + %llu bytes are not all memory of this process, and of no GPU: %s",
                      (unsigned long long)entry->base, (unsigned long long)entry->length,
                      tesup_last_error());
    return refuse(code_of_tesup(rc), call, "%s", tesup_last_error());
}

/* The lock is let go meanwhile: the table keeps the place. */
static int memory_add(struct engine *engine, struct memory_entry entry, const char *call)
{
    struct memory_entry *kept;
    int code = memory_insert(&engine->memory, &entry, call);
    int rc;

    if (code != 0)
        return code;
    rc = entry_register(engine, &entry);
    if (rc == TESUP_ERR_NO_DAEMON && daemon_restart(engine, call) == TESUP_OK)
        rc = entry_register(engine, &entry);
    kept = memory_find(&engine->memory, entry.base);
    entry.ready = true;
    if (rc == TESUP_OK) {
        *kept = entry;
        return 0;
    }
    memory_remove(&engine->memory, kept);
    return entry_refuse(&entry, rc, call);
}

static int memory_register(struct engine *engine, void *address, size_t length,
                           const char *location, bool remote, const char *call)
{
    struct memory_entry entry = {.base = (uint64_t)(uintptr_t)address,
                                 .length = length,
                                 .access = remote ? ACCESS_ALL : TESUP_ACCESS_LOCAL};
    int code = range_check(address, length, location, call);

    if (code != 0)
        return code;
    entry.gpu = entry.gpu_said = location_is_gpu(location);
    if (!entry.gpu)
        entry_probe(&entry, call);
    return memory_add(engine, entry, call);
}

/* Waits, without the lock, until no byte can be read or land any more. */
static int memory_unregister(struct engine *engine, const void *address, const char *call)
{
    uint64_t base = (uint64_t)(uintptr_t)address;
    struct memory_entry *entry = memory_find(&engine->memory, base);
    tesup_region_t region;
    int rc, code = 0;

    if (entry == NULL || entry->base != base || !entry->ready)
        return refuse(TRANSFER_ENGINE_NOT_REGISTERED, call,
                      "no memory is registered with the base %p", address);
    entry->ready = false;
    region = entry->region;
    slot_release(engine);
    rc = tesup_mem_unregister(engine->session, region);
    if (rc != TESUP_OK && rc != TESUP_ERR_GONE)
        code = refuse(code_of_tesup(rc), call, "%s", tesup_last_error());
    slot_retake(engine);
    entry = memory_find(&engine->memory, base);
    if (code == 0)
        memory_remove(&engine->memory, entry);
    else
        entry->ready = true; /* to be tried again */
    return code;
}

int registerLocalMemory(transfer_engine_t handle, void *address, size_t length,
                        const char *location, int remote_accessible)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    code = memory_register(engine, address, length, location, remote_accessible != 0, __func__);
    slot_leave(engine);
    return code_negative(code);
}

int unregisterLocalMemory(transfer_engine_t handle, void *address)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    code = memory_unregister(engine, address, __func__);
    slot_leave(engine);
    return code_negative(code);
}

/* All or none. */
int registerLocalMemoryBatch(transfer_engine_t handle, buffer_entry_t *list, size_t count,
                             const char *location)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);
    size_t done = 0;

    if (code != 0)
        return code_negative(code);
    if (list == NULL && count > 0)
        code = refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, __func__, "the list is NULL");
    for (; code == 0 && done < count; done++)
        code =
            memory_register(engine, list[done].addr, list[done].length, location, true, __func__);
    if (code != 0 && done > 0) /* the last of them is the one that failed */
        for (size_t i = 0; i < done - 1; i++)
            memory_unregister(engine, list[i].addr, __func__);
    slot_leave(engine);
    return code_negative(code);
}

/* All that can be; the first failure is told. */
int unregisterLocalMemoryBatch(transfer_engine_t handle, void **addresses, size_t count)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    if (addresses == NULL && count > 0)
        code = refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, __func__, "the list is NULL");
    for (size_t i = 0; addresses != NULL && i < count; i++) {
        int one = memory_unregister(engine, addresses[i], __func__);

        if (code == 0)
            code = one;
    }
    slot_leave(engine);
    return code_negative(code);
}
