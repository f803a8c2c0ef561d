#include "client/bench/party.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/bench/clock.h"

#define PARTY_SLOTS         2048u /* OPTIONS_BLOCKS_MAX transfers and some messages */
#define PARTY_SLEEP_MS      1000u /* then the deadline is looked at again */
#define PARTY_RETRY_NS      (UINT64_C(10) * 1000000000)
#define PARTY_RETRY_STEP_NS 50000
#define COOKIE_CONTROL      UINT64_MAX

static const char *const kind_names[MESSAGE_KIND_COUNT] = {
    [MESSAGE_HELLO] = "hello",     [MESSAGE_WELCOME] = "welcome", [MESSAGE_CASE] = "case",
    [MESSAGE_READY] = "ready",     [MESSAGE_BLOCK] = "block",     [MESSAGE_CHECK] = "check",
    [MESSAGE_RECEIPT] = "receipt", [MESSAGE_REPORT] = "report",   [MESSAGE_BYE] = "bye",
    [MESSAGE_FAILED] = "failed",
};

static const uint32_t kind_sizes[MESSAGE_KIND_COUNT] = {
    [MESSAGE_HELLO] = sizeof(struct message_clock),
    [MESSAGE_WELCOME] = sizeof(struct message_clock),
    [MESSAGE_CASE] = sizeof(struct message_case),
    [MESSAGE_READY] = sizeof(struct message_ready),
    [MESSAGE_BLOCK] = sizeof(struct message_block),
    [MESSAGE_CHECK] = sizeof(struct message_iteration),
    [MESSAGE_RECEIPT] = sizeof(struct message_iteration),
    [MESSAGE_REPORT] = sizeof(struct message_report),
    [MESSAGE_BYE] = sizeof(struct message_head),
    [MESSAGE_FAILED] = sizeof(struct message_failed),
};

int party_fail(struct party *party, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(party->error, sizeof(party->error), format, args);
    va_end(args);
    return -1;
}

int party_fail_code(struct party *party, int code, const char *what)
{
    return party_fail(party, "%s: %s: %s", what, tesup_strerror(code), tesup_last_error());
}

int party_open(struct party *party, const char *socket, const char *segment, enum bench_idle idle)
{
    const struct tesup_options options = {
        .socket = socket, .segment = segment, .slots = PARTY_SLOTS};

    memset(party, 0, sizeof(*party));
    party->idle = idle;
    if (idle == BENCH_IDLE_SLEEP) /* tesup_wait spins first; the environment may say otherwise */
        setenv("TESUP_SPIN_US", "0", 0);
    int code = tesup_attach(&options, &party->session);
    if (code != TESUP_OK)
        return party_fail_code(party, code, "cannot attach");
    party->channel = tesup_channel_main(party->session);
    return 0;
}

int party_peer_open(struct party *party, const char *name)
{
    snprintf(party->peer, sizeof(party->peer), "%s", name);
    int code = tesup_segment_open(party->session, name, &party->remote);
    if (code == TESUP_OK)
        code = tesup_segment_watch(party->session, party->remote);
    if (code != TESUP_OK)
        return party_fail_code(party, code, party->peer);
    return 0;
}

void party_close(struct party *party)
{
    tesup_detach(party->session);
    party->session = NULL;
}

static bool message_is_ours(const struct message_head *head, uint32_t size)
{
    return size >= sizeof(*head) && head->magic == MESSAGE_MAGIC && head->kind > 0 &&
           head->kind < MESSAGE_KIND_COUNT && size >= kind_sizes[head->kind];
}

static int message_accept(struct party *party, struct party_event *event)
{
    const struct tesup_notification *note = &event->notification;
    const struct message_head *head = (const struct message_head *)party->inbox;

    if (note->kind == TESUP_NOTIFICATION_EVENT)
        return party_fail(party, "lost %s: %s", party->peer, tesup_strerror(note->status));
    if (note->msg_len <= sizeof(party->inbox) && note->msg_len > 0)
        memcpy(party->inbox, note->msg, note->msg_len);
    if (note->msg_len > sizeof(party->inbox) || !message_is_ours(head, note->msg_len))
        return party_fail(party,
                          "%.*s sent something that no tesup bench of this version and byte order "
                          "sends; run the same version on both hosts",
                          (int)note->from_len, note->from);
    if (head->kind == MESSAGE_FAILED) {
        const struct message_failed *failed = (const struct message_failed *)head;
        party->peer_failed = true;
        return party_fail(party, "the other job: %.*s", (int)MESSAGE_TEXT_MAX, failed->text);
    }
    event->kind = PARTY_MESSAGE;
    event->message = head;
    event->message_len = note->msg_len;
    return 0;
}

/* 1: *event is set; 0: there is nothing now; -1: failed. */
static int event_take(struct party *party, struct party_event *event)
{
    if (party->notification_held) {
        party->notification_held = false;
        int code = tesup_notify_release(party->channel);
        if (code != TESUP_OK)
            return party_fail_code(party, code, "cannot release a notification");
    }
    int code = tesup_notify_peek(party->channel, &event->notification);
    if (code == TESUP_OK) {
        event->at_ns = clock_now_ns();
        party->notification_held = true;
        return message_accept(party, event) ? -1 : 1;
    }
    if (code < 0)
        return party_fail_code(party, code, "cannot look for notifications");
    if (party->next == party->ready) {
        int polled = tesup_poll(party->channel, party->completions, PARTY_CQ_BATCH);
        if (polled < 0)
            return party_fail_code(party, polled, "cannot poll");
        party->next = 0;
        party->ready = (uint32_t)polled;
        if (polled == 0)
            return 0;
    }
    event->at_ns = clock_now_ns();
    event->kind = PARTY_COMPLETION;
    event->completion = party->completions[party->next++];
    return 1;
}

/* Between two looks that found nothing, as `idle` says. */
static int party_pause(struct party *party, uint64_t deadline_ns)
{
    uint64_t now = clock_now_ns(), left_ms;
    int timeout_ms, code;

    if (now >= deadline_ns)
        return party_fail(party, "no answer from %s in time; see `tesup status` on both hosts",
                          party->peer[0] ? party->peer : "the worker");
    if (party->idle == BENCH_IDLE_BUSY)
        return 0;
    left_ms = (deadline_ns - now) / CLOCK_NS_PER_MS + 1;
    timeout_ms = left_ms > PARTY_SLEEP_MS ? (int)PARTY_SLEEP_MS : (int)left_ms;
    code = tesup_wait(party->channel, timeout_ms);
    if (code != TESUP_OK && code != TESUP_ERR_TIMEOUT)
        return party_fail_code(party, code, "cannot wait");
    return 0;
}

int party_event_wait(struct party *party, uint64_t deadline_ns, struct party_event *event)
{
    for (;;) {
        int taken = event_take(party, event);
        if (taken)
            return taken < 0 ? -1 : 0;
        if (party_pause(party, deadline_ns))
            return -1;
    }
}

int party_message_wait(struct party *party, enum message_kind kind, uint64_t deadline_ns,
                       struct party_event *event)
{
    if (party_event_wait(party, deadline_ns, event))
        return -1;
    if (event->kind != PARTY_MESSAGE)
        return party_fail(party, "a completion (%s) came where '%s' from %s was awaited",
                          tesup_strerror(event->completion.status), kind_names[kind], party->peer);
    if (event->message->kind != kind)
        return party_fail(party, "%s sent '%s' where '%s' was awaited", party->peer,
                          kind_names[event->message->kind], kind_names[kind]);
    return 0;
}

/* Waits for the one completion in flight, leaving notifications where they are. */
static int control_completion_wait(struct party *party, uint64_t deadline_ns, int *status)
{
    struct tesup_completion completion;

    for (;;) {
        int polled = tesup_poll(party->channel, &completion, 1);
        if (polled < 0)
            return party_fail_code(party, polled, "cannot poll");
        if (polled == 1 && completion.cookie == COOKIE_CONTROL) {
            *status = completion.status;
            return 0;
        }
        if (party_pause(party, deadline_ns))
            return -1;
    }
}

int party_message_send(struct party *party, struct message_head *message, size_t size,
                       enum message_kind kind)
{
    uint64_t deadline = clock_now_ns() + PARTY_RETRY_NS;
    const struct tesup_request request = {
        .op = TESUP_OP_NOTIFY,
        .cookie = COOKIE_CONTROL,
        .remote = party->remote,
        .name = MESSAGE_NAME,
        .name_len = sizeof(MESSAGE_NAME) - 1,
        .msg = message,
        .msg_len = (uint32_t)size,
    };

    message->magic = MESSAGE_MAGIC;
    message->kind = kind;
    for (;;) {
        uint32_t accepted = 0;
        int status = tesup_submit(party->channel, &request, 1, NULL, &accepted);
        if (status == TESUP_OK && control_completion_wait(party, deadline, &status))
            return -1;
        if (status == TESUP_OK)
            return 0;
        if (status != TESUP_AGAIN)
            return party_fail_code(party, status, kind_names[kind]);
        if (clock_now_ns() >= deadline)
            return party_fail(party, "%s takes no message; see `tesup status` on both hosts",
                              party->peer);
        /* No doorbell rings when the other job makes room, so look again soon. */
        nanosleep(&(struct timespec){.tv_nsec = PARTY_RETRY_STEP_NS}, NULL);
    }
}

void party_failure_send(struct party *party)
{
    struct message_failed failed;
    char error[MESSAGE_TEXT_MAX];

    if (!party->session || !party->remote || party->peer_failed)
        return;
    memset(&failed, 0, sizeof(failed));
    memcpy(failed.text, party->error, sizeof(failed.text));
    memcpy(error, party->error, sizeof(error));
    /* It may be gone already: then our own sentence stays the one to print. */
    party_message_send(party, &failed.head, sizeof(failed), MESSAGE_FAILED);
    memcpy(party->error, error, sizeof(error));
}
