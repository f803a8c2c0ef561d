/* Two threads over one ring: random batches, sleeping on doorbells, no wake-up lost, no byte torn.
 *
 * The producer sleeps when the ring is full, the consumer when it is empty, both on real eventfds
 * under a deadline that only a lost wake-up can reach.  TESUP_SEED repeats a run.
 */
#include "tests/unit/shm/ring_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "shm/doorbell.h"

#define DEADLINE_MS 20000
#define SLOT_COUNT  200000u
#define BYTE_COUNT  60000u
#define BYTE_SIZE   4096u

struct duet {
    struct ring_fixture ring;
    struct doorbell_shared data_word, room_word;
    struct doorbell data_bell; /* the consumer sleeps */
    struct doorbell room_bell; /* the producer sleeps */
    uint64_t count;
    uint64_t seed;
    uint64_t sleeps[2];
    const char *error[2]; /* of the producer, of the consumer; NULL = fine */
};

static uint64_t duet_seed(void)
{
    const char *given = getenv("TESUP_SEED");
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return given != NULL ? strtoull(given, NULL, 0)
                         : (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
}

/* Sleeps on an armed bell, then: drain, disarm, and the caller looks again. */
static bool bell_sleep(const struct doorbell *bell)
{
    struct pollfd ready = {.fd = bell->fd, .events = POLLIN};
    bool woken = poll(&ready, 1, DEADLINE_MS) == 1;

    doorbell_drain(bell->fd);
    doorbell_disarm(bell);
    return woken;
}

/* Shifts the two threads against each other, so that every interleaving gets its chance. */
static void dawdle(uint64_t *random)
{
    uint64_t dice = fixture_random(random) % 64;

    if (dice == 0)
        sched_yield();
    for (uint64_t i = 0; dice > 48 && i < (dice - 48) * 8; i++)
        cpu_relax();
}

/* Waits until `want` fits: NULL, or what went wrong. */
static const char *wait_for_room(struct duet *duet, uint64_t want)
{
    for (;;) {
        int rc = ring_producer_room(&duet->ring.producer, want);

        if (rc == TS_OK)
            return NULL;
        if (rc != TS_AGAIN)
            return "the producer saw an impossible head";
        doorbell_arm(&duet->room_bell);
        if (ring_producer_room(&duet->ring.producer, want) != TS_AGAIN) {
            doorbell_disarm(&duet->room_bell);
            continue;
        }
        duet->sleeps[0]++;
        if (!bell_sleep(&duet->room_bell))
            return "the producer was never woken";
    }
}

static const char *wait_for_data(struct duet *duet)
{
    for (;;) {
        uint64_t ready;

        if (ring_consumer_ready(&duet->ring.consumer, &ready) != TS_OK)
            return "the consumer saw an impossible tail";
        if (ready > 0)
            return NULL;
        doorbell_arm(&duet->data_bell);
        if (ring_consumer_ready(&duet->ring.consumer, &ready) != TS_OK || ready > 0) {
            doorbell_disarm(&duet->data_bell);
            continue;
        }
        duet->sleeps[1]++;
        if (!bell_sleep(&duet->data_bell))
            return "the consumer was never woken";
    }
}

static void *slot_producer(void *arg)
{
    struct duet *duet = arg;
    struct ring_producer *ring = &duet->ring.producer;
    uint64_t random = duet->seed | 1;
    uint64_t next = 0;

    while (next < duet->count && duet->error[0] == NULL) {
        uint64_t batch = 1 + fixture_random(&random) % ring->size;

        if (batch > duet->count - next)
            batch = duet->count - next;
        duet->error[0] = wait_for_room(duet, batch);
        for (uint64_t i = 0; duet->error[0] == NULL && i < batch; i++, next++) {
            uint64_t *word = ring_slot_next(ring, sizeof(struct sqe));

            for (uint64_t w = 0; w < sizeof(struct sqe) / 8; w++)
                word[w] = next * 8 + w;
            ring->tail++;
        }
        ring_producer_publish(ring);
        doorbell_ring(&duet->data_bell);
        dawdle(&random);
    }
    return NULL;
}

static void *slot_consumer(void *arg)
{
    struct duet *duet = arg;
    struct ring_consumer *ring = &duet->ring.consumer;
    uint64_t random = ~duet->seed | 1;
    uint64_t next = 0;

    while (next < duet->count && duet->error[1] == NULL) {
        uint64_t batch = 1 + fixture_random(&random) % ring->size;
        uint64_t ready = 0;

        duet->error[1] = wait_for_data(duet);
        while (duet->error[1] == NULL && batch-- > 0 &&
               ring_consumer_ready(ring, &ready) == TS_OK && ready > 0) {
            uint64_t word[sizeof(struct sqe) / 8];

            ring_slot_read(ring, word, sizeof(word));
            ring->head++;
            for (uint64_t w = 0; w < sizeof(word) / 8; w++)
                if (word[w] != next * 8 + w)
                    duet->error[1] = "an entry was torn, lost or doubled";
            next++;
        }
        ring_consumer_publish(ring);
        doorbell_ring(&duet->room_bell);
        dawdle(&random);
    }
    return NULL;
}

static uint32_t record_length(uint64_t *random)
{
    uint64_t dice = fixture_random(random);

    return (uint32_t)(dice % 4 == 0 ? (dice >> 8) % (BYTE_SIZE / 2 - 40) : (dice >> 8) % 64);
}

static void *byte_producer(void *arg)
{
    struct duet *duet = arg;
    struct ring_producer *ring = &duet->ring.producer;
    uint64_t random = duet->seed | 1;
    uint64_t lengths = duet->seed ^ 0x5555; /* the consumer draws the same ones */

    for (uint64_t next = 0; next < duet->count && duet->error[0] == NULL;) {
        uint32_t length = record_length(&lengths);
        uint64_t size = ring_record_size(0, 0, length);
        uint8_t *record = NULL;

        /* Room for the record and the largest pad before it: then claim cannot say AGAIN. */
        if (ring_record_claim(ring, size, &record) == TS_AGAIN) {
            ring_producer_publish(ring);
            doorbell_ring(&duet->data_bell);
            duet->error[0] = wait_for_room(duet, 2 * size);
            if (duet->error[0] == NULL && ring_record_claim(ring, size, &record) != TS_OK)
                duet->error[0] = "a record did not fit where there was room";
        }
        if (duet->error[0] != NULL)
            break;
        *(struct notify_record *)(void *)record = (struct notify_record){
            .size = (uint32_t)size, .kind = NOTIFY_KIND_MESSAGE, .msg_len = length, .bytes = next};
        memset(record + sizeof(struct notify_record), (uint8_t)next, length);
        next++;
        if (fixture_random(&random) % 4 == 0 || next == duet->count) {
            ring_producer_publish(ring);
            doorbell_ring(&duet->data_bell);
        }
        dawdle(&random);
    }
    return NULL;
}

static const char *record_check(const struct notify_record *header, const uint8_t *body,
                                uint64_t seq, uint32_t length)
{
    if (header->bytes != seq || header->msg_len != length)
        return "a record was lost, doubled or torn";
    for (uint32_t i = 0; i < length; i++)
        if (body[i] != (uint8_t)seq)
            return "a record's bytes were torn";
    return NULL;
}

static void *byte_consumer(void *arg)
{
    struct duet *duet = arg;
    struct ring_consumer *ring = &duet->ring.consumer;
    uint64_t random = ~duet->seed | 1;
    uint64_t lengths = duet->seed ^ 0x5555;

    for (uint64_t next = 0; next < duet->count && duet->error[1] == NULL;) {
        struct notify_record header;
        const uint8_t *body;
        int rc = ring_record_peek(ring, &header, &body);

        if (rc == TS_AGAIN) {
            ring_consumer_publish(ring);
            doorbell_ring(&duet->room_bell);
            duet->error[1] = wait_for_data(duet);
            continue;
        }
        if (rc != TS_OK) {
            duet->error[1] = "an honest record was refused";
            break;
        }
        duet->error[1] = record_check(&header, body, next, record_length(&lengths));
        ring_record_consume(ring, &header);
        next++;
        if (fixture_random(&random) % 4 == 0) {
            ring_consumer_publish(ring);
            doorbell_ring(&duet->room_bell);
        }
        dawdle(&random);
    }
    return NULL;
}

static void duet_play(uint64_t size, size_t entry, uint64_t start, uint64_t count,
                      void *(*produce)(void *), void *(*consume)(void *))
{
    struct duet duet = {.count = count, .seed = duet_seed()};
    pthread_t producer, consumer;

    fixture_open(&duet.ring, size, entry, start);
    duet.data_bell = (struct doorbell){&duet.data_word, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    duet.room_bell = (struct doorbell){&duet.room_word, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    print_message("seed %#llx, ring of %llu\n", (unsigned long long)duet.seed,
                  (unsigned long long)size);
    assert_int_equal(pthread_create(&producer, NULL, produce, &duet), 0);
    assert_int_equal(pthread_create(&consumer, NULL, consume, &duet), 0);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
    print_message("the producer slept %llu times, the consumer %llu times\n",
                  (unsigned long long)duet.sleeps[0], (unsigned long long)duet.sleeps[1]);
    for (int i = 0; i < 2; i++)
        if (duet.error[i] != NULL)
            fail_msg("seed %#llx: %s", (unsigned long long)duet.seed, duet.error[i]);
    close(duet.data_bell.fd);
    close(duet.room_bell.fd);
    fixture_close(&duet.ring);
}

static void small_slot_ring(void **state)
{
    (void)state;
    duet_play(4, sizeof(struct sqe), UINT64_MAX - SLOT_COUNT / 2, SLOT_COUNT, slot_producer,
              slot_consumer);
}

static void large_slot_ring(void **state)
{
    (void)state;
    duet_play(256, sizeof(struct sqe), UINT64_MAX - SLOT_COUNT / 2, SLOT_COUNT, slot_producer,
              slot_consumer);
}

static void byte_ring(void **state)
{
    (void)state;
    duet_play(BYTE_SIZE, 1, UINT64_MAX - 7 - UINT64_C(64) * BYTE_SIZE, BYTE_COUNT, byte_producer,
              byte_consumer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_slot_ring),
        cmocka_unit_test(large_slot_ring),
        cmocka_unit_test(byte_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
