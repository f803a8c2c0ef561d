#include "worker/fabric/import.h"

#include <stdlib.h>

#include "shm/err.h"
#include "worker/region.h"

void imports_init(struct imports *imports, struct link *link, const struct import_ops *ops)
{
    *imports = (struct imports){.link = link, .ops = ops};
    table_init(&imports->table, TABLE_SLOTS_MAX);
}

void imports_free(struct imports *imports, struct import *import)
{
    if (imports->recent == import)
        imports->recent = NULL;
    table_remove(&imports->table, import->handle);
    imports->ops->release(import);
    free(import);
}

void imports_fini(struct imports *imports)
{
    struct import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&imports->table, &cursor)) != NULL) {
        while (!list_empty(&import->waiting))
            list_remove(import->waiting.next);
        imports_free(imports, import);
    }
    table_fini(&imports->table);
}

static bool import_covers(const struct import *import, uint64_t offset, uint64_t length)
{
    return length <= import->length && offset <= import->length - length;
}

static bool import_matches(const struct import *import, const struct transfer *transfer)
{
    if (!import->ready || import->revoking || import->open != transfer->open)
        return false;
    if (!transfer->by_address)
        return import->region == transfer->remote_region;
    return import->base != 0 && transfer->remote_offset >= import->base &&
           import_covers(import, transfer->remote_offset - import->base, transfer->length);
}

static struct import *import_find(struct imports *imports, const struct transfer *transfer)
{
    struct import *import = imports->recent;
    uint32_t cursor = 0;

    if (import != NULL && import_matches(import, transfer))
        return import;
    while ((import = table_next(&imports->table, &cursor)) != NULL)
        if (import_matches(import, transfer))
            break;
    imports->recent = import;
    return import;
}

/* A question that is on its way already, whose answer may be this transfer's, too. */
static struct import *import_asked(struct imports *imports, const struct transfer *transfer)
{
    struct import *import;
    uint32_t cursor = 0;

    while ((import = table_next(&imports->table, &cursor)) != NULL)
        if (!import->ready && import->open == transfer->open &&
            import->by_address == transfer->by_address &&
            (import->by_address || import->region == transfer->remote_region))
            return import;
    return NULL;
}

/* Range and rights are the owner's to set; they came with the answer. */
static void import_use(struct imports *imports, struct import *import, struct transfer *transfer)
{
    uint32_t need = transfer->read ? REGION_ACCESS_READ : REGION_ACCESS_WRITE;
    uint64_t offset = transfer->remote_offset - (transfer->by_address ? import->base : 0);

    if ((import->access & need) == 0)
        transfer_on_done(transfer, TS_ERR_DENIED, 0);
    else if (!import_covers(import, offset, transfer->length))
        transfer_on_done(transfer, TS_ERR_INVALID, 0);
    else
        imports->ops->use(imports->link, import, transfer, offset);
}

static int import_ask(struct imports *imports, struct transfer *transfer)
{
    struct import *import = calloc(1, imports->ops->size);
    struct frame frame = {.type = FRAME_EXPORT,
                          .flags = transfer->by_address ? FRAME_FLAG_ADDR : 0,
                          .open = transfer->open,
                          .region = transfer->remote_region,
                          .offset = transfer->remote_offset,
                          .value = transfer->length};

    if (import == NULL)
        return TS_ERR_NO_MEMORY;
    import->by_address = transfer->by_address;
    import->open = transfer->open;
    import->region = transfer->by_address ? 0 : transfer->remote_region;
    import->asker = transfer;
    list_init(&import->waiting);
    import->handle = table_add(&imports->table, import);
    if (import->handle == 0) {
        free(import);
        return TS_ERR_NO_MEMORY;
    }
    frame.request = import->handle;
    if (imports->link->ops->send(imports->link, &frame, NULL, 0, NULL, 0) != TS_OK) {
        imports_free(imports, import);
        return TS_ERR_NO_MEMORY;
    }
    list_append(&import->waiting, &transfer->waiting);
    return TS_OK;
}

void imports_post(struct imports *imports, struct transfer *transfer)
{
    struct import *import = import_find(imports, transfer);

    if (import != NULL) {
        import_use(imports, import, transfer);
        return;
    }
    import = import_asked(imports, transfer);
    if (import != NULL)
        list_append(&import->waiting, &transfer->waiting);
    else if (import_ask(imports, transfer) != TS_OK)
        transfer_on_done(transfer, TS_ERR_NO_MEMORY, 0);
}

bool imports_unwait(struct imports *imports, struct transfer *transfer)
{
    struct import *import;
    uint32_t cursor = 0;

    if (list_empty(&transfer->waiting))
        return false;
    list_remove(&transfer->waiting);
    while ((import = table_next(&imports->table, &cursor)) != NULL)
        if (import->asker == transfer)
            import->asker = NULL;
    return true;
}

int imports_get(struct imports *imports, uint32_t handle, struct import **import)
{
    void *object = NULL;
    int rc = table_get(&imports->table, handle, &object);

    *import = object;
    if (rc == TS_ERR_GONE)
        return TS_OK; /* nobody waits any more */
    return rc == TS_OK ? TS_OK : TS_ERR_PROTOCOL;
}

/* An answer about the region, not about the piece of it that was asked for. */
static bool answer_is_for_all(bool by_address, int status)
{
    return !by_address && status != TS_ERR_INVALID && status != TS_ERR_DENIED;
}

/* Who waited behind a question by address knows one thing more now, this import.  Where that does
 * not help, one of them asks next and the others wait behind it: were each to search all imports
 * again for itself, a request over thousands of regions would take seconds. */
static void import_start_over(struct imports *imports, uint32_t answered, uint32_t *question,
                              struct transfer *transfer)
{
    const struct transfer asked = *transfer; /* it may end */
    struct import *import = NULL;

    if (imports_get(imports, answered, &import) == TS_OK && import != NULL &&
        import_matches(import, transfer)) {
        import_use(imports, import, transfer);
        return;
    }
    if (imports_get(imports, *question, &import) == TS_OK && import != NULL && !import->ready &&
        import->open == transfer->open && import->by_address && transfer->by_address) {
        list_append(&import->waiting, &transfer->waiting);
        return;
    }
    imports_post(imports, transfer);
    import = import_asked(imports, &asked);
    *question = import != NULL ? import->handle : 0;
}

void imports_settle(struct imports *imports, struct import *import, int status)
{
    struct transfer *asker = import->asker;
    bool for_all = answer_is_for_all(import->by_address, status);
    uint32_t answered = import->handle, question = 0;
    struct list waiting;

    list_init(&waiting);
    while (!list_empty(&import->waiting)) {
        struct list *node = import->waiting.next;

        list_remove(node);
        list_append(&waiting, node);
    }
    import->asker = NULL;
    if (status != TS_OK)
        imports_free(imports, import);
    while (!list_empty(&waiting)) { /* an end may cancel others of them */
        struct transfer *transfer = list_entry(waiting.next, struct transfer, waiting);

        list_remove(&transfer->waiting);
        if (status != TS_OK && (transfer == asker || for_all))
            imports->ops->refused(imports->link, transfer, status);
        else if (status == TS_OK && transfer == asker)
            import_use(imports, import, transfer);
        else
            import_start_over(imports, answered, &question, transfer);
    }
}
