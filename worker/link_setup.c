#include "worker/link_setup.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm/channel.h"
#include "shm/err.h"
#include "shm/wire.h"

#define LOCAL_SLOTS 16u /* a local link uses the byte rings of a channel only */

void link_setup_socket(const struct worker *worker, int fd)
{
    int on = 1, idle = 1, interval = 1, count = 3, timeout_ms = 4000;
    int window = (int)worker->config.tcp_window;

    /* A failure costs speed or a later notice of a dead host, not correctness. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    /* What waits in a socket cannot be overtaken: with the kernel's 6 MiB a notification behind
     * bulk data came a millisecond later (docs/performance.md). */
    if (window > 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &window, sizeof(window));
}

int connect_start_socket(const struct worker *worker, int fd, const struct addrinfo *address)
{
    link_setup_socket(worker, fd);
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS)
        return -1;
    return 0;
}

static int local_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    snprintf(address.sun_path, sizeof(address.sun_path), "%.107s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The token goes to the peer's supervisor, which passes the socket on; the rings go to the worker,
 * in the next packet of the same socket. */
static int local_send(int fd, const struct handshake_welcome *welcome, const int fds[3])
{
    struct wire_message message;
    int rc;

    wire_message_init(&message, WIRE_LOCAL_LINK);
    memcpy(message.body.link.token, welcome->token, sizeof(welcome->token));
    rc = wire_send(fd, &message);
    if (rc != TS_OK)
        return rc;
    wire_message_init(&message, WIRE_CHANNEL_ADD);
    memcpy(message.fds, fds, 3 * sizeof(int));
    message.fd_count = 3;
    return wire_send(fd, &message);
}

int link_setup_local(struct endpoint *endpoint, const struct handshake_welcome *welcome, char *text,
                     size_t text_size)
{
    uint32_t notify_max = endpoint->worker->config.notify_max;
    struct channel_shape shape = {.slots = LOCAL_SLOTS, .notify_max = notify_max, .mailbox = true};
    int fds[3] = {-1, -1, -1};
    int socket_fd = local_connect(welcome->local_socket);

    if (socket_fd < 0) {
        snprintf(text, text_size, "cannot reach %.150s: %s", welcome->local_socket,
                 strerror(errno));
        return TS_ERR_UNREACHABLE;
    }
    fds[0] = channel_create(&shape);
    fds[1] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); /* wakes the peer */
    fds[2] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); /* wakes us */
    if (fds[0] < 0 || fds[1] < 0 || fds[2] < 0 || local_send(socket_fd, welcome, fds) != TS_OK) {
        snprintf(text, text_size, "cannot hand over the rings of a local link: %s",
                 strerror(errno));
        for (int i = 0; i < 3; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        close(socket_fd);
        return TS_ERR_SYSTEM;
    }
    endpoint->link = local_link_open(endpoint, socket_fd, fds, true, text, text_size);
    return endpoint->link != NULL ? TS_OK : TS_ERR_SYSTEM;
}

/* The peer takes the connection for a link since its WELCOME; this ends it in order, not as a
 * loss. */
static void link_setup_decline(const struct endpoint *endpoint)
{
    const struct frame bye = {.type = FRAME_BYE};

    (void)send(endpoint->connect.source.fd, &bye, sizeof(bye), MSG_NOSIGNAL);
}

static void link_setup_verbs(struct endpoint *endpoint, const struct handshake_welcome *welcome)
{
    char text[PROTO_TEXT_MAX] = "the peer answered with RDMA that was not offered";
    int fd = connect_take_socket(endpoint);

    endpoint->link = endpoint->offer;
    endpoint->offer = NULL;
    endpoint->gid_pairs = welcome->verbs.gid_pairs;
    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
    if (endpoint->link == NULL ||
        verbs_link_confirm(endpoint->link, &welcome->verbs, text, sizeof(text)) != TS_OK) {
        close(fd);
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_UNREACHABLE, text);
        return;
    }
    if (verbs_link_carry(endpoint->link, fd) != TS_OK)
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_NO_MEMORY, "no memory for a link");
}

void link_setup_no_way(struct endpoint *endpoint, const struct handshake_welcome *welcome,
                       const char *text)
{
    endpoint->gid_pairs = welcome->verbs.gid_pairs;
    connect_stop(endpoint);
    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
    endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_UNREACHABLE, text);
}

void link_setup_initiator(struct endpoint *endpoint, const struct handshake_welcome *welcome)
{
    struct worker *worker = endpoint->worker;
    char text[PROTO_TEXT_MAX] = "";
    struct endpoint *other;
    int fd;

    memcpy(endpoint->peer_id, welcome->worker, sizeof(endpoint->peer_id));
    endpoint->known = true;
    endpoint->notify_max = welcome->notify_max;
    snprintf(endpoint->peer_name, sizeof(endpoint->peer_name), "%s", welcome->worker_name);
    other = endpoint_find_peer(worker, endpoint->peer_id, endpoint);
    if (other != NULL && (other->self || !endpoint_prefers_new(other, true))) {
        atomic_count(&worker->stats->endpoint_duplicate, 1);
        if (!other->self && !welcome->local)
            link_setup_decline(endpoint);
        endpoint_hand_over(endpoint, other);
        endpoint_handle(endpoint, ENDPOINT_EVENT_DUPLICATE, TS_OK, "another connection is kept");
        return;
    }
    if (welcome->local) {
        endpoint_withdraw_offer(endpoint);
        connect_hold_socket(endpoint);
        endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
        if (link_setup_local(endpoint, welcome, text, sizeof(text)) != TS_OK)
            endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_UNREACHABLE, text);
        return;
    }
    if (welcome->verbs.offered) {
        link_setup_verbs(endpoint, welcome);
        return;
    }
    if (worker->config.fabric == PROTO_FABRIC_VERBS) {
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_UNSUPPORTED,
                        "RDMA only, and the peer has none for us");
        return;
    }
    endpoint_withdraw_offer(endpoint);
    fd = connect_take_socket(endpoint);
    endpoint->link = tcp_link_open(endpoint, fd);
    if (endpoint->link == NULL)
        endpoint_handle(endpoint, ENDPOINT_EVENT_LOST, TS_ERR_NO_MEMORY, "no memory for a link");
    else
        endpoint_handle(endpoint, ENDPOINT_EVENT_WELCOME, TS_OK, "");
}
