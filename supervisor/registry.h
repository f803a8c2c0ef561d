/* Names of segments -> who offers them.  A name belongs to one job at a time. */
#ifndef TESUP_SUPERVISOR_REGISTRY_H
#define TESUP_SUPERVISOR_REGISTRY_H

#include "shm/list.h"
#include "shm/proto.h"

#define REGISTRY_BUCKETS 256

struct registry {
    struct list bucket[REGISTRY_BUCKETS];
};

/* Embedded in its owner. */
struct registry_entry {
    struct list node;
    char name[PROTO_LABEL_MAX];
};

void registry_init(struct registry *registry);
/* entry->name is set by the caller. TS_OK or TS_ERR_EXISTS. */
int registry_add(struct registry *registry, struct registry_entry *entry);
void registry_remove(struct registry_entry *entry);
/* NULL when nobody offers `name`. */
struct registry_entry *registry_find(const struct registry *registry, const char *name);

#endif
