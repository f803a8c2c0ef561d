/* Slot rings and the counters of every ring: wrap-around, full, empty, and forged counters. */
#include "tests/unit/shm/ring_fixture.h"

#define SIZE  8u
#define ENTRY sizeof(struct sqe)

static const uint64_t starts[] = {0,
                                  1,
                                  SIZE - 1,
                                  UINT64_C(1) << 32,
                                  UINT64_MAX - 2 * SIZE,
                                  UINT64_MAX - SIZE,
                                  UINT64_MAX - 1,
                                  UINT64_MAX};
#define STARTS (sizeof(starts) / sizeof(starts[0]))

static void slot_put(struct ring_producer *ring, uint64_t cookie)
{
    struct sqe *sqe = ring_slot_next(ring, ENTRY);

    memset(sqe, 0, sizeof(*sqe));
    sqe->cookie = cookie;
    sqe->notify_pos = ~cookie;
    ring->tail++;
}

static void slot_expect(struct ring_consumer *ring, uint64_t cookie)
{
    struct sqe sqe;

    ring_slot_read(ring, &sqe, sizeof(sqe));
    ring->head++;
    assert_int_equal(sqe.cookie, cookie);
    assert_int_equal(sqe.notify_pos, ~cookie);
}

/* Moves `count` entries through; both sides publish. */
static void ring_pass(struct ring_fixture *ring, uint64_t count, uint64_t *cookie)
{
    uint64_t ready = 0;

    assert_int_equal(ring_producer_room(&ring->producer, count), TS_OK);
    for (uint64_t i = 0; i < count; i++)
        slot_put(&ring->producer, *cookie + i);
    ring_producer_publish(&ring->producer);
    assert_int_equal(ring_consumer_ready(&ring->consumer, &ready), TS_OK);
    assert_int_equal(ready, count);
    for (uint64_t i = 0; i < count; i++)
        slot_expect(&ring->consumer, *cookie + i);
    ring_consumer_publish(&ring->consumer);
    *cookie += count;
}

static void entries_survive_wrap_around(void **state)
{
    (void)state;
    for (size_t i = 0; i < STARTS; i++) {
        struct ring_fixture ring;
        uint64_t cookie = 100;

        fixture_open(&ring, SIZE, ENTRY, starts[i]);
        for (uint64_t turn = 0; turn < 5 * (SIZE + 1); turn++)
            ring_pass(&ring, turn % (SIZE + 1), &cookie);
        assert_int_equal(ring.producer.tail, starts[i] + (cookie - 100));
        assert_int_equal(atomic_peek(&ring.words.head), ring.producer.tail);
        fixture_close(&ring);
    }
}

static void empty_ring_has_nothing_ready(void **state)
{
    (void)state;
    for (size_t i = 0; i < STARTS; i++) {
        struct ring_fixture ring;
        uint64_t ready = 77;

        fixture_open(&ring, SIZE, ENTRY, starts[i]);
        assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_OK);
        assert_int_equal(ready, 0);
        fixture_close(&ring);
    }
}

static void full_ring_has_no_room_until_head_is_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < STARTS; i++) {
        struct ring_fixture ring;
        uint64_t ready = 0;

        fixture_open(&ring, SIZE, ENTRY, starts[i]);
        assert_int_equal(ring_producer_room(&ring.producer, SIZE), TS_OK);
        assert_int_equal(ring_producer_room(&ring.producer, SIZE + 1), TS_AGAIN);
        for (uint64_t n = 0; n < SIZE; n++)
            slot_put(&ring.producer, n);
        ring_producer_publish(&ring.producer);
        assert_int_equal(ring_producer_room(&ring.producer, 0), TS_OK);
        assert_int_equal(ring_producer_room(&ring.producer, 1), TS_AGAIN);

        assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_OK);
        assert_int_equal(ready, SIZE);
        slot_expect(&ring.consumer, 0);
        slot_expect(&ring.consumer, 1);
        assert_int_equal(ring_producer_room(&ring.producer, 1), TS_AGAIN);
        ring_consumer_publish(&ring.consumer);
        assert_int_equal(ring_producer_room(&ring.producer, 2), TS_OK);
        assert_int_equal(ring_producer_room(&ring.producer, 3), TS_AGAIN);
        fixture_close(&ring);
    }
}

static void unpublished_entries_are_not_seen(void **state)
{
    struct ring_fixture ring;
    uint64_t ready = 0;

    (void)state;
    fixture_open(&ring, SIZE, ENTRY, UINT64_MAX);
    slot_put(&ring.producer, 1);
    slot_put(&ring.producer, 2);
    assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_OK);
    assert_int_equal(ready, 0);
    ring_producer_publish(&ring.producer);
    assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_OK);
    assert_int_equal(ready, 2);
    fixture_close(&ring);
}

/* A store to a shared line costs the other side a miss: nothing new, no store. */
static void publishing_nothing_stores_nothing(void **state)
{
    struct ring_fixture ring;

    (void)state;
    fixture_open(&ring, SIZE, ENTRY, 0);
    atomic_set(&ring.words.tail, 1234);
    atomic_set(&ring.words.head, 5678);
    ring_producer_publish(&ring.producer);
    ring_consumer_publish(&ring.consumer);
    assert_int_equal(atomic_peek(&ring.words.tail), 1234);
    assert_int_equal(atomic_peek(&ring.words.head), 5678);
    fixture_close(&ring);
}

static void cached_tail_is_used_until_it_is_consumed(void **state)
{
    struct ring_fixture ring;
    uint64_t ready = 0;

    (void)state;
    fixture_open(&ring, SIZE, ENTRY, 0);
    slot_put(&ring.producer, 1);
    slot_put(&ring.producer, 2);
    ring_producer_publish(&ring.producer);
    assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_OK);
    atomic_set(&ring.words.tail, UINT64_C(1) << 40);
    slot_expect(&ring.consumer, 1);
    assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_OK);
    assert_int_equal(ready, 1);
    slot_expect(&ring.consumer, 2);
    assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_ERR_PROTOCOL);
    fixture_close(&ring);
}

/* Offsets from the consumer's published head; `read` entries are consumed and not published. */
static void consumer_refuses_impossible_tails(void **state)
{
    static const struct {
        uint64_t read;
        int64_t tail;
        int verdict;
        uint64_t ready;
    } cases[] = {
        {0, 0, TS_OK, 0},
        {0, 1, TS_OK, 1},
        {0, SIZE, TS_OK, SIZE},
        {0, SIZE + 1, TS_ERR_PROTOCOL, 0},
        {0, -1, TS_ERR_PROTOCOL, 0},
        {0, INT64_MAX, TS_ERR_PROTOCOL, 0},
        {0, INT64_MIN, TS_ERR_PROTOCOL, 0},
        {3, 3, TS_OK, 0},
        {3, SIZE, TS_OK, SIZE - 3},
        {3, SIZE + 1, TS_ERR_PROTOCOL, 0}, /* its room is not given back yet */
        {3, 2, TS_ERR_PROTOCOL, 0},        /* behind what it said before */
        {3, 0, TS_ERR_PROTOCOL, 0},
        {3, -1, TS_ERR_PROTOCOL, 0},
    };

    (void)state;
    for (size_t s = 0; s < STARTS; s++) {
        for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
            struct ring_fixture ring;
            uint64_t ready = 0;

            fixture_open(&ring, SIZE, ENTRY, starts[s]);
            for (uint64_t n = 0; n < cases[c].read; n++)
                slot_put(&ring.producer, n);
            ring_producer_publish(&ring.producer);
            assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_OK);
            ring.consumer.head += ready;
            atomic_set(&ring.words.tail, starts[s] + (uint64_t)cases[c].tail);
            assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), cases[c].verdict);
            if (cases[c].verdict == TS_OK)
                assert_int_equal(ready, cases[c].ready);
            fixture_close(&ring);
        }
    }
}

/* Offsets from the start; the producer has published 6 of 8 and written one more. */
static void producer_refuses_impossible_heads(void **state)
{
    static const struct {
        int64_t head;
        int verdict;
        uint64_t room;
    } cases[] = {
        {2, TS_OK, 3},
        {6, TS_OK, 7},
        {7, TS_ERR_PROTOCOL, 0}, /* read what was never published */
        {8, TS_ERR_PROTOCOL, 0},
        {1, TS_ERR_PROTOCOL, 0}, /* behind what it said before */
        {0, TS_ERR_PROTOCOL, 0},
        {-1, TS_ERR_PROTOCOL, 0},
        {INT64_MAX, TS_ERR_PROTOCOL, 0},
        {INT64_MIN, TS_ERR_PROTOCOL, 0},
    };

    (void)state;
    for (size_t s = 0; s < STARTS; s++) {
        for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
            struct ring_fixture ring;

            fixture_open(&ring, SIZE, ENTRY, starts[s]);
            for (uint64_t n = 0; n < 6; n++)
                slot_put(&ring.producer, n);
            ring_producer_publish(&ring.producer);
            atomic_set(&ring.words.head, starts[s] + 2);
            assert_int_equal(ring_producer_room(&ring.producer, 4), TS_OK);
            slot_put(&ring.producer, 6);
            atomic_set(&ring.words.head, starts[s] + (uint64_t)cases[c].head);
            /* More than the cached head leaves, so that it must look. */
            if (cases[c].verdict == TS_OK) {
                assert_int_equal(ring_producer_room(&ring.producer, cases[c].room), TS_OK);
                assert_int_equal(ring_producer_room(&ring.producer, cases[c].room + 1), TS_AGAIN);
            } else {
                assert_int_equal(ring_producer_room(&ring.producer, 4), cases[c].verdict);
            }
            fixture_close(&ring);
        }
    }
}

static void refused_counters_leave_the_truth_alone(void **state)
{
    struct ring_fixture ring;
    uint64_t ready = 0, cookie = 7;

    (void)state;
    fixture_open(&ring, SIZE, ENTRY, UINT64_MAX - 3);
    ring_pass(&ring, 5, &cookie);
    atomic_set(&ring.words.tail, ring.producer.tail + SIZE + 1);
    assert_int_equal(ring_consumer_ready(&ring.consumer, &ready), TS_ERR_PROTOCOL);
    atomic_set(&ring.words.head, ring.producer.tail + 1);
    assert_int_equal(ring_producer_room(&ring.producer, SIZE), TS_ERR_PROTOCOL);
    atomic_set(&ring.words.tail, ring.producer.tail);
    atomic_set(&ring.words.head, ring.consumer.head);
    ring_pass(&ring, SIZE, &cookie);
    fixture_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_survive_wrap_around),
        cmocka_unit_test(empty_ring_has_nothing_ready),
        cmocka_unit_test(full_ring_has_no_room_until_head_is_published),
        cmocka_unit_test(unpublished_entries_are_not_seen),
        cmocka_unit_test(publishing_nothing_stores_nothing),
        cmocka_unit_test(cached_tail_is_used_until_it_is_consumed),
        cmocka_unit_test(consumer_refuses_impossible_tails),
        cmocka_unit_test(producer_refuses_impossible_heads),
        cmocka_unit_test(refused_counters_leave_the_truth_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
