/* The store of endpoints: made, found, kept for a while when nobody uses them, evicted, freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/accept.h"
#include "worker/endpoint.h"
#include "worker/remote.h"

#define LINGER_MS 10000u /* jobs come and go, a handshake and a link are worth keeping */

static void endpoint_on_timer(struct timer *timer)
{
    struct endpoint *endpoint = list_entry(timer, struct endpoint, timer);

    endpoint_handle(endpoint, ENDPOINT_EVENT_TIMER, TS_ERR_UNREACHABLE,
                    "the peer did not answer in time");
}

static struct counters_endpoint *endpoint_line(struct worker *worker)
{
    for (unsigned i = 0; i < COUNTERS_ENDPOINTS; i++)
        if (atomic_peek(&worker->block->endpoint[i].used) == 0)
            return &worker->block->endpoint[i];
    return NULL; /* counted, not listed */
}

static struct endpoint *endpoint_new(struct worker *worker, const char *address)
{
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL)
        return NULL;
    endpoint->worker = worker;
    endpoint->timer.fire = endpoint_on_timer;
    endpoint->unused_since = clock_now();
    connect_init(endpoint);
    endpoint->notify_max = LAYOUT_NOTIFY_NATIVE_MAX;
    snprintf(endpoint->address, sizeof(endpoint->address), "%s", address);
    table_init(&endpoint->wire, TABLE_SLOTS_MAX);
    table_init(&endpoint->inbounds, TABLE_SLOTS_MAX);
    table_init(&endpoint->outbounds, TABLE_SLOTS_MAX);
    list_init(&endpoint->remotes);
    list_init(&endpoint->lost);
    list_append(&worker->endpoints, &endpoint->link_node);
    worker->endpoint_count++;
    endpoint->shown = endpoint_line(worker);
    if (endpoint->shown != NULL) {
        *endpoint->shown = (struct counters_endpoint){.seq = 0};
        atomic_set(&endpoint->shown->used, 1);
    }
    endpoint_show(endpoint);
    atomic_count(&worker->stats->endpoints, 1);
    return endpoint;
}

/* Nobody here has a segment open over it, nor has the peer, and no transfer is on its way. */
static bool endpoint_is_idle(const struct endpoint *endpoint)
{
    return !endpoint->self && endpoint->state == ENDPOINT_READY && endpoint->lost_status == TS_OK &&
           !endpoint_is_wanted(endpoint) && endpoint->inbounds.used == 0 &&
           endpoint->wire.used == 0;
}

/* The limit is reached: of those that linger for their next user, the one that nobody has needed
 * for the longest time makes room. It is freed at the end of this turn, with its last word sent. */
static bool endpoint_evict(struct worker *worker)
{
    struct endpoint *oldest = NULL;

    list_each (node, following, &worker->endpoints) {
        struct endpoint *endpoint = list_entry(node, struct endpoint, link_node);

        if (endpoint_is_idle(endpoint) &&
            (oldest == NULL || endpoint->unused_since < oldest->unused_since))
            oldest = endpoint;
    }
    if (oldest == NULL)
        return false;
    atomic_count(&worker->stats->endpoint_evicted, 1);
    endpoint_say_bye(oldest);
    endpoint_handle(oldest, ENDPOINT_EVENT_DRAINED, TS_OK, "another needs its place");
    return true;
}

struct endpoint *endpoint_reach(struct worker *worker, const char *address, char *text,
                                size_t text_size)
{
    struct endpoint *endpoint;

    if (worker->endpoint_count >= worker->config.endpoint_max && !endpoint_evict(worker)) {
        snprintf(text, text_size, "this worker has its %u endpoints in use (peer.endpoint_max)",
                 worker->config.endpoint_max);
        return NULL;
    }
    endpoint = endpoint_new(worker, address);
    if (endpoint == NULL)
        snprintf(text, text_size, "no memory for an endpoint");
    return endpoint;
}

struct endpoint *endpoint_accept(struct worker *worker, const struct handshake_hello *hello,
                                 char *text, size_t text_size)
{
    struct endpoint *endpoint = endpoint_reach(worker, hello->address, text, text_size);

    if (endpoint == NULL) {
        worker_error(worker, &worker->peer_limit, "peer %s refused: %s", hello->address, text);
        return NULL;
    }
    memcpy(endpoint->peer_id, hello->worker, sizeof(endpoint->peer_id));
    endpoint->known = true;
    endpoint->generation = hello->generation;
    endpoint->notify_max = hello->notify_max;
    snprintf(endpoint->peer_name, sizeof(endpoint->peer_name), "%s", hello->worker_name);
    return endpoint;
}

struct endpoint *endpoint_open_self(struct worker *worker)
{
    struct endpoint *endpoint = endpoint_new(worker, worker->config.address);

    if (endpoint == NULL)
        return NULL;
    endpoint->self = true;
    endpoint->known = true;
    endpoint->notify_max = worker->config.notify_max;
    memcpy(endpoint->peer_id, worker->id, sizeof(endpoint->peer_id));
    snprintf(endpoint->peer_name, sizeof(endpoint->peer_name), "%s", worker->config.name);
    endpoint->link = self_link_open(endpoint);
    if (endpoint->link == NULL) {
        endpoint_free(endpoint);
        return NULL;
    }
    endpoint_handle(endpoint, ENDPOINT_EVENT_ACCEPTED, TS_OK, "");
    return endpoint;
}

bool endpoint_reaches(const struct endpoint *endpoint, const uint8_t id[HANDSHAKE_ID])
{
    return endpoint->state == ENDPOINT_READY && endpoint->known && endpoint->lost_status == TS_OK &&
           memcmp(endpoint->peer_id, id, HANDSHAKE_ID) == 0;
}

struct endpoint *endpoint_find_peer(struct worker *worker, const uint8_t id[HANDSHAKE_ID],
                                    const struct endpoint *except)
{
    list_each (node, following, &worker->endpoints) {
        struct endpoint *endpoint = list_entry(node, struct endpoint, link_node);

        if (endpoint != except && endpoint_reaches(endpoint, id) && !endpoint->bye_received)
            return endpoint;
    }
    return NULL;
}

/* When half of all endpoints are taken, those that nobody needs go at once: eviction, which does
 * not wait for the peer's goodbye, is for crowds. */
static uint64_t endpoint_linger_ms(const struct worker *worker)
{
    return worker->endpoint_count <= worker->config.endpoint_max / 2 ? LINGER_MS : 0;
}

void endpoint_on_unused(struct endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;

    if (endpoint->self || endpoint_is_wanted(endpoint))
        return;
    endpoint->unused_since = clock_now();
    if (endpoint->state == ENDPOINT_READY && endpoint->inbounds.used == 0)
        timer_set(&worker->timers, &endpoint->timer,
                  endpoint->unused_since + endpoint_linger_ms(worker) * CLOCK_NS_PER_MS);
    else if (endpoint->state == ENDPOINT_BACKOFF)
        endpoint_handle(endpoint, ENDPOINT_EVENT_DRAINED, TS_OK, "nobody needs it");
}

void endpoint_free(struct endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;

    endpoint_drop_link(endpoint);
    while (!list_empty(&endpoint->remotes)) {
        struct remote *remote = list_entry(endpoint->remotes.next, struct remote, link);

        remote_leave(remote);
        remote_on_gone(remote, TS_ERR_UNREACHABLE);
    }
    accept_forget(endpoint);
    timer_clear(&worker->timers, &endpoint->timer);
    list_remove(&endpoint->lost);
    list_remove(&endpoint->link_node);
    table_fini(&endpoint->wire);
    table_fini(&endpoint->inbounds);
    table_fini(&endpoint->outbounds);
    if (endpoint->shown != NULL)
        atomic_set(&endpoint->shown->used, 0);
    worker->endpoint_count--;
    atomic_count(&worker->stats->endpoints, (uint64_t)-1);
    free(endpoint);
}
