#include "worker/accept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/wire.h"
#include "worker/link_setup.h"

/* A local link that was offered: its endpoint waits for a socket with this token. */
struct accept {
    struct list link; /* worker.accepts */
    uint8_t token[HANDSHAKE_ID];
    struct endpoint *endpoint;
    struct source source; /* the socket, once it is there; fd -1 before */
    struct source caller; /* the connection of the handshake: ends when the caller gives up */
};

/* A peer that offers RDMA, while it is found out whether there is a way to it. */
struct accept_call {
    struct worker *worker;
    int socket;
    struct proto_peer peer;
    struct handshake_hello hello;
};

static bool accept_offers_local(const struct worker *worker, const struct handshake_hello *hello)
{
    return hello->local &&
           (worker->config.fabric == PROTO_FABRIC_AUTO ||
            worker->config.fabric == PROTO_FABRIC_LOCAL) &&
           worker->host_id[0] != '\0' && strcmp(hello->host, worker->host_id) == 0;
}

static void welcome_fill(const struct worker *worker, const struct handshake_hello *hello,
                         struct handshake_welcome *welcome)
{
    *welcome = (struct handshake_welcome){.status = TS_OK,
                                          .generation = hello->generation,
                                          .notify_max = worker->config.notify_max,
                                          .local = accept_offers_local(worker, hello)};
    memcpy(welcome->worker, worker->id, sizeof(welcome->worker));
    snprintf(welcome->worker_name, sizeof(welcome->worker_name), "%s", worker->config.name);
    if (!welcome->local)
        return;
    snprintf(welcome->local_socket, sizeof(welcome->local_socket), "%s",
             worker->config.local_socket);
    handshake_random(welcome->token, sizeof(welcome->token));
    memcpy(welcome->token, &worker->config.worker_index, 4); /* the supervisor routes by it */
}

static int welcome_send(const struct worker *worker, const struct proto_peer *peer, int socket,
                        const struct handshake_welcome *welcome)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size = handshake_welcome_write(bytes, worker->config.peer_key, peer->hello,
                                          peer->hello_len, peer->challenge, welcome);

    return send(socket, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size ? TS_OK
                                                                                   : TS_ERR_GONE;
}

static void accept_close_source(struct worker *worker, struct source *source)
{
    if (source->fd < 0)
        return;
    reactor_watch(&worker->reactor, source, 0);
    close(source->fd);
}

static void accept_free(struct worker *worker, struct accept *accept)
{
    list_remove(&accept->link);
    accept_close_source(worker, &accept->source);
    accept_close_source(worker, &accept->caller);
    free(accept);
}

/* The caller has nothing more to say here: whatever comes is the end. */
static void accept_on_caller(struct source *source, uint32_t events)
{
    struct accept *accept = list_entry(source, struct accept, caller);
    struct endpoint *endpoint = accept->endpoint;

    (void)events;
    accept_free(endpoint->worker, accept);
    endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_GONE, "the peer gave the link up");
}

/* A peer that proved itself hears why it is refused; it may come again. */
static void accept_refuse(struct worker *worker, const struct proto_peer *peer, int socket,
                          struct handshake_welcome *welcome)
{
    welcome->status = TS_AGAIN;
    welcome->local = false;
    welcome_send(worker, peer, socket, welcome);
    close(socket);
}

static int accept_await_local(struct endpoint *endpoint, const struct handshake_welcome *welcome,
                              int socket)
{
    struct worker *worker = endpoint->worker;
    struct accept *accept = calloc(1, sizeof(*accept));

    if (accept == NULL)
        return TS_ERR_NO_MEMORY;
    accept->caller = (struct source){.fd = socket, .ready = accept_on_caller};
    if (reactor_watch(&worker->reactor, &accept->caller, EPOLLIN) < 0) {
        free(accept);
        return TS_ERR_SYSTEM;
    }
    memcpy(accept->token, welcome->token, sizeof(accept->token));
    accept->endpoint = endpoint;
    accept->source.fd = -1;
    list_append(&worker->accepts, &accept->link);
    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
    return TS_OK;
}

/* Connects queue pairs to those that the caller offers; `no_way` (NULL: there is one) says why not.
 * An error only where nothing else is allowed. */
static int accept_verbs(struct endpoint *endpoint, const struct handshake_hello *hello,
                        const char *no_way, struct handshake_welcome *welcome)
{
    struct worker *worker = endpoint->worker;
    bool must = worker->config.fabric == PROTO_FABRIC_VERBS;

    if (welcome->local || (worker->verbs == NULL && !must))
        return TS_OK;
    if (!hello->verbs.offered) {
        snprintf(welcome->text, sizeof(welcome->text),
                 "worker %s takes RDMA only, and none was offered", worker->config.name);
        return must ? TS_ERR_UNSUPPORTED : TS_OK;
    }
    if (no_way == NULL)
        endpoint->offer = verbs_link_prepare(endpoint, false, welcome->text, sizeof(welcome->text));
    else
        snprintf(welcome->text, sizeof(welcome->text), "%s", no_way);
    if (endpoint->offer != NULL && verbs_link_answer(endpoint->offer, &hello->verbs, welcome->text,
                                                     sizeof(welcome->text)) == TS_OK) {
        welcome->verbs = *verbs_link_offer(endpoint->offer);
        return TS_OK;
    }
    endpoint_withdraw_offer(endpoint);
    worker_error(worker, &worker->peer_limit, "no RDMA to %s: %s", hello->address, welcome->text);
    return must ? TS_ERR_UNREACHABLE : TS_OK;
}

/* The caller is told; it speaks first, when its queue pairs are ready. */
static void accept_carry(struct endpoint *endpoint, int socket)
{
    endpoint->link = endpoint->offer;
    endpoint->offer = NULL;
    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
    if (verbs_link_carry(endpoint->link, socket) != TS_OK)
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_NO_MEMORY, "no memory for a link");
}

/* Answers, and makes the endpoint. Takes the socket. */
static void accept_answer(struct worker *worker, const struct proto_peer *peer,
                          const struct handshake_hello *hello, const char *no_way, int socket)
{
    struct handshake_welcome welcome;
    struct endpoint *endpoint;

    welcome_fill(worker, hello, &welcome);
    endpoint = endpoint_accept(worker, hello, welcome.text, sizeof(welcome.text));
    if (endpoint == NULL) {
        accept_refuse(worker, peer, socket, &welcome);
        return;
    }
    if (accept_verbs(endpoint, hello, no_way, &welcome) != TS_OK) {
        accept_refuse(worker, peer, socket, &welcome);
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_UNREACHABLE, welcome.text);
        return;
    }
    if (welcome_send(worker, peer, socket, &welcome) != TS_OK)
        goto lost;
    if (welcome.verbs.offered) {
        accept_carry(endpoint, socket);
        return;
    }
    if (welcome.local) {
        if (accept_await_local(endpoint, &welcome, socket) != TS_OK)
            goto lost;
        return;
    }
    endpoint->link = tcp_link_open(endpoint, socket);
    if (endpoint->link != NULL)
        endpoint_handle(endpoint, ENDPOINT_EVENT_ACCEPTED, TS_OK, "");
    else
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_NO_MEMORY, "no memory");
    return;

lost:
    endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_GONE, "the handshake broke off");
    close(socket);
}

/* ---- the way to a peer ---- */

/* It gave up meanwhile, and perhaps called anew: this call must not take that one's place. */
static bool call_is_over(const struct accept_call *call)
{
    uint8_t byte;

    return recv(call->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void accept_on_way(void *owner, const struct verbs_way_result *result)
{
    struct accept_call *call = owner;
    const char *no_way = result->status == TS_ERR_UNREACHABLE ? result->text : NULL;

    if (result->passed > 0)
        worker_error(call->worker, &call->worker->peer_limit, "%s, to %s; by another pair there is",
                     result->text, call->hello.address);
    call->hello.verbs.gid_pairs += result->passed;
    if (result->status == TS_ERR_GONE || call_is_over(call))
        close(call->socket);
    else
        accept_answer(call->worker, &call->peer, &call->hello, no_way, call->socket);
    free(call);
}

/* True: accept_on_way goes on with it. */
static bool accept_find_way(struct worker *worker, const struct proto_peer *peer,
                            const struct handshake_hello *hello, int socket)
{
    struct accept_call *call;

    if (worker->verbs == NULL || !hello->verbs.offered || accept_offers_local(worker, hello))
        return false;
    call = calloc(1, sizeof(*call));
    if (call == NULL)
        return false;
    *call =
        (struct accept_call){.worker = worker, .socket = socket, .peer = *peer, .hello = *hello};
    if (verbs_way_find(worker, &hello->verbs, VERBS_WAY_ANY, accept_on_way, call) != NULL)
        return true;
    free(call);
    return false;
}

/* Our own call: it learns from the id that it is us and uses the link to itself. */
static void accept_self(struct worker *worker, const struct proto_peer *peer,
                        const struct handshake_hello *hello, int socket)
{
    struct handshake_welcome welcome;

    welcome_fill(worker, hello, &welcome);
    welcome.local = false;
    welcome_send(worker, peer, socket, &welcome);
    close(socket);
}

void accept_peer(struct worker *worker, const struct proto_peer *peer, int socket)
{
    struct handshake_hello hello;

    if (peer->hello_len > sizeof(peer->hello) ||
        handshake_hello_read(peer->hello, peer->hello_len, &hello) != TS_OK) {
        close(socket);
        return;
    }
    link_setup_socket(worker, socket);
    if (memcmp(hello.worker, worker->id, sizeof(hello.worker)) == 0)
        accept_self(worker, peer, &hello, socket);
    else if (!accept_find_way(worker, peer, &hello, socket))
        accept_answer(worker, peer, &hello, NULL, socket);
}

/* ---- local links ---- */

/* The second packet on the socket: the rings. */
static void accept_on_rings(struct source *source, uint32_t events)
{
    struct accept *accept = list_entry(source, struct accept, source);
    struct endpoint *endpoint = accept->endpoint;
    struct wire_message message;
    char text[PROTO_TEXT_MAX] = "the local link broke during set-up";
    int fds[3], rc;

    (void)events;
    rc = wire_receive(source->fd, &message);
    if (rc == TS_AGAIN)
        return;
    if (rc == TS_OK && message.header.type == WIRE_CHANNEL_ADD) {
        int socket = source->fd;

        for (int i = 0; i < 3; i++)
            fds[i] = wire_message_take(&message, i);
        reactor_watch(&endpoint->worker->reactor, source, 0);
        source->fd = -1;
        endpoint->link = local_link_open(endpoint, socket, fds, false, text, sizeof(text));
    } else if (rc == TS_OK) {
        wire_message_close(&message);
    }
    accept_free(endpoint->worker, accept);
    if (endpoint->link != NULL)
        endpoint_handle(endpoint, ENDPOINT_EVENT_LINKED, TS_OK, "");
    else
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_PROTOCOL, text);
}

void accept_local(struct worker *worker, const struct proto_local_link *link, int socket)
{
    list_each (node, following, &worker->accepts) {
        struct accept *accept = list_entry(node, struct accept, link);

        if (accept->source.fd >= 0 || memcmp(accept->token, link->token, HANDSHAKE_ID) != 0)
            continue;
        accept->source = (struct source){.fd = socket, .ready = accept_on_rings};
        if (reactor_watch(&worker->reactor, &accept->source, EPOLLIN) < 0)
            break;
        return;
    }
    close(socket); /* nobody waits for this token: late, or made up */
}

void accept_forget(struct endpoint *endpoint)
{
    list_each (node, following, &endpoint->worker->accepts) {
        struct accept *accept = list_entry(node, struct accept, link);

        if (accept->endpoint == endpoint)
            accept_free(endpoint->worker, accept);
    }
}
