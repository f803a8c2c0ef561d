/* One of the two jobs: its session, how it waits, and its conversation with the other job.
 *
 * Functions return 0 or -1 with a sentence in `error`; every wait has a deadline.
 */
#ifndef TESUP_BENCH_PARTY_H
#define TESUP_BENCH_PARTY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/bench/messages.h"
#include "client/bench/options.h"
#include "tesup.h"

#define PARTY_FOREVER  UINT64_MAX
#define PARTY_REPLY_NS (UINT64_C(30) * 1000000000) /* an answer that needs no transfer */
#define PARTY_NAME_MAX 512u
#define PARTY_CQ_BATCH 64u

struct party {
    struct tesup_session *session;
    struct tesup_channel *channel;
    tesup_remote_t remote; /* the other job's segment; 0 before party_peer_open() */
    enum bench_idle idle;
    bool notification_held; /* peeked and not yet released */
    bool peer_failed;       /* it said FAILED: no need to tell it */
    uint32_t next, ready;   /* completions that were polled and not yet handed out */
    struct tesup_completion completions[PARTY_CQ_BATCH];
    uint64_t inbox[MESSAGE_SIZE_MAX / 8]; /* the message, aligned as the ring does not promise */
    char peer[PARTY_NAME_MAX];
    char error[MESSAGE_TEXT_MAX];
};

enum party_event_kind { PARTY_COMPLETION = 1, PARTY_MESSAGE = 2 };

/* Pointers are valid until the next party_event_wait(). */
struct party_event {
    enum party_event_kind kind;
    uint64_t at_ns; /* when this job had it in its hands */
    struct tesup_completion completion;
    struct tesup_notification notification;
    const struct message_head *message; /* at least as long as its kind needs */
    uint32_t message_len;
};

int party_open(struct party *party, const char *socket, const char *segment, enum bench_idle idle);
int party_peer_open(struct party *party, const char *name); /* and watches it */
void party_close(struct party *party);                      /* also after a failed party_open() */

/* Sets `error` and returns -1. */
int party_fail(struct party *party, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a library call: adds the code's phrase and the library's sentence. */
int party_fail_code(struct party *party, int code, const char *what);
/* Tells the other job why this one gives up, if it can still be told. */
void party_failure_send(struct party *party);

/* The next completion or message, until the deadline (CLOCK_MONOTONIC, or PARTY_FOREVER).
 * That the other job failed, is gone or sends no bench messages is -1. */
int party_event_wait(struct party *party, uint64_t deadline_ns, struct party_event *event);
/* The next event must be a message of this kind. */
int party_message_wait(struct party *party, enum message_kind kind, uint64_t deadline_ns,
                       struct party_event *event);
/* Sends one message and waits for its completion; only while no transfer is in flight. */
int party_message_send(struct party *party, struct message_head *message, size_t size,
                       enum message_kind kind);

#endif
