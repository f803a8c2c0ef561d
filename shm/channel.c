#include "shm/channel.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/segment.h"

#define PAGE 4096u

uint64_t channel_notify_ring_size(uint32_t notify_max)
{
    uint64_t want = 4 * ring_record_size(LAYOUT_NAME_MAX, notify_max, 0);
    uint64_t size = PAGE;

    while (size < want)
        size *= 2;
    return size;
}

static uint64_t place_next(struct ring_place *place, uint64_t offset, uint64_t entries,
                           uint64_t entry_size, uint64_t start)
{
    *place = (struct ring_place){.offset = offset, .size = entries, .start = start};
    return (offset + entries * entry_size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static void channel_layout(struct channel_header *header, const struct channel_shape *shape)
{
    uint64_t ring = channel_notify_ring_size(shape->notify_max);
    uint64_t at = sizeof(*header);

    at = place_next(&header->sq, at, shape->slots, sizeof(struct sqe), shape->start);
    at = place_next(&header->cq, at, shape->slots, sizeof(struct cqe), shape->start);
    /* Byte rings hold 8-byte aligned records, so their counters begin aligned. */
    at = place_next(&header->ntx, at, ring, 1, shape->start & ~UINT64_C(7));
    at = place_next(&header->nrx, at, shape->mailbox ? ring : PAGE, 1, shape->start & ~UINT64_C(7));
    header->journal_offset = at;
    at += shape->slots * sizeof(struct journal_entry);
    header->magic = LAYOUT_MAGIC;
    header->version_major = LAYOUT_VERSION_MAJOR;
    header->version_minor = LAYOUT_VERSION_MINOR;
    header->features = LAYOUT_FEATURE_GROUP | LAYOUT_FEATURE_WAIT |
                       (shape->mailbox ? LAYOUT_FEATURE_MAILBOX : 0) |
                       (shape->notify_max > LAYOUT_NOTIFY_NATIVE_MAX ? LAYOUT_FEATURE_OOB : 0);
    header->slots = shape->slots;
    header->notify_max = shape->notify_max;
    header->size = (at + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static void words_start(struct ring_shared *words, uint64_t start)
{
    atomic_set(&words->tail, start);
    atomic_set(&words->head, start);
}

int channel_create(const struct channel_shape *shape)
{
    struct channel_header layout = {.magic = 0};
    struct channel_header *header;
    int fd, saved;

    channel_layout(&layout, shape);
    fd = segment_create("tesup-channel", layout.size);
    if (fd < 0)
        return -1;
    header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED)
        goto err_close;
    channel_layout(header, shape);
    words_start(&header->sq_words, header->sq.start);
    words_start(&header->cq_words, header->cq.start);
    words_start(&header->ntx_words, header->ntx.start);
    words_start(&header->nrx_words, header->nrx.start);
    munmap(header, sizeof(*header));
    return fd;

err_close:
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static bool place_fits(const struct ring_place *place, uint64_t entry_size, uint64_t total)
{
    if (place->size == 0 || (place->size & (place->size - 1)) != 0 || (place->offset & 63) != 0)
        return false;
    if (place->offset < sizeof(struct channel_header) || place->offset > total)
        return false;
    return place->size <= (total - place->offset) / entry_size;
}

static int channel_check(const struct channel_header *header, uint64_t size)
{
    if (header->magic != LAYOUT_MAGIC)
        return TS_ERR_PROTOCOL;
    if (header->version_major != LAYOUT_VERSION_MAJOR ||
        (header->features & ~LAYOUT_FEATURES_KNOWN) != 0)
        return TS_ERR_VERSION;
    if (header->size != size || header->slots == 0 || header->slots > LAYOUT_SLOTS_MAX ||
        header->sq.size != header->slots || header->cq.size != header->slots ||
        header->notify_max > LAYOUT_NOTIFY_OOB_MAX)
        return TS_ERR_PROTOCOL;
    if (!place_fits(&header->sq, sizeof(struct sqe), size) ||
        !place_fits(&header->cq, sizeof(struct cqe), size) || !place_fits(&header->ntx, 1, size) ||
        !place_fits(&header->nrx, 1, size))
        return TS_ERR_PROTOCOL;
    if ((header->journal_offset & 63) != 0 || header->journal_offset > size ||
        header->slots > (size - header->journal_offset) / sizeof(struct journal_entry))
        return TS_ERR_PROTOCOL;
    return TS_OK;
}

int channel_map(int fd, struct channel_map *map)
{
    struct segment_facts facts;
    struct channel_header *header, copy;
    int rc;

    if (segment_inspect(fd, &facts) < 0)
        return TS_ERR_SYSTEM;
    if (!facts.sealed || facts.size < sizeof(*header) || facts.size > UINT64_C(1) << 30)
        return TS_ERR_PROTOCOL;
    header = mmap(NULL, facts.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED)
        return errno == ENOMEM ? TS_ERR_NO_MEMORY : TS_ERR_SYSTEM;
    memory_copy_once(&copy, header, sizeof(copy));
    rc = channel_check(&copy, facts.size);
    if (rc != TS_OK) {
        munmap(header, facts.size);
        return rc;
    }
    *map = (struct channel_map){.header = header,
                                .size = facts.size,
                                .slots = copy.slots,
                                .notify_max = copy.notify_max,
                                .mailbox = (copy.features & LAYOUT_FEATURE_MAILBOX) != 0,
                                .sq = copy.sq,
                                .cq = copy.cq,
                                .ntx = copy.ntx,
                                .nrx = copy.nrx,
                                .journal = (void *)((uint8_t *)header + copy.journal_offset)};
    return TS_OK;
}

void channel_unmap(struct channel_map *map)
{
    if (map->header != NULL)
        munmap(map->header, map->size);
    map->header = NULL;
}
