/* A ring in memory that faults when anybody touches one byte beside it, and both ends of it. */
#ifndef TESTS_UNIT_SHM_RING_FIXTURE_H
#define TESTS_UNIT_SHM_RING_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "shm/ring.h"

#define FIXTURE_PAGE 4096u

struct ring_fixture {
    struct ring_shared words;
    uint8_t *map;
    uint8_t *bytes; /* ends at a guard page; begins at one when the size is whole pages */
    size_t map_size;
    uint64_t size; /* entries or bytes, as the ring counts */
    struct ring_producer producer;
    struct ring_consumer consumer;
};

static inline void fixture_rewind(struct ring_fixture *fixture, uint64_t start)
{
    atomic_set(&fixture->words.tail, start);
    atomic_set(&fixture->words.head, start);
    ring_producer_init(&fixture->producer, &fixture->words, fixture->bytes, fixture->size, start);
    ring_consumer_init(&fixture->consumer, &fixture->words, fixture->bytes, fixture->size, start);
}

static inline void fixture_open(struct ring_fixture *fixture, uint64_t size, size_t entry,
                                uint64_t start)
{
    size_t bytes = (size_t)size * entry;
    size_t pages = (bytes + FIXTURE_PAGE - 1) / FIXTURE_PAGE;

    fixture->size = size;
    fixture->map_size = (pages + 2) * FIXTURE_PAGE;
    fixture->map = mmap(NULL, fixture->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(fixture->map, MAP_FAILED);
    assert_int_equal(
        mprotect(fixture->map + FIXTURE_PAGE, pages * FIXTURE_PAGE, PROT_READ | PROT_WRITE), 0);
    fixture->bytes = fixture->map + FIXTURE_PAGE + pages * FIXTURE_PAGE - bytes;
    fixture_rewind(fixture, start);
}

static inline void fixture_close(struct ring_fixture *fixture)
{
    munmap(fixture->map, fixture->map_size);
}

/* A small deterministic generator: the same seed gives the same test on every machine. */
static inline uint64_t fixture_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
