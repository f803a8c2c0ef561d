#include "worker/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/name.h"
#include "worker/endpoint.h"
#include "worker/link_setup.h"

static void connect_try(struct endpoint *endpoint);

static struct endpoint *endpoint_of(struct source *source)
{
    return list_entry(source, struct endpoint, connect.source);
}

static void connect_close_socket(struct endpoint *endpoint)
{
    struct connect *connect = &endpoint->connect;

    if (connect->source.fd < 0)
        return;
    reactor_watch(&endpoint->worker->reactor, &connect->source, 0);
    close(connect->source.fd);
    connect->source.fd = -1;
}

void connect_stop(struct endpoint *endpoint)
{
    resolve_stop(&endpoint->connect.resolve);
    if (endpoint->connect.way != NULL)
        verbs_way_forget(endpoint->connect.way);
    endpoint->connect.way = NULL;
    connect_close_socket(endpoint);
    if (endpoint->connect.found != NULL)
        freeaddrinfo(endpoint->connect.found);
    endpoint->connect.found = endpoint->connect.next = NULL;
}

int connect_take_socket(struct endpoint *endpoint)
{
    struct connect *connect = &endpoint->connect;
    int fd = connect->source.fd;

    reactor_watch(&endpoint->worker->reactor, &connect->source, 0);
    connect->source.fd = -1;
    connect_stop(endpoint);
    return fd;
}

void connect_hold_socket(struct endpoint *endpoint)
{
    reactor_watch(&endpoint->worker->reactor, &endpoint->connect.source, 0);
}

static void connect_failed(struct endpoint *endpoint, int status, const char *what, int error)
{
    char why[PROTO_TEXT_MAX];

    snprintf(why, sizeof(why), "%s%s%s", what, error != 0 ? ": " : "",
             error != 0 ? strerror(error) : "");
    connect_close_socket(endpoint);
    if (endpoint->connect.next != NULL && endpoint->state == ENDPOINT_CONNECTING) {
        connect_try(endpoint); /* the host has one more address */
        return;
    }
    endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, status, why);
}

static void connect_send(struct endpoint *endpoint, const uint8_t *bytes, size_t size)
{
    /* A few hundred bytes on a fresh connection: a socket that does not take them is broken. */
    if (send(endpoint->connect.source.fd, bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
        connect_failed(endpoint, TS_ERR_UNREACHABLE, "cannot send the handshake", errno);
}

static void connect_hello(struct endpoint *endpoint)
{
    struct connect *connect = &endpoint->connect;

    connect->have = 0;
    connect->expected = HANDSHAKE_CHALLENGE;
    reactor_watch(&endpoint->worker->reactor, &connect->source, EPOLLIN);
    endpoint_handle(endpoint, ENDPOINT_EVENT_CONNECTED, TS_OK, "");
    connect_send(endpoint, connect->hello, connect->hello_size);
}

static void connect_on_challenge(struct endpoint *endpoint)
{
    struct connect *connect = &endpoint->connect;
    uint8_t proof[HANDSHAKE_FRAME_MAX];
    size_t size;

    if (handshake_challenge_read(connect->in, connect->have, connect->challenge) != TS_OK) {
        connect_failed(endpoint, TS_ERR_PROTOCOL, "the peer sent no valid challenge", 0);
        return;
    }
    size = handshake_proof_write(proof, endpoint->worker->config.peer_key, connect->hello,
                                 connect->hello_size, connect->challenge);
    connect->have = 0;
    connect->expected = HANDSHAKE_WELCOME;
    connect_send(endpoint, proof, size);
}

static void connect_on_way(void *owner, const struct verbs_way_result *result)
{
    struct endpoint *endpoint = owner;
    struct connect *connect = &endpoint->connect;

    connect->way = NULL;
    if (result->status == TS_OK)
        link_setup_initiator(endpoint, &connect->welcome);
    else
        link_setup_no_way(endpoint, &connect->welcome, result->text);
}

/* RDMA was agreed upon: the socket is silent until it is known whether there is a way. */
static bool connect_find_way(struct endpoint *endpoint, const struct handshake_welcome *welcome)
{
    struct connect *connect = &endpoint->connect;

    if (!welcome->verbs.offered || endpoint->offer == NULL)
        return false;
    connect->way = verbs_way_find(endpoint->worker, &welcome->verbs, welcome->verbs.gid_chosen,
                                  connect_on_way, endpoint);
    if (connect->way == NULL)
        return false;
    connect_hold_socket(endpoint);
    return true;
}

/* The peer's final word: a refusal, or who it is. */
static void connect_on_welcome(struct endpoint *endpoint)
{
    struct connect *connect = &endpoint->connect;
    struct handshake_welcome *welcome = &connect->welcome;
    int rc =
        handshake_welcome_read(connect->in, connect->have, endpoint->worker->config.peer_key,
                               connect->hello, connect->hello_size, connect->challenge, welcome);

    if (rc != TS_OK) {
        connect_close_socket(endpoint);
        endpoint_handle(endpoint, ENDPOINT_EVENT_REFUSED, rc,
                        rc == TS_ERR_AUTH ? "the peer did not prove that it knows the key"
                                          : "the peer sent no valid welcome");
        return;
    }
    if (welcome->generation != endpoint->generation) {
        /* An answer to an earlier attempt must never configure this one. */
        connect_failed(endpoint, TS_ERR_PROTOCOL, "the peer answered another attempt", 0);
        return;
    }
    if (welcome->status == TS_AGAIN) {
        connect_failed(endpoint, TS_ERR_UNREACHABLE, welcome->text, 0);
        return;
    }
    if (welcome->status != TS_OK) {
        connect_close_socket(endpoint);
        endpoint_handle(endpoint, ENDPOINT_EVENT_REFUSED, welcome->status, welcome->text);
        return;
    }
    if (!connect_find_way(endpoint, welcome))
        link_setup_initiator(endpoint, welcome);
}

/* A peer that does not believe our proof may say nothing, so that whoever guesses keys learns
 * nothing: a close in order, right after the proof, is its refusal. */
static void connect_on_end(struct endpoint *endpoint, int error)
{
    if (error == 0 && endpoint->connect.expected == HANDSHAKE_WELCOME)
        connect_failed(endpoint, TS_ERR_AUTH,
                       "the peer refused our key (both hosts need the same peer.key and peer.auth)",
                       0);
    else
        connect_failed(endpoint, TS_ERR_UNREACHABLE,
                       "the peer closed the connection during the handshake", error);
}

static void connect_on_bytes(struct endpoint *endpoint)
{
    struct connect *connect = &endpoint->connect;
    int size = handshake_size(connect->in, connect->have, connect->expected);
    size_t want = sizeof(connect->in);
    ssize_t got;

    /* Never read beyond this message: what follows belongs to the link. */
    if (size == 0)
        want = 12;
    else if (size > 0)
        want = (size_t)size;
    got = recv(connect->source.fd, connect->in + connect->have, want - connect->have, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        connect_on_end(endpoint, got < 0 ? errno : 0);
        return;
    }
    connect->have += (size_t)got;
    size = handshake_size(connect->in, connect->have, connect->expected);
    if (size < 0) {
        connect_failed(endpoint, size, "the peer does not speak this protocol", 0);
        return;
    }
    if (size == 0 || connect->have < (size_t)size)
        return;
    if (connect->expected == HANDSHAKE_CHALLENGE)
        connect_on_challenge(endpoint);
    else
        connect_on_welcome(endpoint);
}

static void connect_on_ready(struct source *source, uint32_t events)
{
    struct endpoint *endpoint = endpoint_of(source);
    int error = 0;
    socklen_t size = sizeof(error);

    if (endpoint->state == ENDPOINT_CONNECTING) {
        getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0)
            connect_failed(endpoint, TS_ERR_UNREACHABLE, "cannot connect", error);
        else if ((events & EPOLLOUT) != 0)
            connect_hello(endpoint);
        return;
    }
    connect_on_bytes(endpoint);
}

static void connect_try(struct endpoint *endpoint)
{
    struct connect *connect = &endpoint->connect;
    struct addrinfo *address = connect->next;
    int fd;

    connect->next = address->ai_next;
    fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        connect_failed(endpoint, TS_ERR_UNREACHABLE, "cannot make a socket", errno);
        return;
    }
    connect->source = (struct source){.fd = fd, .ready = connect_on_ready};
    if (connect_start_socket(endpoint->worker, fd, address) < 0) {
        connect_failed(endpoint, TS_ERR_UNREACHABLE, "cannot connect", errno);
        return;
    }
    if (reactor_watch(&endpoint->worker->reactor, &connect->source, EPOLLOUT) < 0)
        connect_failed(endpoint, TS_ERR_UNREACHABLE, "cannot watch a socket", errno);
}

static void connect_on_resolved(struct resolve *resolve, int error, struct addrinfo *found)
{
    struct endpoint *endpoint = list_entry(resolve, struct endpoint, connect.resolve);
    const char *why = error != 0 ? gai_strerror(error) : "";

    if (error == EAI_AGAIN || error == EAI_SYSTEM || error == EAI_MEMORY) {
        connect_failed(endpoint, TS_ERR_UNREACHABLE, why, 0); /* may work the next time */
    } else if (error != 0) {
        endpoint_handle(endpoint, ENDPOINT_EVENT_REFUSED, TS_ERR_UNREACHABLE, why);
    } else {
        endpoint->connect.found = endpoint->connect.next = found;
        connect_try(endpoint);
    }
}

void connect_init(struct endpoint *endpoint)
{
    endpoint->connect.source.fd = -1;
    resolve_init(&endpoint->connect.resolve, &endpoint->worker->reactor, connect_on_resolved);
}

static bool connect_may_be_local(const struct endpoint *endpoint)
{
    uint32_t fabric = endpoint->worker->config.fabric;

    return !endpoint->tcp_only && (fabric == PROTO_FABRIC_AUTO || fabric == PROTO_FABRIC_LOCAL);
}

/* The peer may turn out to be of this host, or without RDMA: then the queue pairs go again. */
static void connect_offer_verbs(struct endpoint *endpoint, struct handshake_hello *hello)
{
    struct worker *worker = endpoint->worker;
    char text[PROTO_TEXT_MAX] = "no memory for a link";

    endpoint_withdraw_offer(endpoint);
    if (worker->verbs == NULL || endpoint->tcp_only)
        return;
    endpoint->offer = verbs_link_prepare(endpoint, true, text, sizeof(text));
    if (endpoint->offer == NULL)
        worker_error(worker, &worker->peer_limit, "no RDMA to %s: %s", endpoint->address, text);
    else
        hello->verbs = *verbs_link_offer(endpoint->offer);
    hello->verbs.gid_pairs = endpoint->gid_tried;
}

void connect_start(struct endpoint *endpoint, const char *segment)
{
    struct worker *worker = endpoint->worker;
    struct connect *connect = &endpoint->connect;
    struct handshake_hello hello = {.generation = endpoint->generation,
                                    .local = connect_may_be_local(endpoint),
                                    .notify_max = worker->config.notify_max};
    struct segment_name where;
    const char *why;

    connect_stop(endpoint);
    memcpy(hello.worker, worker->id, sizeof(hello.worker));
    snprintf(hello.host, sizeof(hello.host), "%s", worker->host_id);
    snprintf(hello.address, sizeof(hello.address), "%s", worker->config.address);
    snprintf(hello.worker_name, sizeof(hello.worker_name), "%s", worker->config.name);
    snprintf(hello.segment, sizeof(hello.segment), "%s", segment);
    connect_offer_verbs(endpoint, &hello);
    connect->hello_size = handshake_hello_write(connect->hello, &hello);
    if (name_parse_address(endpoint->address, &where, &why) != TS_OK) {
        endpoint_handle(endpoint, ENDPOINT_EVENT_REFUSED, TS_ERR_INVALID, why);
        return;
    }
    resolve_start(&connect->resolve, where.host, where.port);
}
