/* The ABI as numbers: what another build of the library, years apart, must find again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "shm/channel.h"
#include "shm/layout.h"
#include "shm/ring.h"

static void magic_spells_its_name(void **state)
{
    uint64_t magic = LAYOUT_MAGIC;

    (void)state;
    assert_memory_equal(&magic, "\x1a\nTESUP1", sizeof(magic));
}

/* These travel in shared memory: a changed number is a changed ABI and a new major version. */
static void numbers_are_frozen(void **state)
{
    (void)state;
    assert_int_equal(LAYOUT_VERSION_MAJOR, 1);
    assert_int_equal(SQE_NOP, 0);
    assert_int_equal(SQE_READ, 1);
    assert_int_equal(SQE_WRITE, 2);
    assert_int_equal(SQE_NOTIFY, 3);
    assert_int_equal(SQE_CANCEL, 4);
    assert_int_equal(SQE_WAIT, 5);
    assert_int_equal(SQE_OP_COUNT, 6);
    assert_int_equal(SQE_FLAG_MASK, SQE_FLAG_NOTIFY | SQE_FLAG_NOTIFY_ALWAYS |
                                        SQE_FLAG_REMOTE_ADDR | SQE_FLAG_MORE | SQE_FLAG_AFTER);
    assert_int_equal(NOTIFY_KIND_PAD, 0);
    assert_int_equal(NOTIFY_KIND_MESSAGE, 1);
    assert_int_equal(NOTIFY_KIND_EVENT, 2);
    assert_int_equal(JOURNAL_FREE, 0);
    assert_int_equal(JOURNAL_ACCEPTED, 1);
    assert_int_equal(JOURNAL_COMPLETING, 2);
}

/* No two words with different writers share a pair of cache lines. */
static void words_of_different_writers_are_apart(void **state)
{
    static const size_t words[] = {
        offsetof(struct channel_header, epoch),
        offsetof(struct channel_header, worker_bell),
        offsetof(struct channel_header, job_bell),
        offsetof(struct channel_header, nrx_room),
        offsetof(struct channel_header, ntx_room),
        offsetof(struct channel_header, sq_words) + offsetof(struct ring_shared, tail),
        offsetof(struct channel_header, sq_words) + offsetof(struct ring_shared, head),
        offsetof(struct channel_header, cq_words) + offsetof(struct ring_shared, tail),
        offsetof(struct channel_header, cq_words) + offsetof(struct ring_shared, head),
        offsetof(struct channel_header, ntx_words) + offsetof(struct ring_shared, tail),
        offsetof(struct channel_header, ntx_words) + offsetof(struct ring_shared, head),
        offsetof(struct channel_header, nrx_words) + offsetof(struct ring_shared, tail),
        offsetof(struct channel_header, nrx_words) + offsetof(struct ring_shared, head),
        sizeof(struct channel_header),
    };

    (void)state;
    for (size_t i = 1; i < sizeof(words) / sizeof(words[0]); i++)
        assert_true(words[i] / LAYOUT_LINE > words[i - 1] / LAYOUT_LINE);
}

struct span {
    uint64_t begin, end;
};

static struct span span_of(const struct ring_place *place, uint64_t entry)
{
    return (struct span){place->offset, place->offset + place->size * entry};
}

static void expect_apart(const struct span *spans, size_t count, uint64_t total)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(spans[i].begin % 64, 0);
        assert_true(spans[i].begin >= sizeof(struct channel_header));
        assert_true(spans[i].begin < spans[i].end);
        assert_true(spans[i].end <= total);
        for (size_t j = 0; j < i; j++)
            assert_true(spans[i].begin >= spans[j].end || spans[j].begin >= spans[i].end);
    }
}

static void expect_start(const struct ring_shared *words, const struct ring_place *place,
                         uint64_t start)
{
    assert_int_equal(place->start, start);
    assert_int_equal(atomic_peek(&words->tail), start);
    assert_int_equal(atomic_peek(&words->head), start);
}

static void check_channel(const struct channel_shape *shape)
{
    struct channel_map map;
    int fd = channel_create(shape);

    assert_true(fd >= 0);
    assert_int_equal(channel_map(fd, &map), TS_OK);
    const struct channel_header *header = map.header;
    const struct span spans[] = {
        span_of(&map.sq, sizeof(struct sqe)),
        span_of(&map.cq, sizeof(struct cqe)),
        span_of(&map.ntx, 1),
        span_of(&map.nrx, 1),
        {header->journal_offset, header->journal_offset + map.slots * sizeof(struct journal_entry)},
    };

    expect_apart(spans, sizeof(spans) / sizeof(spans[0]), map.size);
    assert_int_equal(map.slots, shape->slots);
    /* A free slot is a free cq entry: a completion never has to wait for room. */
    assert_int_equal(map.cq.size, map.slots);
    assert_true(map.ntx.size >= 4 * ring_record_size(LAYOUT_NAME_MAX, shape->notify_max, 0));
    expect_start(&header->sq_words, &map.sq, shape->start);
    expect_start(&header->cq_words, &map.cq, shape->start);
    /* Byte rings count in steps of 8. */
    expect_start(&header->ntx_words, &map.ntx, shape->start & ~UINT64_C(7));
    expect_start(&header->nrx_words, &map.nrx, shape->start & ~UINT64_C(7));
    channel_unmap(&map);
    close(fd);
}

static void channels_of_every_shape_have_their_parts_apart(void **state)
{
    static const uint32_t slots[] = {16, 1024, LAYOUT_SLOTS_MAX};
    static const uint32_t notify[] = {LAYOUT_NOTIFY_NATIVE_MAX, LAYOUT_NOTIFY_OOB_MAX};

    (void)state;
    for (size_t s = 0; s < sizeof(slots) / sizeof(slots[0]); s++) {
        for (size_t n = 0; n < sizeof(notify) / sizeof(notify[0]); n++) {
            struct channel_shape shape = {.slots = slots[s], .notify_max = notify[n]};

            check_channel(&shape);
            shape.mailbox = true;
            shape.start = UINT64_MAX - 5;
            check_channel(&shape);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magic_spells_its_name),
        cmocka_unit_test(numbers_are_frozen),
        cmocka_unit_test(words_of_different_writers_are_apart),
        cmocka_unit_test(channels_of_every_shape_have_their_parts_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
