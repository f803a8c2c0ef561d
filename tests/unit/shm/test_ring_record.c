/* Byte rings: records that never wrap, and headers that lie. */
#include "tests/unit/shm/ring_fixture.h"

#define SIZE   4096u
#define HEADER sizeof(struct notify_record)

static const uint64_t starts[] = {
    0, 8, SIZE - 8, UINT64_C(1) << 32, UINT64_MAX - SIZE - 7, UINT64_MAX - 7 - 64, UINT64_MAX - 7};
#define STARTS (sizeof(starts) / sizeof(starts[0]))

static uint8_t pattern(uint64_t seq, uint64_t at)
{
    return (uint8_t)(seq * 31 + at * 7 + 1);
}

/* Writes a message with `msg_len` patterned bytes; the caller publishes. */
static int record_put(struct ring_fixture *ring, uint64_t seq, uint32_t msg_len)
{
    uint64_t size = ring_record_size(0, 0, msg_len);
    uint8_t *record;
    int rc = ring_record_claim(&ring->producer, size, &record);

    if (rc != TS_OK)
        return rc;
    assert_in_range((uintptr_t)record, (uintptr_t)ring->bytes,
                    (uintptr_t)ring->bytes + ring->size - size);
    *(struct notify_record *)(void *)record = (struct notify_record){
        .size = (uint32_t)size, .kind = NOTIFY_KIND_MESSAGE, .msg_len = msg_len, .bytes = seq};
    for (uint32_t i = 0; i < msg_len; i++)
        record[HEADER + i] = pattern(seq, i);
    return TS_OK;
}

static void record_expect(struct ring_fixture *ring, uint64_t seq, uint32_t msg_len)
{
    struct notify_record header;
    const uint8_t *body;

    assert_int_equal(ring_record_peek(&ring->consumer, &header, &body), TS_OK);
    assert_int_equal(header.bytes, seq);
    assert_int_equal(header.msg_len, msg_len);
    assert_in_range((uintptr_t)body, (uintptr_t)ring->bytes + HEADER,
                    (uintptr_t)ring->bytes + ring->size - (header.size - HEADER));
    for (uint32_t i = 0; i < msg_len; i++)
        assert_int_equal(body[i], pattern(seq, i));
    ring_record_consume(&ring->consumer, &header);
}

static void expect_empty(struct ring_fixture *ring)
{
    struct notify_record header;
    const uint8_t *body;

    assert_int_equal(ring_record_peek(&ring->consumer, &header, &body), TS_AGAIN);
}

static void record_size_is_header_and_body_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(ring_record_size(0, 0, 0), 32);
    assert_int_equal(ring_record_size(0, 0, 1), 40);
    assert_int_equal(ring_record_size(1, 2, 5), 40);
    assert_int_equal(ring_record_size(1, 2, 6), 48);
    assert_int_equal(ring_record_size(UINT16_MAX, UINT32_MAX, UINT32_MAX),
                     (HEADER + UINT16_MAX + 2 * (uint64_t)UINT32_MAX + 7) & ~UINT64_C(7));
}

/* Random lengths, as many in flight as fit, through several turns of the ring and of uint64_t. */
static void records_survive_wrap_around(void **state)
{
    (void)state;
    for (size_t s = 0; s < STARTS; s++) {
        struct ring_fixture ring;
        uint64_t random = 0x9e3779b97f4a7c15 + s;
        uint32_t length[2000];
        size_t put = 0, taken = 0;

        for (size_t i = 0; i < 2000; i++)
            length[i] = (uint32_t)(fixture_random(&random) % (SIZE / 2 - HEADER + 1));
        for (size_t i = 0; i < 2000; i += 3)
            length[i] %= 40;
        fixture_open(&ring, SIZE, 1, starts[s]);
        while (taken < 2000) {
            while (put < 2000 && record_put(&ring, put, length[put]) == TS_OK)
                put++;
            ring_producer_publish(&ring.producer);
            assert_true(put > taken);
            record_expect(&ring, taken, length[taken]);
            taken++;
            ring_consumer_publish(&ring.consumer);
        }
        expect_empty(&ring);
        assert_int_equal(ring.consumer.head, ring.producer.tail);
        fixture_close(&ring);
    }
}

/* The largest record fits an empty ring at every offset, behind a pad of every length. */
static void largest_record_fits_everywhere(void **state)
{
    struct ring_fixture ring;

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    for (uint64_t at = 0; at < SIZE; at += 8) {
        fixture_rewind(&ring, UINT64_MAX - 2 * SIZE + 1 + at);
        assert_int_equal(record_put(&ring, at, SIZE / 2 - HEADER), TS_OK);
        ring_producer_publish(&ring.producer);
        record_expect(&ring, at, SIZE / 2 - HEADER);
        expect_empty(&ring);
        ring_consumer_publish(&ring.consumer);
        assert_int_equal(atomic_peek(&ring.words.head), atomic_peek(&ring.words.tail));
    }
    fixture_close(&ring);
}

static void too_long_record_is_refused_at_once(void **state)
{
    struct ring_fixture ring;
    uint8_t *record;

    (void)state;
    fixture_open(&ring, SIZE, 1, 64);
    assert_int_equal(ring_record_claim(&ring.producer, SIZE / 2 + 8, &record), TS_ERR_TOO_LONG);
    assert_int_equal(ring_record_claim(&ring.producer, UINT64_MAX - 7, &record), TS_ERR_TOO_LONG);
    assert_int_equal(ring.producer.tail, 64);
    fixture_close(&ring);
}

static void full_ring_claims_nothing(void **state)
{
    struct ring_fixture ring;
    uint64_t before;

    (void)state;
    fixture_open(&ring, SIZE, 1, SIZE - 1024);
    assert_int_equal(record_put(&ring, 0, SIZE / 2 - HEADER), TS_OK); /* pad 1024 + 2048 */
    assert_int_equal(record_put(&ring, 1, 960 - HEADER), TS_OK);
    before = ring.producer.tail;
    assert_int_equal(record_put(&ring, 2, 100), TS_AGAIN);
    assert_int_equal(ring.producer.tail, before);
    ring_producer_publish(&ring.producer);
    record_expect(&ring, 0, SIZE / 2 - HEADER);
    assert_int_equal(record_put(&ring, 2, 100), TS_AGAIN);
    ring_consumer_publish(&ring.consumer);
    assert_int_equal(record_put(&ring, 2, 100), TS_OK);
    ring_producer_publish(&ring.producer);
    record_expect(&ring, 1, 960 - HEADER);
    record_expect(&ring, 2, 100);
    expect_empty(&ring);
    fixture_close(&ring);
}

static void claim_refuses_impossible_heads(void **state)
{
    struct ring_fixture ring;
    uint64_t before;

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    assert_int_equal(record_put(&ring, 0, 2000), TS_OK);
    assert_int_equal(record_put(&ring, 1, 1900), TS_OK);
    ring_producer_publish(&ring.producer);
    before = ring.producer.tail;
    atomic_set(&ring.words.head, before + 8);
    assert_int_equal(record_put(&ring, 2, 1000), TS_ERR_PROTOCOL);
    atomic_set(&ring.words.head, UINT64_MAX - 7);
    assert_int_equal(record_put(&ring, 2, 1000), TS_ERR_PROTOCOL);
    assert_int_equal(ring.producer.tail, before);
    fixture_close(&ring);
}

/* One forged header at `at`, with `published` bytes said to be there. */
struct forgery {
    const char *what;
    uint64_t at, published;
    struct notify_record header;
};

#define MESSAGE NOTIFY_KIND_MESSAGE
static const struct forgery forgeries[] = {
    {"size 0", 0, 64, {.size = 0, .kind = MESSAGE}},
    {"size 0, pad", 0, 64, {.size = 0, .kind = NOTIFY_KIND_PAD}},
    {"size below the header", 0, 64, {.size = 24, .kind = MESSAGE}},
    {"size not a multiple of 8", 0, 64, {.size = 36, .kind = MESSAGE, .msg_len = 4}},
    {"size beyond what was published", 0, 64, {.size = 72, .kind = MESSAGE, .msg_len = 40}},
    {"size beyond the ring's end", SIZE - 64, 128, {.size = 72, .kind = MESSAGE, .msg_len = 40}},
    {"size beyond everything", 0, SIZE, {.size = 0xfffffff8, .kind = MESSAGE, .msg_len = 1}},
    {"header beyond the ring's end", SIZE - 24, 128, {.size = 24, .kind = MESSAGE}},
    {"header beyond what was published", 0, 24, {.size = 32, .kind = MESSAGE}},
    {"less than size and kind", 0, 4, {.size = 32, .kind = MESSAGE}},
    {"tail not aligned", 0, 36, {.size = 40, .kind = MESSAGE, .msg_len = 8}},
    {"unknown kind", 0, 64, {.size = 64, .kind = 3, .msg_len = 32}},
    {"kind all ones", 0, 64, {.size = 64, .kind = 0xffff, .msg_len = 32}},
    {"message shorter than its record", 0, 64, {.size = 64, .kind = MESSAGE, .msg_len = 24}},
    {"message longer than its record", 0, 64, {.size = 64, .kind = MESSAGE, .msg_len = 33}},
    {"name longer than its record", 0, 64, {.size = 64, .kind = MESSAGE, .name_len = 0x80000000}},
    {"from longer than its record", 0, 64, {.size = 64, .kind = MESSAGE, .from_len = 0xffff}},
    {"lengths that overflow 32 bits",
     0,
     64,
     {.size = 64, .kind = MESSAGE, .name_len = 0x80000000, .msg_len = 0x80000020}},
    {"lengths that overflow and wrap to 0",
     0,
     32,
     {.size = 32, .kind = MESSAGE, .name_len = 0xffffffff, .msg_len = 1}},
    {"pad in the middle", 0, 64, {.size = 8, .kind = NOTIFY_KIND_PAD}},
    {"pad short of the end", SIZE - 64, 64, {.size = 56, .kind = NOTIFY_KIND_PAD}},
    {"pad beyond the end", SIZE - 64, 128, {.size = 72, .kind = NOTIFY_KIND_PAD}},
    {"pad beyond what was published", SIZE - 64, 32, {.size = 64, .kind = NOTIFY_KIND_PAD}},
};

static void forged_headers_are_refused(void **state)
{
    struct ring_fixture ring;

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        const struct forgery *forgery = &forgeries[i];
        uint64_t to_end = SIZE - forgery->at;
        struct notify_record header;
        const uint8_t *body;
        int rc;

        fixture_rewind(&ring, UINT64_MAX - 2 * SIZE + 1 + forgery->at);
        memset(ring.bytes, 0xee, SIZE);
        memcpy(ring.bytes + forgery->at, &forgery->header,
               to_end < sizeof(header) ? to_end : sizeof(header));
        atomic_set(&ring.words.tail, ring.consumer.head + forgery->published);
        rc = ring_record_peek(&ring.consumer, &header, &body);
        if (rc != TS_ERR_PROTOCOL)
            fail_msg("%s: %d instead of TS_ERR_PROTOCOL", forgery->what, rc);
    }
    fixture_close(&ring);
}

/* A pad that fills the whole ring is useless and harmless; the next look must end. */
static void pads_cannot_keep_the_consumer_busy(void **state)
{
    struct ring_fixture ring;
    struct notify_record pad = {.size = SIZE, .kind = NOTIFY_KIND_PAD};

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    memcpy(ring.bytes, &pad, sizeof(pad));
    atomic_set(&ring.words.tail, SIZE);
    expect_empty(&ring);
    assert_int_equal(ring.consumer.head, SIZE);
    fixture_close(&ring);
}

/* The checked copy is what the caller gets: later changes in the ring do not reach it. */
static void header_is_a_private_copy(void **state)
{
    struct ring_fixture ring;
    struct notify_record header;
    const uint8_t *body;

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    assert_int_equal(record_put(&ring, 5, 100), TS_OK);
    ring_producer_publish(&ring.producer);
    assert_int_equal(ring_record_peek(&ring.consumer, &header, &body), TS_OK);
    memset(ring.bytes, 0xff, HEADER);
    assert_int_equal(header.msg_len, 100);
    ring_record_consume(&ring.consumer, &header);
    expect_empty(&ring);
    fixture_close(&ring);
}

#define AT_RECORD 136 /* header and 100 bytes */

/* Three records of AT_RECORD are published; a descriptor names `pos`, counted from the first. */
static int record_at(struct ring_fixture *ring, int64_t pos, uint32_t size)
{
    struct notify_record header;
    const uint8_t *body;
    uint64_t start = ring->consumer.head;
    int rc;

    for (uint64_t seq = 0; seq < 3; seq++)
        assert_int_equal(record_put(ring, seq, 100), TS_OK);
    ring_producer_publish(&ring->producer);
    rc = ring_record_at(&ring->consumer, start + (uint64_t)pos, size, &header, &body);
    if (rc == TS_OK) {
        assert_int_equal(header.bytes * AT_RECORD, pos);
        assert_int_equal(body[99], pattern(header.bytes, 99));
        ring_record_consume(&ring->consumer, &header);
        /* The same one a second time is behind the head. */
        assert_int_equal(
            ring_record_at(&ring->consumer, start + (uint64_t)pos, size, &header, &body),
            TS_ERR_PROTOCOL);
    }
    return rc;
}

static void record_at_finds_what_a_descriptor_names(void **state)
{
    static const struct {
        int64_t pos;
        uint32_t more;
        int verdict;
    } cases[] = {
        {0, 0, TS_OK},
        {AT_RECORD, 0, TS_OK}, /* the one before belongs to nobody and is skipped */
        {2 * AT_RECORD, 0, TS_OK},
        {0, 8, TS_ERR_PROTOCOL},
        {AT_RECORD, UINT32_MAX - 7, TS_ERR_PROTOCOL},
        {8, 0, TS_ERR_PROTOCOL}, /* inside a record */
        {4, 0, TS_ERR_PROTOCOL},
        {-8, 0, TS_ERR_PROTOCOL},
        {-(int64_t)SIZE, 0, TS_ERR_PROTOCOL},
        {3 * AT_RECORD, 0, TS_ERR_PROTOCOL}, /* not published */
        {SIZE, 0, TS_ERR_PROTOCOL},
        {INT64_MIN, 0, TS_ERR_PROTOCOL},
    };
    struct ring_fixture ring;

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    for (size_t s = 0; s < STARTS; s++) {
        if ((starts[s] & (SIZE - 1)) > SIZE - 3 * AT_RECORD)
            continue; /* a pad lies between them: the next test */
        for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
            fixture_rewind(&ring, starts[s]);
            memset(ring.bytes, 0xee, SIZE);
            assert_int_equal(record_at(&ring, cases[c].pos, AT_RECORD + cases[c].more),
                             cases[c].verdict);
        }
    }
    fixture_close(&ring);
}

/* The record stands behind the pad; a descriptor that names the pad has made it up. */
static void record_at_refuses_the_place_of_a_pad(void **state)
{
    struct ring_fixture ring;
    struct notify_record header;
    const uint8_t *body;

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    for (int lie = 0; lie < 2; lie++) {
        fixture_rewind(&ring, UINT64_MAX - 15);
        assert_int_equal(record_put(&ring, 1, 100), TS_OK);
        ring_producer_publish(&ring.producer);
        assert_int_equal(
            ring_record_at(&ring.consumer, lie ? UINT64_MAX - 15 : 0, AT_RECORD, &header, &body),
            lie ? TS_ERR_PROTOCOL : TS_OK);
    }
    fixture_close(&ring);
}

static void record_at_refuses_an_empty_ring(void **state)
{
    struct ring_fixture ring;
    struct notify_record header;
    const uint8_t *body;

    (void)state;
    fixture_open(&ring, SIZE, 1, 64);
    assert_int_equal(ring_record_at(&ring.consumer, 64, AT_RECORD, &header, &body),
                     TS_ERR_PROTOCOL);
    fixture_close(&ring);
}

/* The second record is published after the first look: the cached tail is not enough. */
static void record_at_looks_at_the_tail_again(void **state)
{
    struct ring_fixture ring;
    struct notify_record header;
    const uint8_t *body;
    uint32_t size = (uint32_t)ring_record_size(0, 0, 100);

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    for (uint64_t seq = 0; seq < 100; seq++) {
        uint64_t at;

        assert_int_equal(record_put(&ring, seq, 100), TS_OK);
        at = ring.producer.tail - size;
        ring_producer_publish(&ring.producer);
        assert_int_equal(ring_record_at(&ring.consumer, at, size, &header, &body), TS_OK);
        assert_int_equal(header.bytes, seq);
        ring_record_consume(&ring.consumer, &header);
        ring_consumer_publish(&ring.consumer);
    }
    atomic_set(&ring.words.tail, ring.consumer.head + SIZE + 8);
    assert_int_equal(ring_record_at(&ring.consumer, ring.consumer.head, size, &header, &body),
                     TS_ERR_PROTOCOL);
    atomic_set(&ring.words.tail, ring.consumer.head - 8);
    assert_int_equal(ring_record_at(&ring.consumer, ring.consumer.head, size, &header, &body),
                     TS_ERR_PROTOCOL);
    fixture_close(&ring);
}

/* Events come from the worker only; a job that sends one has forged it. */
static void record_at_refuses_events(void **state)
{
    struct ring_fixture ring;
    struct notify_record header;
    const uint8_t *body;

    (void)state;
    fixture_open(&ring, SIZE, 1, 0);
    assert_int_equal(record_put(&ring, 1, 100), TS_OK);
    ((struct notify_record *)(void *)ring.bytes)->kind = NOTIFY_KIND_EVENT;
    ring_producer_publish(&ring.producer);
    assert_int_equal(ring_record_peek(&ring.consumer, &header, &body), TS_OK);
    assert_int_equal(ring_record_at(&ring.consumer, 0, header.size, &header, &body),
                     TS_ERR_PROTOCOL);
    fixture_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_size_is_header_and_body_rounded_up),
        cmocka_unit_test(records_survive_wrap_around),
        cmocka_unit_test(largest_record_fits_everywhere),
        cmocka_unit_test(too_long_record_is_refused_at_once),
        cmocka_unit_test(full_ring_claims_nothing),
        cmocka_unit_test(claim_refuses_impossible_heads),
        cmocka_unit_test(forged_headers_are_refused),
        cmocka_unit_test(pads_cannot_keep_the_consumer_busy),
        cmocka_unit_test(header_is_a_private_copy),
        cmocka_unit_test(record_at_finds_what_a_descriptor_names),
        cmocka_unit_test(record_at_refuses_the_place_of_a_pad),
        cmocka_unit_test(record_at_refuses_an_empty_ring),
        cmocka_unit_test(record_at_looks_at_the_tail_again),
        cmocka_unit_test(record_at_refuses_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
