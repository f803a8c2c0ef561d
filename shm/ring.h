/* SPSC rings over shared memory that the other side may forge.
 *
 * Each side owns a private struct with the truth about its own counter; the shared word is only an
 * announcement.  The other side's counter is read with acquire, cached, and refused when it is
 * impossible: more than `size` ahead, or behind what it said before.  A refusal is TS_ERR_PROTOCOL
 * and the caller ends the session.
 *
 * Counters run free over all of uint64_t; unsigned subtraction makes wrap-around harmless.
 *   R0  producer: publish tail (release)   pairs with R1  consumer: observe tail (acquire)
 *   R2  consumer: publish head (release)   pairs with R3  producer: observe head (acquire)
 */
#ifndef TESUP_SHM_RING_H
#define TESUP_SHM_RING_H

#include <string.h>

#include "shm/atomics.h"
#include "shm/err.h"
#include "shm/layout.h"

struct ring_producer {
    struct ring_shared *words;
    uint8_t *bytes;
    uint64_t size;      /* entries or bytes; a power of two */
    uint64_t tail;      /* ours: next position to write */
    uint64_t published; /* ours: what the consumer may see */
    uint64_t head;      /* theirs, as last observed */
};

struct ring_consumer {
    struct ring_shared *words;
    const uint8_t *bytes;
    uint64_t size;
    uint64_t head;      /* ours: next position to read */
    uint64_t published; /* ours: what the producer may reuse */
    uint64_t tail;      /* theirs, as last observed */
};

void ring_producer_init(struct ring_producer *ring, struct ring_shared *words, void *bytes,
                        uint64_t size, uint64_t start);
void ring_consumer_init(struct ring_consumer *ring, struct ring_shared *words, const void *bytes,
                        uint64_t size, uint64_t start);

/* Room for `want` more entries or bytes?  TS_OK, TS_AGAIN or TS_ERR_PROTOCOL. */
static inline int ring_producer_room(struct ring_producer *ring, uint64_t want)
{
    if (ring->size - (ring->tail - ring->head) >= want)
        return TS_OK;
    uint64_t head = atomic_observe(&ring->words->head); /* R3, pairs with R2 */
    if (ring->published - head > ring->size || head - ring->head > ring->size)
        return TS_ERR_PROTOCOL;
    ring->head = head;
    return ring->size - (ring->tail - head) >= want ? TS_OK : TS_AGAIN;
}

static inline void ring_producer_publish(struct ring_producer *ring)
{
    if (ring->published == ring->tail)
        return;
    ring->published = ring->tail;
    atomic_publish(&ring->words->tail, ring->tail); /* R0, pairs with R1 */
}

/* How many entries or bytes are ready: into *ready.  TS_OK or TS_ERR_PROTOCOL. */
static inline int ring_consumer_ready(struct ring_consumer *ring, uint64_t *ready)
{
    if (ring->tail == ring->head) {
        uint64_t tail = atomic_observe(&ring->words->tail); /* R1, pairs with R0 */
        if (tail - ring->published > ring->size || tail - ring->tail > ring->size)
            return TS_ERR_PROTOCOL;
        ring->tail = tail;
    }
    *ready = ring->tail - ring->head;
    return TS_OK;
}

static inline void ring_consumer_publish(struct ring_consumer *ring)
{
    if (ring->published == ring->head)
        return;
    ring->published = ring->head;
    atomic_publish(&ring->words->head, ring->head); /* R2, pairs with R3 */
}

/* ---- slot rings: entries of one size ---- */

static inline void *ring_slot_next(struct ring_producer *ring, size_t entry)
{
    return ring->bytes + (ring->tail & (ring->size - 1)) * entry;
}

/* Fetches the line of the next entry while its tail is on the way: for who polls an empty ring. */
static inline void ring_slot_prefetch(const struct ring_consumer *ring, size_t entry)
{
    __builtin_prefetch(ring->bytes + (ring->head & (ring->size - 1)) * entry);
}

static inline void ring_slot_read(const struct ring_consumer *ring, void *copy, size_t entry)
{
    memory_copy_once(copy, ring->bytes + (ring->head & (ring->size - 1)) * entry, entry);
}

/* ---- byte rings: 8-byte aligned records that never wrap ---- */

static inline uint64_t ring_record_size(uint64_t from_len, uint64_t name_len, uint64_t msg_len)
{
    return (sizeof(struct notify_record) + from_len + name_len + msg_len + 7) & ~UINT64_C(7);
}

/* Claims `size` bytes in one piece (a pad record closes the end of the ring when they would wrap).
 * TS_OK with *record set, TS_AGAIN, TS_ERR_TOO_LONG (half a ring is the most that always fits) or
 * TS_ERR_PROTOCOL.  `size` is from ring_record_size.  ring->tail moves; publish makes it seen. */
int ring_record_claim(struct ring_producer *ring, uint64_t size, uint8_t **record);

/* Next record: its header is copied to *header, *body points at the bytes behind it (in shared
 * memory: read each byte once).  TS_OK, TS_AGAIN when empty, TS_ERR_PROTOCOL when forged. */
int ring_record_peek(struct ring_consumer *ring, struct notify_record *header,
                     const uint8_t **body);

/* Moves behind the record that peek returned. */
static inline void ring_record_consume(struct ring_consumer *ring,
                                       const struct notify_record *header)
{
    ring->head += header->size;
}

/* A record by the position that a descriptor named.  It lies at or after the next one: a worker
 * that died between publishing sq and ntx leaves records that nobody needs any more, and they are
 * skipped. */
int ring_record_at(struct ring_consumer *ring, uint64_t pos, uint32_t size,
                   struct notify_record *header, const uint8_t **body);

#endif
