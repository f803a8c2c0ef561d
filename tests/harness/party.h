/* One attached session and the steps that every test takes with it, each with a deadline. */
#ifndef TESUP_TESTS_HARNESS_PARTY_H
#define TESUP_TESTS_HARNESS_PARTY_H

#include <stdbool.h>
#include <stdint.h>
#include <tesup.h>

#include "tests/harness/daemon.h"

struct party {
    struct tesup_session *session;
    struct tesup_channel *channel;
};

enum party_memory {
    PARTY_MEMORY_ALLOC,   /* tesup_mem_alloc */
    PARTY_MEMORY_MEMFD,   /* a memfd without seals */
    PARTY_MEMORY_SHM,     /* shm_open */
    PARTY_MEMORY_HUGETLB, /* only where the machine has huge pages */
    PARTY_MEMORY_PRIVATE, /* malloc'ed */
    PARTY_MEMORY_COUNT
};
extern const char *const party_memory_names[PARTY_MEMORY_COUNT];

struct party_region {
    enum party_memory kind;
    uint8_t *bytes;
    uint64_t size;
    tesup_region_t handle;
    int fd;
};

/* Fails with both phrases unless `code` is success. */
void party_check(int code, const char *what);
#define party_expect(code, expected) party_expect_at((code), (expected), __FILE__, __LINE__)
void party_expect_at(int code, int expected, const char *file, int line);

/* `segment` may be NULL. */
void party_attach(struct party *party, const struct daemon *daemon, const char *segment);
void party_detach(struct party *party);
tesup_remote_t party_open(const struct party *party, const char *name);

/* False when this machine has no memory of that kind. */
bool party_region_create(const struct party *party, enum party_memory kind, uint64_t size,
                         uint32_t access, struct party_region *region);
void party_region_free(const struct party *party, struct party_region *region);

/* Submits one request, as often as it takes; returns its ticket. */
uint64_t party_submit(struct tesup_channel *channel, const struct tesup_request *request);
/* Waits for the next completion of the channel. */
struct tesup_completion party_complete(struct tesup_channel *channel);
/* Both; a completion with TESUP_AGAIN submits it again. */
struct tesup_completion party_do(struct tesup_channel *channel,
                                 const struct tesup_request *request);
/* Waits for the next notification or event and leaves it to be released. */
struct tesup_notification party_next(struct tesup_channel *channel);
/* Nothing arrives for `ms`. */
void party_expect_silence(struct tesup_channel *channel, unsigned ms);
bool party_name_is(const struct tesup_notification *note, const char *name);

/* Bytes that depend on seed and position. */
void party_fill(uint8_t *bytes, uint64_t length, uint64_t seed);
/* Names the first wrong byte. */
void party_verify(const uint8_t *bytes, uint64_t length, uint64_t seed, const char *what);
/* Every byte has this value. */
void party_verify_byte(const uint8_t *bytes, uint64_t length, uint8_t value, const char *what);

#endif
