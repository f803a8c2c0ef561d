#include "shm/ring.h"

void ring_producer_init(struct ring_producer *ring, struct ring_shared *words, void *bytes,
                        uint64_t size, uint64_t start)
{
    *ring = (struct ring_producer){.words = words,
                                   .bytes = bytes,
                                   .size = size,
                                   .tail = start,
                                   .published = start,
                                   .head = start};
}

void ring_consumer_init(struct ring_consumer *ring, struct ring_shared *words, const void *bytes,
                        uint64_t size, uint64_t start)
{
    *ring = (struct ring_consumer){.words = words,
                                   .bytes = bytes,
                                   .size = size,
                                   .head = start,
                                   .published = start,
                                   .tail = start};
}

int ring_record_claim(struct ring_producer *ring, uint64_t size, uint8_t **record)
{
    uint64_t at = ring->tail & (ring->size - 1);
    uint64_t to_end = ring->size - at;
    uint64_t pad = size > to_end ? to_end : 0;
    int rc;

    if (size > ring->size / 2)
        return TS_ERR_TOO_LONG;
    rc = ring_producer_room(ring, pad + size);
    if (rc != TS_OK)
        return rc;
    if (pad > 0) {
        /* The tail of the ring may be shorter than a header: size and kind are the first 8 bytes.
         */
        struct notify_record header = {.size = (uint32_t)pad, .kind = NOTIFY_KIND_PAD};
        memcpy(ring->bytes + at, &header, pad < sizeof(header) ? pad : sizeof(header));
        ring->tail += pad;
    }
    *record = ring->bytes + (ring->tail & (ring->size - 1));
    ring->tail += size;
    return TS_OK;
}

/* Copies the header at ring->head and checks it against what was published. */
static int record_copy_header(struct ring_consumer *ring, uint64_t ready,
                              struct notify_record *header)
{
    uint64_t at = ring->head & (ring->size - 1);
    uint64_t limit = ring->size - at < ready ? ring->size - at : ready;

    if ((at & 7) != 0 || limit < 8)
        return TS_ERR_PROTOCOL;
    memset(header, 0, sizeof(*header));
    memory_copy_once(header, ring->bytes + at, limit < sizeof(*header) ? limit : sizeof(*header));
    if (header->size < 8 || (header->size & 7) != 0 || header->size > limit)
        return TS_ERR_PROTOCOL;
    if (header->kind == NOTIFY_KIND_PAD)
        return header->size == ring->size - at ? TS_OK : TS_ERR_PROTOCOL;
    if (header->size < sizeof(*header) || header->kind > NOTIFY_KIND_EVENT)
        return TS_ERR_PROTOCOL;
    if (ring_record_size(header->from_len, header->name_len, header->msg_len) != header->size)
        return TS_ERR_PROTOCOL;
    return TS_OK;
}

int ring_record_peek(struct ring_consumer *ring, struct notify_record *header, const uint8_t **body)
{
    for (;;) {
        uint64_t ready;
        int rc = ring_consumer_ready(ring, &ready);

        if (rc != TS_OK)
            return rc;
        if (ready == 0)
            return TS_AGAIN;
        rc = record_copy_header(ring, ready, header);
        if (rc != TS_OK)
            return rc;
        if (header->kind != NOTIFY_KIND_PAD) {
            *body = ring->bytes + (ring->head & (ring->size - 1)) + sizeof(*header);
            return TS_OK;
        }
        ring->head += header->size;
    }
}

int ring_record_at(struct ring_consumer *ring, uint64_t pos, uint32_t size,
                   struct notify_record *header, const uint8_t **body)
{
    /* ntx is published before sq, so an empty-looking cache only needs a fresh look. */
    uint64_t tail = atomic_observe(&ring->words->tail); /* R1, pairs with R0 */
    int rc;

    if (tail - ring->published > ring->size || tail - ring->tail > ring->size)
        return TS_ERR_PROTOCOL;
    ring->tail = tail;
    if (pos - ring->head >= tail - ring->head)
        return TS_ERR_PROTOCOL;
    ring->head = pos;
    rc = ring_record_peek(ring, header, body);
    /* Peek steps over a pad, and a descriptor never names one. */
    if (rc != TS_OK || ring->head != pos || header->size != size ||
        header->kind != NOTIFY_KIND_MESSAGE)
        return TS_ERR_PROTOCOL;
    return TS_OK;
}
