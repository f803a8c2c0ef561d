#include "worker/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/endpoint_fsm.h"
#include "worker/inbound.h"
#include "worker/remote.h"
#include "worker/request.h"

#define BACKOFF_FIRST_MS 20u
#define BACKOFF_MAX_MS   5000u
#define PATIENCE_MS      1500u /* how long requests wait for a lost peer before they are refused */

static const char *endpoint_fabric(const struct endpoint *endpoint)
{
    return endpoint->link != NULL ? endpoint->link->ops->name : "-";
}

void endpoint_show_queues(struct endpoint *endpoint)
{
    struct counters_endpoint *line = endpoint->shown;
    const struct link *link = endpoint->link;

    if (line == NULL)
        return;
    counters_write_begin(&line->seq);
    line->notify_queue = (struct counters_queue){.own = 0};
    line->data_queues = 0;
    if (link != NULL && link->ops->show != NULL)
        link->ops->show(link, line);
    counters_write_end(&line->seq);
}

void endpoint_show(struct endpoint *endpoint)
{
    struct counters_endpoint *line = endpoint->shown;

    if (line == NULL)
        return;
    counters_write_begin(&line->seq);
    atomic_set(&line->state, endpoint->state);
    atomic_set(&line->since_ns, clock_wall());
    snprintf(line->peer, sizeof(line->peer), "%s", endpoint->address);
    snprintf(line->peer_worker, sizeof(line->peer_worker), "%s", endpoint->peer_name);
    snprintf(line->fabric, sizeof(line->fabric), "%s", endpoint_fabric(endpoint));
    snprintf(line->notify, sizeof(line->notify), "%s",
             endpoint->link != NULL ? endpoint->link->notify_text : "-");
    counters_write_end(&line->seq);
    endpoint_show_queues(endpoint);
}

bool endpoint_prefers_new(const struct endpoint *old, bool new_initiated)
{
    const struct worker *worker = old->worker;
    bool we_are_lower = memcmp(worker->id, old->peer_id, HANDSHAKE_ID) < 0;

    /* Both made by the same side: the older one is in use already.  Else the one that the side with
     * the lower id made; both sides come to the same answer without a word. */
    return old->initiated != new_initiated && new_initiated == we_are_lower;
}

/* ---- actions ---- */

/* What was posted over a link that is gone. */
static void endpoint_end_transfers(struct endpoint *endpoint)
{
    uint32_t cursor = 0;
    struct transfer *transfer;

    while ((transfer = table_next(&endpoint->wire, &cursor)) != NULL)
        request_on_link_lost(list_entry(transfer, struct request, transfer));
}

void endpoint_withdraw_offer(struct endpoint *endpoint)
{
    if (endpoint->offer != NULL)
        endpoint->offer->ops->close(endpoint->offer);
    endpoint->offer = NULL;
}

void endpoint_drop_link(struct endpoint *endpoint)
{
    struct link *link = endpoint->link;
    uint32_t cursor = 0;
    struct inbound *inbound;

    list_remove(&endpoint->lost);
    connect_stop(endpoint);
    endpoint_withdraw_offer(endpoint);
    if (link == NULL)
        return;
    list_remove(&link->busy);
    list_remove(&link->polled);
    link->ops->close(link); /* before the transfers end: no byte can land after their completion */
    endpoint->link = NULL;
    endpoint_show_queues(endpoint); /* there are none now */
    endpoint_end_transfers(endpoint);
    while ((inbound = table_next(&endpoint->inbounds, &cursor)) != NULL)
        inbound_free(inbound);
    endpoint->bye_sent = endpoint->bye_received = false;
    endpoint->lost_status = TS_OK;
}

static void endpoint_each_remote(struct endpoint *endpoint, void (*call)(struct remote *))
{
    list_each (node, following, &endpoint->remotes) {
        call(list_entry(node, struct remote, link));
    }
}

static void endpoint_fail_remotes(struct endpoint *endpoint, int status, const char *why)
{
    char text[PROTO_TEXT_MAX];

    snprintf(text, sizeof(text), "%.120s: %.120s", endpoint->address, why);
    list_each (node, following, &endpoint->remotes) {
        remote_fail(list_entry(node, struct remote, link), status, text);
    }
}

static struct remote *endpoint_first_wanted(const struct endpoint *endpoint)
{
    list_each (node, following, &endpoint->remotes) {
        struct remote *remote = list_entry(node, struct remote, link);

        if (remote->state != REMOTE_GONE)
            return remote;
    }
    return NULL;
}

bool endpoint_is_wanted(const struct endpoint *endpoint)
{
    return endpoint_first_wanted(endpoint) != NULL;
}

static void action_connect(struct endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;
    struct remote *remote = endpoint_first_wanted(endpoint);

    if (remote == NULL) {
        endpoint_handle(endpoint, ENDPOINT_EVENT_DRAINED, TS_OK, "nobody needs it");
        return;
    }
    remote->own_attempt = true;
    endpoint->initiated = true;
    endpoint->known = false;
    endpoint->generation = ++worker->generation;
    snprintf(endpoint->asked, sizeof(endpoint->asked), "%s", remote->where.segment);
    timer_set(&worker->timers, &endpoint->timer,
              clock_now() + worker->config.connect_ms * CLOCK_NS_PER_MS);
    connect_start(endpoint, endpoint->asked);
}

static void action_retry(struct endpoint *endpoint, int status, const char *why)
{
    struct worker *worker = endpoint->worker;
    uint64_t delay = BACKOFF_FIRST_MS << (endpoint->attempts < 8 ? endpoint->attempts : 8);
    uint32_t jitter;

    endpoint_drop_link(endpoint);
    endpoint->attempts++;
    snprintf(endpoint->attempt_why, sizeof(endpoint->attempt_why), "%s", why);
    if (!endpoint_is_wanted(endpoint)) {
        endpoint_handle(endpoint, ENDPOINT_EVENT_DRAINED, TS_OK, "nobody needs it");
        return;
    }
    if (delay > BACKOFF_MAX_MS)
        delay = BACKOFF_MAX_MS;
    handshake_random(&jitter, sizeof(jitter));
    delay = delay * (750 + jitter % 501) / 1000; /* 0.75 … 1.25 */
    timer_set(&worker->timers, &endpoint->timer, clock_now() + delay * CLOCK_NS_PER_MS);
    if (delay * 2 > PATIENCE_MS)
        endpoint_fail_remotes(endpoint, status, why);
}

/* The handshake went well, and the link behind it did not work: over the next pair of GIDs, and
 * when there is none left over TCP. */
static void action_retry_tcp(struct endpoint *endpoint, int status, const char *why)
{
    if (++endpoint->gid_tried >= endpoint->gid_pairs) {
        endpoint->tcp_only = endpoint->worker->config.fabric == PROTO_FABRIC_AUTO;
        endpoint->gid_tried = 0;
    }
    action_retry(endpoint, status, why);
}

static void action_lose(struct endpoint *endpoint, int status, const char *why)
{
    struct worker *worker = endpoint->worker;

    /* One that nobody used, as the second of two connections at once, is no loss. */
    if (endpoint_is_wanted(endpoint) || endpoint->inbounds.used > 0) {
        atomic_count(&worker->stats->endpoint_lost, 1);
        if (endpoint->shown != NULL)
            atomic_count(&endpoint->shown->reconnects, 1);
        worker_error(worker, &worker->peer_limit, "endpoint to %s (%s) lost: %s", endpoint->address,
                     endpoint->peer_name, why);
    }
    endpoint->attempts = 0;
    endpoint->tcp_only = false; /* what did not work once may work now */
    endpoint_each_remote(endpoint, remote_on_endpoint_lost);
    action_retry(endpoint, status, why);
}

/* The peer said goodbye to a connection before this one, which it keeps, was ready here. */
static void endpoint_follow_farewells(struct endpoint *kept)
{
    list_each (node, following, &kept->worker->endpoints) {
        struct endpoint *endpoint = list_entry(node, struct endpoint, link_node);

        if (endpoint != kept && endpoint->bye_received && endpoint_reaches(endpoint, kept->peer_id))
            endpoint_handle(endpoint, ENDPOINT_EVENT_DUPLICATE, TS_OK, "the peer said bye");
    }
}

static void action_ready(struct endpoint *endpoint)
{
    struct endpoint *other;

    timer_clear(&endpoint->worker->timers, &endpoint->timer);
    connect_stop(endpoint); /* a local link has a socket of its own */
    endpoint->attempts = 0;
    endpoint->gid_tried = 0;
    endpoint_show(endpoint);
    endpoint_each_remote(endpoint, remote_on_endpoint_ready);
    endpoint_follow_farewells(endpoint);
    if (!endpoint->initiated)
        return;
    /* The side that made the newer connection settles which of two is kept. */
    other = endpoint_find_peer(endpoint->worker, endpoint->peer_id, endpoint);
    if (other != NULL && !other->self) {
        atomic_count(&endpoint->worker->stats->endpoint_duplicate, 1);
        endpoint_handle(endpoint_prefers_new(other, true) ? other : endpoint,
                        ENDPOINT_EVENT_DUPLICATE, TS_OK, "another connection is kept");
    }
}

void endpoint_hand_over(struct endpoint *from, struct endpoint *to)
{
    while (!list_empty(&from->remotes)) {
        struct remote *remote = list_entry(from->remotes.next, struct remote, link);

        remote_leave(remote);
        remote_join(remote, to);
    }
}

void endpoint_say_bye(struct endpoint *endpoint)
{
    struct frame bye = {.type = FRAME_BYE};

    if (!endpoint->bye_sent &&
        endpoint->link->ops->send(endpoint->link, &bye, NULL, 0, NULL, 0) == TS_OK)
        endpoint->bye_sent = true;
}

/* The peer waits for our BYE: it must be out before the link closes. */
static void endpoint_flush_bye(struct endpoint *endpoint)
{
    if (endpoint->bye_sent && endpoint->link != NULL)
        endpoint->link->ops->flush(endpoint->link);
}

static void action_drain(struct endpoint *endpoint)
{
    struct endpoint *kept = endpoint_find_peer(endpoint->worker, endpoint->peer_id, endpoint);

    timer_clear(&endpoint->worker->timers, &endpoint->timer); /* of a linger */
    if (kept != NULL)
        endpoint_hand_over(endpoint, kept);
    endpoint_check_drained(endpoint);
}

static void action_linger(struct endpoint *endpoint)
{
    if (!endpoint_is_wanted(endpoint) && endpoint->inbounds.used == 0)
        endpoint_handle(endpoint, ENDPOINT_EVENT_DUPLICATE, TS_OK, "nobody needs it");
}

static void action_close(struct endpoint *endpoint)
{
    timer_clear(&endpoint->worker->timers, &endpoint->timer);
    /* Freed at the end of the turn: callers up the stack may still look at it. */
    endpoint->lost_status = TS_ERR_GONE;
    if (list_empty(&endpoint->lost))
        list_append(&endpoint->worker->lost, &endpoint->lost);
}

static void action_refuse(struct endpoint *endpoint, int status, const char *why)
{
    char text[PROTO_TEXT_MAX];

    snprintf(text, sizeof(text), "%.120s: %.120s", endpoint->address, why);
    list_each (node, following, &endpoint->remotes) {
        remote_on_refused(list_entry(node, struct remote, link), status, text);
    }
    action_close(endpoint);
}

void endpoint_handle(struct endpoint *endpoint, enum endpoint_event event, int status,
                     const char *why)
{
    const struct endpoint_step *step = &endpoint_steps[endpoint->state][event];
    struct worker *worker = endpoint->worker;

    if (step->action == ACTION_IGNORE) {
        atomic_count(&worker->stats->stale_completions, 1);
        return;
    }
    if (step->next != endpoint->state) {
        endpoint->state = step->next;
        endpoint_show(endpoint);
    }
    switch (step->action) {
    case ACTION_CONNECT:
        action_connect(endpoint);
        break;
    case ACTION_READY:
        action_ready(endpoint);
        break;
    case ACTION_LINK:
        timer_set(&worker->timers, &endpoint->timer,
                  clock_now() + worker->config.connect_ms * CLOCK_NS_PER_MS);
        break;
    case ACTION_RETRY_TCP:
        action_retry_tcp(endpoint, status, why);
        break;
    case ACTION_RETRY:
        action_retry(endpoint, status, why);
        break;
    case ACTION_LOSE:
        action_lose(endpoint, status, why);
        break;
    case ACTION_REFUSE:
        action_refuse(endpoint, status, why);
        break;
    case ACTION_LINGER:
        action_linger(endpoint);
        break;
    case ACTION_DRAIN:
        action_drain(endpoint);
        break;
    case ACTION_CLOSE:
        action_close(endpoint);
        break;
    case ACTION_NONE:
    case ACTION_IGNORE:
    case ACTION_COUNT:
        break;
    }
}

void endpoint_check_drained(struct endpoint *endpoint)
{
    if (endpoint->state != ENDPOINT_DRAINING || endpoint->link == NULL)
        return;
    if (endpoint->wire.used == 0)
        endpoint_say_bye(endpoint);
    if (endpoint->bye_sent && endpoint->bye_received)
        endpoint_handle(endpoint, ENDPOINT_EVENT_DRAINED, TS_OK, "both sides are done");
}

void link_on_lost(struct link *link, int status, const char *why)
{
    struct endpoint *endpoint = link->endpoint;

    if (endpoint->lost_status != TS_OK)
        return;
    endpoint->lost_status = status;
    snprintf(endpoint->lost_why, sizeof(endpoint->lost_why), "%s", why);
    list_append(&endpoint->worker->lost, &endpoint->lost);
}

int endpoint_reap(struct worker *worker)
{
    int done = 0;

    while (!list_empty(&worker->lost)) {
        struct endpoint *endpoint = list_entry(worker->lost.next, struct endpoint, lost);
        int status = endpoint->lost_status;
        char why[PROTO_TEXT_MAX];

        done++;
        list_remove(&endpoint->lost);
        if (endpoint->state == ENDPOINT_CLOSED) {
            endpoint->lost_status = TS_OK;
            endpoint_flush_bye(endpoint);
            endpoint_free(endpoint);
            continue;
        }
        if (status == TS_ERR_PROTOCOL)
            atomic_count(&worker->stats->peer_protocol, 1);
        snprintf(why, sizeof(why), "%s", endpoint->lost_why);
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, status, why);
    }
    return done;
}

void endpoint_fini(struct worker *worker)
{
    while (!list_empty(&worker->endpoints)) {
        struct endpoint *endpoint = list_entry(worker->endpoints.next, struct endpoint, link_node);

        if (endpoint->state == ENDPOINT_READY && !endpoint->self) {
            endpoint_say_bye(endpoint); /* so that the peer does not take it for a loss */
            endpoint_flush_bye(endpoint);
        }
        endpoint_free(endpoint);
    }
}
