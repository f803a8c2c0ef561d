/* The channel's segment as a whole: sizing, creating, mapping, and each side's view of the rings.
 */
#ifndef TESUP_SHM_CHANNEL_H
#define TESUP_SHM_CHANNEL_H

#include "shm/doorbell.h"
#include "shm/layout.h"
#include "shm/ring.h"

struct channel_shape {
    uint32_t slots;      /* power of two, 16 … LAYOUT_SLOTS_MAX */
    uint32_t notify_max; /* name + message */
    bool mailbox;        /* has an nrx ring of full size */
    uint64_t start;      /* first value of every counter */
};

/* Bytes of a notification ring for records of `notify_max`: at least four of them. */
uint64_t channel_notify_ring_size(uint32_t notify_max);

/* Creates a sealed memfd with a valid header. The fd, or -1 with errno. */
int channel_create(const struct channel_shape *shape);

/* A mapping of one side, checked against the file's size and this ABI. */
struct channel_map {
    struct channel_header *header; /* shared: never trust twice */
    uint64_t size;
    uint32_t slots; /* copies of the header's values, checked once */
    uint32_t notify_max;
    bool mailbox;
    struct ring_place sq, cq, ntx, nrx;
    struct journal_entry *journal;
};

/* Maps `fd` (kept by the caller). TS_OK, TS_ERR_PROTOCOL (not sealed, wrong size, impossible
 * offsets), TS_ERR_VERSION, TS_ERR_SYSTEM with errno. */
int channel_map(int fd, struct channel_map *map);
void channel_unmap(struct channel_map *map);

static inline void *channel_bytes(const struct channel_map *map, const struct ring_place *place)
{
    return (uint8_t *)map->header + place->offset;
}

#endif
