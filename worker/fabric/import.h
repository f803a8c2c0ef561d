/* The peer's regions, for links whose initiator reaches them itself (local: a mapping, verbs:
 * keys).
 *
 *   transfer -> imports_post -> known: used at once
 *                               asked for already: waits behind that question
 *                               else FRAME_EXPORT (open, region or address, import handle)
 *   peer's answer -> imports_settle: the asker goes on or fails; who waited behind it starts over,
 *                    since the answer may be about the asker's range or rights only
 *
 * Questions by address wait for each other: nobody knows which of them mean the same region, and
 * each answer costs both sides a record of it.  The owner's handle, range and rights come with the
 * answer; FRAME_REVOKE takes it back.
 */
#ifndef TESUP_WORKER_FABRIC_IMPORT_H
#define TESUP_WORKER_FABRIC_IMPORT_H

#include "shm/table.h"
#include "worker/fabric/fabric.h"

struct import {
    uint32_t handle; /* in imports.table: names it in frames */
    bool ready;      /* the fields below `region` are known */
    bool revoking;   /* nothing new may use it */
    bool by_address; /* how it was asked for */
    uint32_t open;   /* the peer's handle of the segment */
    uint32_t region; /* the owner's handle */
    uint32_t access;
    uint64_t base; /* address in the owner's process; 0: none */
    uint64_t length;
    struct transfer *asker; /* NULL: it was cancelled since */
    struct list waiting;    /* struct transfer.waiting, the asker too */
};

struct import_ops {
    size_t size; /* of the fabric's own struct, which begins with struct import */
    /* Range and rights are checked. */
    void (*use)(struct link *link, struct import *import, struct transfer *transfer,
                uint64_t offset);
    /* The owner said no. */
    void (*refused)(struct link *link, struct transfer *transfer, int status);
    /* Releases what the fabric put into its struct. */
    void (*release)(struct import *import);
};

struct imports {
    struct link *link;
    const struct import_ops *ops;
    struct table table;
    struct import *recent; /* found last: most transfers go where the last one went */
};

void imports_init(struct imports *imports, struct link *link, const struct import_ops *ops);
/* Transfers that wait are not told. */
void imports_fini(struct imports *imports);

void imports_post(struct imports *imports, struct transfer *transfer);
/* False: it does not wait here. */
bool imports_unwait(struct imports *imports, struct transfer *transfer);

/* The one that a frame names. TS_OK with NULL when it is gone: a late frame. TS_ERR_PROTOCOL. */
int imports_get(struct imports *imports, uint32_t handle, struct import **import);
/* The answer has come and its fields are filled in; or there is none, and the import is freed. */
void imports_settle(struct imports *imports, struct import *import, int status);
void imports_free(struct imports *imports, struct import *import);

#endif
