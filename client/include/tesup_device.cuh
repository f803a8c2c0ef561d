/* A CUDA kernel talks to a tesup worker: it posts requests into a channel's submission ring, takes
 * completions, and looks for notifications, all without the CPU.
 *
 * The host lends it a channel (tesup_channel_lend), registers that memory with CUDA
 * (cuMemHostRegister with CU_MEMHOSTREGISTER_DEVICEMAP) and hands the device's address to the
 * kernel.  One thread of the kernel uses it; others hand their work to that thread.  Nothing here
 * waits: whoever polls in a loop gives the loop an end.  A worker that sleeps is woken by the host
 * only: tesup_channel_wake(), or `idle = busy` for the worker.
 *
 * Data that kernels wrote before tesup_device_post() in the same thread, or behind a
 * __threadfence_system() and a barrier in others, is there when the worker starts.  The file is C
 * as well, for tests on the CPU.  Compute capability 7.0 or newer.
 */
#ifndef TESUP_DEVICE_CUH
#define TESUP_DEVICE_CUH

#include <string.h>

#include "tesup_device_layout.h"

#ifdef __CUDACC__

#define TESUP_DEVICE static __device__ __forceinline__

/* System scope: the other side is a CPU. */
TESUP_DEVICE uint64_t tesup_device_observe(const uint64_t *word)
{
    uint64_t value;

    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

TESUP_DEVICE void tesup_device_publish(uint64_t *word, uint64_t value)
{
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

/* Bypasses the cache of the multiprocessor, where bytes of the ring's last round may lie. */
TESUP_DEVICE uint64_t tesup_device_read(const uint64_t *word)
{
    return *(const volatile uint64_t *)word;
}

#else

#define TESUP_DEVICE static inline

TESUP_DEVICE uint64_t tesup_device_observe(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

TESUP_DEVICE void tesup_device_publish(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

TESUP_DEVICE uint64_t tesup_device_read(const uint64_t *word)
{
    return *(const volatile uint64_t *)word;
}

#endif

/* The same numbers as in tesup.h, which a kernel does not include. */
enum {
    TESUP_DEVICE_OK = 0,
    TESUP_DEVICE_AGAIN = 1,
    TESUP_DEVICE_ERR_INVALID = -1,
    TESUP_DEVICE_ERR_PROTOCOL = -15,
    TESUP_DEVICE_ERR_TOO_LONG = -18,
};
enum { TESUP_DEVICE_READ = 1, TESUP_DEVICE_WRITE = 2, TESUP_DEVICE_NOTIFY = 3 };

struct tesup_device_ring {
    uint64_t *tail_word, *head_word;
    uint8_t *bytes;
    uint64_t size; /* entries or bytes */
    uint64_t tail, head;
};

/* The kernel's side of a channel; lives wherever the kernel likes, from one launch to the next. */
struct tesup_device {
    struct tesup_device_ring sq, cq, ntx, nrx;
    uint32_t slots;
    uint64_t busy[TESUP_DEVICE_SLOTS_MAX / 64]; /* slots of requests in flight */
};

struct tesup_device_request {
    uint32_t op; /* TESUP_DEVICE_READ, _WRITE, _NOTIFY */
    uint32_t deadline_ms;
    uint64_t cookie, length, local_offset, remote_offset;
    uint32_t local_region, remote_region, remote;
    /* NULL and 0: no notification. Bound to a transfer it arrives behind it. */
    const void *name, *msg;
    uint32_t name_len, msg_len;
};

/* A notification where it lies in the ring, until tesup_device_release(). */
struct tesup_device_notification {
    struct tesup_device_record header;
    const uint8_t *from, *name, *msg;
};

/* ---- inside ---- */

TESUP_DEVICE uint64_t tesup_device_word(const void *base, uint64_t offset)
{
    return tesup_device_read((const uint64_t *)(const void *)((const uint8_t *)base + offset));
}

TESUP_DEVICE void tesup_device_ring_open(struct tesup_device_ring *ring, void *base, uint64_t place,
                                         uint64_t words)
{
    ring->bytes = (uint8_t *)base + tesup_device_word(base, place);
    ring->size = tesup_device_word(base, place + 8);
    ring->tail_word = (uint64_t *)(void *)((uint8_t *)base + words);
    ring->head_word = (uint64_t *)(void *)((uint8_t *)base + words + TESUP_DEVICE_HEAD);
    ring->tail = tesup_device_observe(ring->tail_word);
    ring->head = tesup_device_observe(ring->head_word);
}

/* For the producer: room for `want` more, after a look at the consumer if need be. */
TESUP_DEVICE int tesup_device_room(struct tesup_device_ring *ring, uint64_t want)
{
    uint64_t head;

    if (ring->size - (ring->tail - ring->head) >= want)
        return TESUP_DEVICE_OK;
    head = tesup_device_observe(ring->head_word);
    if (ring->tail - head > ring->size)
        return TESUP_DEVICE_ERR_PROTOCOL;
    ring->head = head;
    return ring->size - (ring->tail - head) >= want ? TESUP_DEVICE_OK : TESUP_DEVICE_AGAIN;
}

/* For the consumer: what is ready. */
TESUP_DEVICE int tesup_device_ready(struct tesup_device_ring *ring, uint64_t *ready)
{
    if (ring->tail == ring->head)
        ring->tail = tesup_device_observe(ring->tail_word);
    *ready = ring->tail - ring->head;
    return *ready > ring->size ? TESUP_DEVICE_ERR_PROTOCOL : TESUP_DEVICE_OK;
}

TESUP_DEVICE void tesup_device_copy_words(void *to, const void *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += 8) {
        uint64_t word = tesup_device_read((const uint64_t *)((const uint8_t *)from + i));

        memcpy((uint8_t *)to + i, &word, sizeof(word));
    }
}

TESUP_DEVICE void tesup_device_copy_bytes(uint8_t *to, const void *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = ((const uint8_t *)from)[i];
}

/* A record in one piece: behind a pad when the rest of the ring is too short. */
TESUP_DEVICE int tesup_device_record_put(struct tesup_device *device,
                                         const struct tesup_device_request *request,
                                         struct tesup_device_sqe *sqe)
{
    struct tesup_device_ring *ring = &device->ntx;
    uint64_t length =
        sizeof(struct tesup_device_record) + (uint64_t)request->name_len + request->msg_len;
    uint64_t size = (length + 7) & ~UINT64_C(7);
    uint64_t at = ring->tail & (ring->size - 1);
    uint64_t pad = size > ring->size - at ? ring->size - at : 0;
    struct tesup_device_record header = {0};
    uint8_t *record;
    int rc;

    if (size > ring->size / 2)
        return TESUP_DEVICE_ERR_TOO_LONG;
    rc = tesup_device_room(ring, pad + size);
    if (rc)
        return rc;
    if (pad) {
        uint32_t head = pad < sizeof(header) ? (uint32_t)pad : (uint32_t)sizeof(header);

        header.size = (uint32_t)pad;
        tesup_device_copy_bytes(ring->bytes + at, &header, head); /* kind 0 is a pad */
        ring->tail += pad;
        at = 0;
    }
    record = ring->bytes + at;
    header.size = (uint32_t)size;
    header.kind = TESUP_DEVICE_KIND_MESSAGE;
    header.name_len = request->name_len;
    header.msg_len = request->msg_len;
    tesup_device_copy_bytes(record, &header, sizeof(header));
    tesup_device_copy_bytes(record + sizeof(header), request->name, request->name_len);
    tesup_device_copy_bytes(record + sizeof(header) + request->name_len, request->msg,
                            request->msg_len);
    for (uint64_t i = length; i < size; i++)
        record[i] = 0;
    sqe->flags = TESUP_DEVICE_FLAG_NOTIFY;
    sqe->notify_pos = ring->tail;
    sqe->notify_len = (uint32_t)size;
    ring->tail += size;
    return TESUP_DEVICE_OK;
}

/* ---- for kernels ---- */

/* `base`: the lent memory, as the device reaches it. */
TESUP_DEVICE int tesup_device_open(struct tesup_device *device, void *base)
{
    if (tesup_device_word(base, 0) != TESUP_DEVICE_MAGIC ||
        (uint32_t)tesup_device_word(base, TESUP_DEVICE_VERSION) != TESUP_DEVICE_MAJOR)
        return TESUP_DEVICE_ERR_INVALID;
    device->slots = (uint32_t)tesup_device_word(base, TESUP_DEVICE_SLOTS);
    if (device->slots > TESUP_DEVICE_SLOTS_MAX)
        return TESUP_DEVICE_ERR_INVALID;
    tesup_device_ring_open(&device->sq, base, TESUP_DEVICE_PLACE_SQ, TESUP_DEVICE_SQ_WORDS);
    tesup_device_ring_open(&device->cq, base, TESUP_DEVICE_PLACE_CQ, TESUP_DEVICE_CQ_WORDS);
    tesup_device_ring_open(&device->ntx, base, TESUP_DEVICE_PLACE_NTX, TESUP_DEVICE_NTX_WORDS);
    tesup_device_ring_open(&device->nrx, base, TESUP_DEVICE_PLACE_NRX, TESUP_DEVICE_NRX_WORDS);
    for (uint32_t i = 0; i < TESUP_DEVICE_SLOTS_MAX / 64; i++)
        device->busy[i] = 0;
    return TESUP_DEVICE_OK;
}

/* Posts one request. AGAIN: no slot or no room now, take completions first. */
TESUP_DEVICE int tesup_device_post(struct tesup_device *device,
                                   const struct tesup_device_request *request)
{
    struct tesup_device_ring *sq = &device->sq;
    uint16_t slot = (uint16_t)(sq->tail & (device->slots - 1));
    struct tesup_device_sqe sqe = {0};
    int rc;

    if (request->op < TESUP_DEVICE_READ || request->op > TESUP_DEVICE_NOTIFY)
        return TESUP_DEVICE_ERR_INVALID;
    if (device->busy[slot / 64] >> slot % 64 & 1)
        return TESUP_DEVICE_AGAIN;
    rc = tesup_device_room(sq, 1);
    if (rc)
        return rc;
    sqe.op = (uint8_t)request->op;
    sqe.slot = slot;
    sqe.deadline_ms = request->deadline_ms;
    sqe.cookie = request->cookie;
    sqe.remote = request->remote;
    if (request->op != TESUP_DEVICE_NOTIFY) {
        sqe.length = request->length;
        sqe.local_offset = request->local_offset;
        sqe.remote_offset = request->remote_offset;
        sqe.local_region = request->local_region;
        sqe.remote_region = request->remote_region;
    }
    if (request->op == TESUP_DEVICE_NOTIFY || request->name_len || request->msg_len) {
        rc = tesup_device_record_put(device, request, &sqe);
        if (rc)
            return rc;
        tesup_device_publish(device->ntx.tail_word, device->ntx.tail);
    }
    tesup_device_copy_bytes(sq->bytes + (sq->tail & (sq->size - 1)) * sizeof(sqe), &sqe,
                            sizeof(sqe));
    device->busy[slot / 64] |= UINT64_C(1) << slot % 64;
    sq->tail++;
    tesup_device_publish(sq->tail_word, sq->tail);
    return TESUP_DEVICE_OK;
}

/* Takes one completion. AGAIN: none now. */
TESUP_DEVICE int tesup_device_poll(struct tesup_device *device, struct tesup_device_cqe *completion)
{
    struct tesup_device_ring *cq = &device->cq;
    uint64_t ready;
    uint16_t slot;
    int rc = tesup_device_ready(cq, &ready);

    if (rc || ready == 0)
        return rc ? rc : TESUP_DEVICE_AGAIN;
    tesup_device_copy_words(completion,
                            cq->bytes + (cq->head & (cq->size - 1)) * sizeof(*completion),
                            sizeof(*completion));
    slot = completion->slot;
    if (slot >= device->slots || !(device->busy[slot / 64] >> slot % 64 & 1))
        return TESUP_DEVICE_ERR_PROTOCOL;
    device->busy[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    cq->head++;
    tesup_device_publish(cq->head_word, cq->head);
    return TESUP_DEVICE_OK;
}

/* The oldest notification of a lent main channel; the same one until it is released. AGAIN: none.
 */
TESUP_DEVICE int tesup_device_peek(struct tesup_device *device,
                                   struct tesup_device_notification *note)
{
    struct tesup_device_ring *nrx = &device->nrx;
    uint64_t ready, lengths;
    int rc;

    while (!(rc = tesup_device_ready(nrx, &ready)) && ready) {
        const uint8_t *record = nrx->bytes + (nrx->head & (nrx->size - 1));

        /* The rest of the ring may be shorter than a header: size and kind are its first word. */
        tesup_device_copy_words(&note->header, record, 8);
        if (note->header.size < 8 || note->header.size > ready || note->header.size % 8)
            return TESUP_DEVICE_ERR_PROTOCOL;
        if (note->header.kind == TESUP_DEVICE_KIND_PAD) {
            nrx->head += note->header.size;
            continue;
        }
        if (note->header.size < sizeof(note->header))
            return TESUP_DEVICE_ERR_PROTOCOL;
        tesup_device_copy_words(&note->header, record, sizeof(note->header));
        lengths = (uint64_t)note->header.from_len + note->header.name_len + note->header.msg_len;
        if (lengths > note->header.size - sizeof(note->header))
            return TESUP_DEVICE_ERR_PROTOCOL;
        note->from = record + sizeof(note->header);
        note->name = note->from + note->header.from_len;
        note->msg = note->name + note->header.name_len;
        return TESUP_DEVICE_OK;
    }
    return rc ? rc : TESUP_DEVICE_AGAIN;
}

TESUP_DEVICE void tesup_device_release(struct tesup_device *device,
                                       const struct tesup_device_notification *note)
{
    device->nrx.head += note->header.size;
    tesup_device_publish(device->nrx.head_word, device->nrx.head);
}

#endif
