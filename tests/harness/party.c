#include "tests/harness/test.h"

#include "tests/harness/party.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/harness/wait.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

const char *const party_memory_names[PARTY_MEMORY_COUNT] = {"mem_alloc", "memfd", "shm_open",
                                                            "hugetlb", "private"};

void party_check(int code, const char *what)
{
    if (code != TESUP_OK)
        fail_msg("%s: %s: %s", what, tesup_strerror(code), tesup_last_error());
}

void party_expect_at(int code, int expected, const char *file, int line)
{
    if (code != expected)
        fail_msg("%s:%d: '%s' instead of '%s': %s", file, line, tesup_strerror(code),
                 tesup_strerror(expected), tesup_last_error());
}

void party_attach(struct party *party, const struct daemon *daemon, const char *segment)
{
    struct tesup_options options = {.socket = daemon->socket, .segment = segment};

    party_check(tesup_attach(&options, &party->session), "attach");
    party->channel = tesup_channel_main(party->session);
}

void party_detach(struct party *party)
{
    tesup_detach(party->session);
    party->session = NULL;
    party->channel = NULL;
}

tesup_remote_t party_open(const struct party *party, const char *name)
{
    tesup_remote_t remote;

    party_check(tesup_segment_open(party->session, name, &remote), name);
    return remote;
}

static int file_create(enum party_memory kind, uint64_t size)
{
    char name[64];
    int fd;

    if (kind == PARTY_MEMORY_SHM) {
        snprintf(name, sizeof(name), "/tesup-test-%d", (int)getpid());
        fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        shm_unlink(name);
    } else {
        fd = memfd_create("tesup-test",
                          kind == PARTY_MEMORY_HUGETLB ? MFD_CLOEXEC | MFD_HUGETLB : MFD_CLOEXEC);
    }
    if (fd >= 0 && ftruncate(fd, (off_t)size) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool region_create_file(const struct party *party, struct party_region *region,
                               uint32_t access)
{
    void *bytes;

    if (region->kind == PARTY_MEMORY_HUGETLB)
        region->size = (region->size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    region->fd = file_create(region->kind, region->size);
    if (region->fd < 0 && region->kind == PARTY_MEMORY_HUGETLB)
        return false;
    assert_true(region->fd >= 0);
    bytes = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
    if (bytes == MAP_FAILED && region->kind == PARTY_MEMORY_HUGETLB) {
        close(region->fd);
        return false;
    }
    assert_ptr_not_equal(bytes, MAP_FAILED);
    region->bytes = bytes;
    party_check(tesup_mem_register_fd(party->session, region->fd, 0, region->size, bytes, access,
                                      &region->handle),
                party_memory_names[region->kind]);
    return true;
}

bool party_region_create(const struct party *party, enum party_memory kind, uint64_t size,
                         uint32_t access, struct party_region *region)
{
    void *bytes = NULL;

    *region = (struct party_region){.kind = kind, .size = size, .fd = -1};
    if (kind == PARTY_MEMORY_ALLOC) {
        party_check(tesup_mem_alloc(party->session, size, access, &bytes, &region->handle),
                    "tesup_mem_alloc");
        region->bytes = bytes;
        return true;
    }
    if (kind != PARTY_MEMORY_PRIVATE)
        return region_create_file(party, region, access);
    region->bytes = malloc(size);
    assert_non_null(region->bytes);
    party_check(tesup_mem_register(party->session, region->bytes, size, access, &region->handle),
                "tesup_mem_register");
    return true;
}

void party_region_free(const struct party *party, struct party_region *region)
{
    if (region->kind == PARTY_MEMORY_ALLOC) {
        party_check(tesup_mem_free(party->session, region->handle), "tesup_mem_free");
        return;
    }
    party_check(tesup_mem_unregister(party->session, region->handle), "tesup_mem_unregister");
    if (region->kind == PARTY_MEMORY_PRIVATE) {
        free(region->bytes);
        return;
    }
    munmap(region->bytes, region->size);
    close(region->fd);
}

uint64_t party_submit(struct tesup_channel *channel, const struct tesup_request *request)
{
    struct wait wait = wait_begin("room for a request", WAIT_MS);
    uint32_t accepted = 0;
    uint64_t ticket = 0;
    int code;

    while ((code = tesup_submit(channel, request, 1, &ticket, &accepted)) == TESUP_AGAIN)
        wait_step(&wait);
    party_check(code, "submit");
    assert_int_equal(accepted, 1);
    return ticket;
}

/* Sleeps in tesup_wait, as a job does, but not for ever. */
static void channel_sleep(struct tesup_channel *channel, const struct wait *wait)
{
    int code = tesup_wait(channel, 100);

    if (code != TESUP_ERR_TIMEOUT)
        party_check(code, wait->what);
    else if (wait_now_ms() >= wait->until_ms)
        fail_msg("too late: %s", wait->what);
}

struct tesup_completion party_complete(struct tesup_channel *channel)
{
    struct wait wait = wait_begin("a completion", WAIT_MS);
    struct tesup_completion completion;
    int got;

    while ((got = tesup_poll(channel, &completion, 1)) == 0) {
        struct tesup_notification note;
        /* An unread notification wakes tesup_wait at once: then only time can pass. */
        if (tesup_notify_peek(channel, &note) == TESUP_OK)
            wait_step(&wait);
        else
            channel_sleep(channel, &wait);
    }
    assert_int_equal(got, 1);
    return completion;
}

struct tesup_completion party_do(struct tesup_channel *channel, const struct tesup_request *request)
{
    struct wait wait = wait_begin("an accepted request", WAIT_MS);
    struct tesup_completion completion;

    for (;;) {
        party_submit(channel, request);
        completion = party_complete(channel);
        if (completion.status != TESUP_AGAIN)
            return completion;
        wait_step(&wait);
    }
}

struct tesup_notification party_next(struct tesup_channel *channel)
{
    struct wait wait = wait_begin("a notification", WAIT_MS);
    struct tesup_notification note;
    int code;

    while ((code = tesup_notify_peek(channel, &note)) == TESUP_AGAIN)
        wait_step(&wait);
    party_check(code, "notification");
    return note;
}

void party_expect_silence(struct tesup_channel *channel, unsigned ms)
{
    uint64_t until = wait_now_ms() + ms;
    struct tesup_notification note;
    struct tesup_completion completion;

    while (wait_now_ms() < until) {
        party_expect(tesup_notify_peek(channel, &note), TESUP_AGAIN);
        assert_int_equal(tesup_poll(channel, &completion, 1), 0);
        wait_sleep_ms(5);
    }
}

bool party_name_is(const struct tesup_notification *note, const char *name)
{
    return note->name_len == strlen(name) && memcmp(note->name, name, note->name_len) == 0;
}

/* Its own sequence for every position of 8 bytes, so that no shift goes unseen. */
static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
    uint64_t word = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + index;

    word ^= word >> 29;
    word *= UINT64_C(0xbf58476d1ce4e5b9);
    return word ^ word >> 32;
}

void party_fill(uint8_t *bytes, uint64_t length, uint64_t seed)
{
    for (uint64_t at = 0; at < length; at += 8) {
        uint64_t word = pattern_word(seed, at / 8);
        memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
    }
}

void party_verify(const uint8_t *bytes, uint64_t length, uint64_t seed, const char *what)
{
    for (uint64_t at = 0; at < length; at += 8) {
        uint64_t word = pattern_word(seed, at / 8);
        if (memcmp(bytes + at, &word, length - at < 8 ? length - at : 8) != 0)
            fail_msg("%s: wrong bytes at %" PRIu64 " of %" PRIu64, what, at, length);
    }
}

void party_verify_byte(const uint8_t *bytes, uint64_t length, uint8_t value, const char *what)
{
    if (length > 0 && (bytes[0] != value || memcmp(bytes, bytes + 1, length - 1) != 0))
        fail_msg("%s: bytes were touched that must not be", what);
}
