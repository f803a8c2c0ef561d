#include "supervisor/registry.h"

#include <string.h>

#include "shm/err.h"

/* FNV-1a. */
static unsigned registry_hash(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash % REGISTRY_BUCKETS;
}

void registry_init(struct registry *registry)
{
    for (unsigned i = 0; i < REGISTRY_BUCKETS; i++)
        list_init(&registry->bucket[i]);
}

struct registry_entry *registry_find(const struct registry *registry, const char *name)
{
    const struct list *bucket = &registry->bucket[registry_hash(name)];

    list_each (node, next, bucket) {
        struct registry_entry *entry = list_entry(node, struct registry_entry, node);

        if (strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

int registry_add(struct registry *registry, struct registry_entry *entry)
{
    if (registry_find(registry, entry->name) != NULL)
        return TS_ERR_EXISTS;
    list_append(&registry->bucket[registry_hash(entry->name)], &entry->node);
    return TS_OK;
}

void registry_remove(struct registry_entry *entry)
{
    list_remove(&entry->node);
}
