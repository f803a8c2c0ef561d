#include "worker/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/channel.h"
#include "worker/control.h"

static void remote_answer(struct remote *remote, int status, const char *text)
{
    if (remote->open_id == 0)
        return;
    timer_clear(&remote->session->worker->timers, &remote->timer);
    control_reply(remote->session->worker, remote->session->handle, remote->open_id, status,
                  remote->handle, text);
    remote->open_id = 0;
}

/* The open ends with an error: the supervisor forgets the handle, so nothing of it may stay. One
 * that was open before is the job's to close. */
static void remote_reject(struct remote *remote, int status, const char *text)
{
    if (remote->was_open) {
        remote_on_gone(remote, TS_ERR_GONE);
        return;
    }
    remote_answer(remote, status, text);
    remote_on_gone(remote, status);
    remote_free(remote);
}

static void remote_on_timer(struct timer *timer)
{
    struct remote *remote = list_entry(timer, struct remote, timer);
    char text[PROTO_TEXT_MAX];

    if (remote->endpoint != NULL && remote->endpoint->attempts > 0)
        snprintf(text, sizeof(text), "no answer within the time given; the last attempt: %.200s",
                 remote->endpoint->attempt_why);
    else
        snprintf(text, sizeof(text), "no answer within the time given");
    remote_reject(remote, TS_ERR_TIMEOUT, text);
}

void remote_join(struct remote *remote, struct endpoint *endpoint)
{
    remote->endpoint = endpoint;
    list_append(&endpoint->remotes, &remote->link);
    if (remote->state != REMOTE_GONE)
        remote->state = REMOTE_CONNECTING;
    if (endpoint->state == ENDPOINT_READY)
        remote_on_endpoint_ready(remote);
    else
        endpoint_handle(endpoint, ENDPOINT_EVENT_START, TS_OK, "");
}

static void remote_forget_wire(struct remote *remote)
{
    if (remote->wire != 0)
        table_remove(&remote->endpoint->outbounds, remote->wire);
    remote->wire = 0;
}

void remote_leave(struct remote *remote)
{
    remote_forget_wire(remote);
    list_remove(&remote->link);
    remote->endpoint = NULL;
}

/* A fresh attempt whose handshake asks for this very segment: its owner will answer. */
static int remote_reach(struct remote *remote, char *text, size_t text_size)
{
    struct worker *worker = remote->session->worker;
    const char *slash = strrchr(remote->name, '/');
    char address[LAYOUT_NAME_MAX];
    struct endpoint *endpoint;

    snprintf(address, sizeof(address), "%.*s", (int)(slash - remote->name), remote->name);
    endpoint = endpoint_reach(worker, address, text, text_size);
    if (endpoint == NULL)
        return TS_ERR_LIMIT;
    remote->own_attempt = true;
    remote_join(remote, endpoint);
    return TS_OK;
}

int remote_add(struct session *session, const struct proto_remote *ask, uint32_t open_id,
               char *text, size_t text_size)
{
    struct remote *remote = calloc(1, sizeof(*remote));
    const char *why = "";
    int rc = TS_ERR_NO_MEMORY;

    if (remote == NULL)
        return rc;
    remote->session = session;
    remote->handle = ask->handle;
    remote->open_id = open_id;
    remote->was_open = open_id == 0; /* over a worker of before, which died */
    remote->timer.fire = remote_on_timer;
    snprintf(remote->name, sizeof(remote->name), "%s", ask->name);
    list_init(&remote->link);
    list_init(&remote->event);
    list_init(&remote->waiting);
    for (unsigned i = 0; i < SESSION_CHANNELS_MAX; i++)
        list_init(&remote->order[i]);
    rc = name_parse(ask->name, &remote->where, &why);
    if (rc != TS_OK) {
        snprintf(text, text_size, "\"%.150s\": %s", ask->name, why);
        goto err_free;
    }
    rc = table_put(&session->remotes, ask->handle, remote);
    if (rc != TS_OK)
        goto err_free;
    if (open_id != 0)
        timer_set(&session->worker->timers, &remote->timer,
                  clock_now() + (ask->timeout_ms > 0 ? ask->timeout_ms : 10000) * CLOCK_NS_PER_MS);
    rc = remote_reach(remote, text, text_size);
    if (rc != TS_OK)
        goto err_table;
    return TS_OK;

err_table:
    timer_clear(&session->worker->timers, &remote->timer);
    table_remove(&session->remotes, ask->handle);
err_free:
    free(remote);
    return rc;
}

/* Ends the requests that wait for the segment, and the notifications that wait for their turn or
 * for credit. Those being moved end by themselves, and take those behind them along. */
static void remote_stop_requests(struct remote *remote, int status)
{
    while (!list_empty(&remote->waiting))
        request_stop(list_entry(remote->waiting.next, struct request, waiting), status);
    for (unsigned i = 0; i < SESSION_CHANNELS_MAX; i++) {
        struct list *order = &remote->order[i];
        struct request *first = NULL;

        /* Each stop removes at least the first, until one is met that goes on for good reason. */
        while (!list_empty(order) && list_entry(order->next, struct request, order) != first) {
            first = list_entry(order->next, struct request, order);
            if (first->state == REQUEST_NOTIFYING)
                request_stop(first, status);
        }
    }
}

void remote_free(struct remote *remote)
{
    struct session *session = remote->session;
    struct endpoint *endpoint = remote->endpoint;

    timer_clear(&session->worker->timers, &remote->timer);
    if (endpoint != NULL && endpoint->state == ENDPOINT_READY && remote->wire != 0 &&
        remote->open != 0) {
        struct frame frame = {.type = FRAME_CLOSE, .open = remote->open};

        endpoint->link->ops->send(endpoint->link, &frame, NULL, 0, NULL, 0);
    }
    if (endpoint != NULL)
        remote_leave(remote);
    list_remove(&remote->event);
    table_remove(&session->remotes, remote->handle);
    free(remote);
    if (endpoint != NULL)
        endpoint_on_unused(endpoint);
}

static bool remote_is_used(const struct remote *remote)
{
    for (unsigned i = 0; i < SESSION_CHANNELS_MAX; i++) {
        const struct channel *channel = remote->session->channels[i];

        for (uint32_t slot = 0; channel != NULL && slot < channel->map.slots; slot++)
            if (channel->requests[slot].state != REQUEST_FREE &&
                channel->requests[slot].remote == remote)
                return true;
    }
    return false;
}

int remote_close(struct session *session, uint32_t handle)
{
    void *object;
    int rc = table_get(&session->remotes, handle, &object);

    if (rc != TS_OK)
        return rc;
    if (remote_is_used(object))
        return TS_AGAIN;
    remote_free(object);
    return TS_OK;
}

static void remote_fire_watch(struct remote *remote, int status)
{
    if (!remote->watched)
        return;
    remote->watched = false; /* a watch fires once */
    remote->gone_status = status;
    list_append(&remote->session->events, &remote->event);
}

int remote_watch(struct session *session, uint32_t handle)
{
    void *object;
    int rc = table_get(&session->remotes, handle, &object);
    struct remote *remote = object;

    if (rc != TS_OK)
        return rc;
    if (!list_empty(&remote->event))
        return TS_OK;
    remote->watched = true;
    if (remote->state == REMOTE_GONE)
        remote_fire_watch(remote, remote->gone_status);
    return TS_OK;
}

void remote_on_endpoint_ready(struct remote *remote)
{
    struct session *session = remote->session;
    struct link *link = remote->endpoint->link;
    struct frame frame = {.type = FRAME_OPEN, .length = sizeof(struct frame_open)};
    struct frame_open ask = {.uid = session->uid};

    if (remote->state == REMOTE_GONE)
        return;
    snprintf(ask.segment, sizeof(ask.segment), "%s", remote->where.segment);
    snprintf(ask.sender, sizeof(ask.sender), "%s", session->name);
    remote->wire = table_add(&remote->endpoint->outbounds, remote);
    if (remote->wire == 0) {
        remote_fail(remote, TS_ERR_LIMIT, "too many segments are open over this endpoint");
        return;
    }
    frame.request = remote->wire;
    remote->state = REMOTE_OPENING;
    remote->open = 0;
    link->ops->send(link, &frame, &ask, sizeof(ask), NULL, 0);
}

void remote_on_endpoint_lost(struct remote *remote)
{
    remote_forget_wire(remote);
    if (remote->state == REMOTE_GONE)
        return;
    if (remote->state == REMOTE_OPEN)
        remote_fire_watch(remote, TS_ERR_UNREACHABLE);
    remote->state = REMOTE_CONNECTING;
    remote->credit = 0;
}

void remote_fail(struct remote *remote, int status, const char *text)
{
    if (!remote->was_open) {
        remote_reject(remote, status, text);
        return;
    }
    /* It may come back: only those who wait now are told that nothing was sent. */
    remote_fire_watch(remote, status);
    remote_stop_requests(remote, status);
}

void remote_on_refused(struct remote *remote, int status, const char *text)
{
    char why[PROTO_TEXT_MAX] = "";

    if (strcmp(remote->where.segment, remote->endpoint->asked) == 0) {
        remote_reject(remote, status, text);
        return;
    }
    /* The no was meant for another segment of that host: ask for this one by itself. */
    remote_leave(remote);
    if (remote_reach(remote, why, sizeof(why)) != TS_OK)
        remote_on_gone(remote, TS_ERR_LIMIT);
}

void remote_on_opened(struct remote *remote, const struct frame *frame, const char *text)
{
    if (remote->state != REMOTE_OPENING)
        return;
    if (frame->status == TS_ERR_NOT_FOUND && !remote->own_attempt) {
        /* This worker does not own the segment (any more): ask the host who does. */
        struct endpoint *old = remote->endpoint;
        char why[PROTO_TEXT_MAX] = "";

        remote_leave(remote);
        if (remote_reach(remote, why, sizeof(why)) != TS_OK)
            remote_on_gone(remote, TS_ERR_LIMIT);
        endpoint_on_unused(old);
        return;
    }
    if (frame->status != TS_OK) {
        remote_reject(remote, frame->status, text);
        return;
    }
    remote->state = REMOTE_OPEN;
    remote->was_open = true;
    remote->own_attempt = false;
    remote->open = frame->open;
    remote->credit = frame->value;
    remote->notify_max = remote->endpoint->notify_max;
    remote_answer(remote, TS_OK, "");
    while (!list_empty(&remote->waiting) && remote->state == REMOTE_OPEN)
        request_resume(list_entry(remote->waiting.next, struct request, waiting));
    remote_on_credit(remote, 0);
}

void remote_on_gone(struct remote *remote, int status)
{
    if (remote->state == REMOTE_GONE)
        return;
    remote->state = REMOTE_GONE;
    remote->gone_status = status;
    remote_fire_watch(remote, status);
    remote_stop_requests(remote, status);
}

void remote_on_credit(struct remote *remote, uint64_t bytes)
{
    remote->credit += bytes;
    for (unsigned i = 0; i < SESSION_CHANNELS_MAX; i++)
        if (!list_empty(&remote->order[i]))
            request_try_notify(list_entry(remote->order[i].next, struct request, order));
}
