/* A hostile peer: one thread scribbles over the shared words and bytes while the other uses them.
 *
 * The victim may be told nonsense and may refuse at any moment; it may never read or write beside
 * the ring (guard pages on both sides), never loop for ever, never crash.  Scribbling and reading
 * race on purpose, which is why this program does not run under ThreadSanitizer.
 */
#include "tests/unit/shm/ring_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#define SIZE     4096u
#define PLAY_MS  1500
#define LIMIT_MS 30000 /* on a machine where the two threads seldom run side by side */
#define ENOUGH   100u  /* verdicts of each kind that a run must have seen */
#define UNLIKELY 64

struct attack {
    struct ring_fixture ring;
    uint64_t step;      /* between two honest counter values */
    bool victim_writes; /* then head is forged, else tail */
    _Atomic uint64_t stop;
    uint64_t accepted, refused, bytes_read;
};

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void scribble_word(struct attack *attack, uint64_t where, uint64_t value)
{
    _Atomic uint64_t *words = (void *)attack->ring.bytes;

    atomic_set(&words[where % (SIZE / 8)], value);
}

/* A header that is right, or nearly: what is refused at once tests nothing behind the check. */
static void scribble_header(struct attack *attack, uint64_t *random)
{
    uint64_t at = fixture_random(random) % SIZE & ~UINT64_C(7);
    uint64_t length = fixture_random(random) % 256;
    uint64_t size = ring_record_size(0, 0, length);
    uint64_t kind = NOTIFY_KIND_MESSAGE;

    if (at + size > SIZE || fixture_random(random) % 8 == 0) {
        size = SIZE - at;
        kind = NOTIFY_KIND_PAD;
    }
    if (fixture_random(random) % UNLIKELY == 0)
        size = fixture_random(random);
    if (fixture_random(random) % UNLIKELY == 0)
        length = fixture_random(random);
    scribble_word(attack, at / 8, (size & UINT32_MAX) | kind << 32);
    scribble_word(attack, at / 8 + 1, length << 32);
}

/* The counter: mostly possible, often backwards, sometimes wild, always changing. */
static void scribble_counter(struct attack *attack, uint64_t *random)
{
    struct ring_shared *words = &attack->ring.words;
    uint64_t dice = fixture_random(random);
    uint64_t some = (dice >> 8) % (attack->ring.size / attack->step + 1) * attack->step;

    if (dice % UNLIKELY == 0)
        some = fixture_random(random);
    if (attack->victim_writes)
        atomic_set(&words->head, atomic_peek(&words->tail) - some);
    else
        atomic_set(&words->tail, atomic_peek(&words->head) + some);
}

static void *mutator(void *arg)
{
    struct attack *attack = arg;
    uint64_t random = 0x1234567;

    while (atomic_peek(&attack->stop) == 0) {
        scribble_header(attack, &random);
        if (fixture_random(&random) % 4 == 0)
            scribble_counter(attack, &random);
        if (fixture_random(&random) % 16 == 0)
            scribble_word(attack, fixture_random(&random), fixture_random(&random));
        if (fixture_random(&random) % UNLIKELY == 0)
            sched_yield(); /* both may have to share one CPU */
    }
    return NULL;
}

static void expect_inside(const struct attack *attack, const uint8_t *from, uint64_t length)
{
    const uint8_t *end = attack->ring.bytes + SIZE;

    assert_true(from >= attack->ring.bytes && from <= end);
    assert_true(length <= (uint64_t)(end - from));
}

/* A refusal ends the session; here the next one begins where this one ended. */
static void session_restart(struct attack *attack)
{
    uint64_t start =
        attack->victim_writes ? attack->ring.producer.tail : attack->ring.consumer.head;

    attack->refused++;
    fixture_rewind(&attack->ring, start);
}

static void read_record(struct attack *attack)
{
    struct ring_consumer *ring = &attack->ring.consumer;
    struct notify_record header;
    const uint8_t *body;
    int rc = ring_record_peek(ring, &header, &body);

    if (rc == TS_AGAIN)
        return;
    if (rc != TS_OK) {
        session_restart(attack);
        return;
    }
    uint64_t length = (uint64_t)header.from_len + header.name_len + header.msg_len;

    expect_inside(attack, body, length);
    for (uint64_t i = 0; i < length; i++)
        attack->bytes_read += body[i] != 0;
    ring_record_consume(ring, &header);
    assert_true(ring->tail - ring->head <= SIZE);
    if (length % 4 == 0)
        ring_consumer_publish(ring);
    attack->accepted++;
}

static void read_named_record(struct attack *attack)
{
    struct ring_consumer *ring = &attack->ring.consumer;
    const _Atomic uint64_t *words = (void *)attack->ring.bytes;
    /* The descriptor names the size that stands there now; the header may change before the copy.
     */
    uint32_t size = (uint32_t)atomic_peek(&words[(ring->head & (SIZE - 1)) / 8]);
    struct notify_record header;
    const uint8_t *body;

    if (ring_record_at(ring, ring->head, size, &header, &body) != TS_OK) {
        session_restart(attack);
        return;
    }
    expect_inside(attack, body, (uint64_t)header.from_len + header.name_len + header.msg_len);
    ring_record_consume(ring, &header);
    ring_consumer_publish(ring);
    attack->accepted++;
}

static void write_record(struct attack *attack)
{
    uint64_t length = attack->accepted % 1000;
    uint64_t size = ring_record_size(0, 0, length);
    uint8_t *record;
    int rc = ring_record_claim(&attack->ring.producer, size, &record);

    if (rc == TS_ERR_PROTOCOL)
        session_restart(attack);
    if (rc != TS_OK)
        return;
    expect_inside(attack, record, size);
    memset(record, 0x40, size);
    ring_producer_publish(&attack->ring.producer);
    attack->accepted++;
}

static void read_slots(struct attack *attack)
{
    struct ring_consumer *ring = &attack->ring.consumer;
    uint64_t ready;

    if (ring_consumer_ready(ring, &ready) != TS_OK) {
        session_restart(attack);
        return;
    }
    assert_true(ready <= ring->size);
    for (uint64_t i = 0; i < ready; i++) {
        struct sqe sqe;

        ring_slot_read(ring, &sqe, sizeof(sqe));
        ring->head++;
        attack->bytes_read += sqe.op != 0;
    }
    ring_consumer_publish(ring);
    attack->accepted += ready > 0;
}

/* Both kinds of verdict, or the attack was not one. */
static bool attack_told(const struct attack *attack)
{
    return attack->accepted > ENOUGH && attack->refused > ENOUGH;
}

static void attack_play(struct attack *attack, void (*victim)(struct attack *))
{
    uint64_t start = now_ms();
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, mutator, attack), 0);
    while (now_ms() - start < (attack_told(attack) ? PLAY_MS : LIMIT_MS)) {
        for (int i = 0; i < 100; i++)
            victim(attack);
        sched_yield();
    }
    atomic_set(&attack->stop, 1);
    pthread_join(thread, NULL);
    print_message("accepted %llu, refused %llu, looked at %llu bytes\n",
                  (unsigned long long)attack->accepted, (unsigned long long)attack->refused,
                  (unsigned long long)attack->bytes_read);
    assert_true(attack_told(attack));
    fixture_close(&attack->ring);
}

static void reader_of_records(void **state)
{
    struct attack attack = {.step = 8};

    (void)state;
    fixture_open(&attack.ring, SIZE, 1, UINT64_MAX - 7);
    attack_play(&attack, read_record);
}

static void reader_of_named_records(void **state)
{
    struct attack attack = {.step = 8};

    (void)state;
    fixture_open(&attack.ring, SIZE, 1, UINT64_MAX - 7);
    attack_play(&attack, read_named_record);
}

static void writer_of_records(void **state)
{
    struct attack attack = {.step = 8, .victim_writes = true};

    (void)state;
    fixture_open(&attack.ring, SIZE, 1, UINT64_MAX - 7);
    attack_play(&attack, write_record);
}

static void reader_of_slots(void **state)
{
    struct attack attack = {.step = 1};

    (void)state;
    fixture_open(&attack.ring, SIZE / sizeof(struct sqe), sizeof(struct sqe), UINT64_MAX);
    attack_play(&attack, read_slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_of_records),
        cmocka_unit_test(reader_of_named_records),
        cmocka_unit_test(writer_of_records),
        cmocka_unit_test(reader_of_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
