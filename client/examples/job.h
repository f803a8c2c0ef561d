/* What receiver.c and sender.c share: their message, and two small waits. */
#ifndef TESUP_EXAMPLES_JOB_H
#define TESUP_EXAMPLES_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tesup.h>

#define JOB_PATIENCE_MS 30000

/* The message of each notification; its name says what the message is about. */
struct note {
    tesup_region_t region;
    uint32_t verified;
    uint64_t length;
    uint64_t seed; /* says what the bytes of the block are */
};

/* Ends the job unless `code` is success: the library's sentence names the cause. */
static inline void job_check(int code, const char *what)
{
    if (code == TESUP_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tesup_strerror(code), tesup_last_error());
    exit(EXIT_FAILURE);
}

/* Submits one request with a notification and waits for its completion. */
static inline void job_do(struct tesup_channel *channel, struct tesup_request request,
                          const char *name, const struct note *note)
{
    struct tesup_completion completion = {.status = TESUP_AGAIN};

    request.name = name;
    request.name_len = (uint32_t)strlen(name);
    request.msg = note;
    request.msg_len = sizeof(*note);
    while (completion.status == TESUP_AGAIN) { /* no room over there: nothing was sent, so again */
        int polled = 0;
        uint32_t accepted = 0;
        job_check(tesup_submit(channel, &request, 1, NULL, &accepted), name);
        while ((polled = tesup_poll(channel, &completion, 1)) == 0)
            job_check(tesup_wait(channel, JOB_PATIENCE_MS), name);
        job_check(polled < 0 ? polled : TESUP_OK, name);
    }
    job_check(completion.status, name);
}

/* Waits for the next notification. What it points at lives until tesup_notify_release(). */
static inline struct tesup_notification job_next(struct tesup_channel *channel, int timeout_ms)
{
    struct tesup_notification next;
    int code;

    while ((code = tesup_notify_peek(channel, &next)) == TESUP_AGAIN)
        job_check(tesup_wait(channel, timeout_ms), "waiting for a notification");
    job_check(code, "notification");
    job_check(next.status, next.kind == TESUP_NOTIFICATION_EVENT ? "the other job is gone"
                                                                 : "the transfer it is bound to");
    return next;
}

static inline bool job_is(const struct tesup_notification *next, const char *name)
{
    return next->msg_len == sizeof(struct note) && next->name_len == strlen(name) &&
           memcmp(next->name, name, next->name_len) == 0;
}

/* The bytes of a block: a xorshift sequence that the seed starts. */
static inline uint64_t job_word(uint64_t word)
{
    word ^= word << 13;
    word ^= word >> 7;
    return word ^ word << 17;
}

static inline void job_fill(void *bytes, uint64_t length, uint64_t seed)
{
    uint64_t *word = bytes;

    for (uint64_t i = 0; i < length / 8; i++)
        word[i] = seed = job_word(seed);
}

static inline bool job_verify(const void *bytes, uint64_t length, uint64_t seed)
{
    const uint64_t *word = bytes;

    for (uint64_t i = 0; i < length / 8; i++)
        if (word[i] != (seed = job_word(seed)))
            return false;
    return true;
}

/* "64K" and "4M" as bytes: a multiple of 8, for the bytes above come in words. */
static inline uint64_t job_size(const char *text)
{
    char *unit;
    uint64_t size = strtoull(text, &unit, 10);
    uint32_t shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;

    if (size == 0 || size > UINT32_MAX || unit[shift ? 1 : 0] != '\0' || (size << shift) % 8) {
        fprintf(stderr, "'%s' is not a size: a multiple of 8 bytes, or a number with K or M\n",
                text);
        exit(2);
    }
    return size << shift;
}

#endif
