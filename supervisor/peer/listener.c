#include "supervisor/peer/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/supervisor.h"

#define BACKLOG 128

static void listener_accepted(struct acceptor *acceptor, int fd)
{
    peer_gate_admit(&acceptor->supervisor->gate, fd);
}

static void address_print(const struct sockaddr *address, socklen_t size, char *text,
                          size_t text_size)
{
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";

    getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, text_size, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* A listening socket, or -1 with errno. */
static int socket_listen(const struct addrinfo *info)
{
    const int on = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int saved;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* So that [::] and 0.0.0.0 of one name do not take the port from each other. */
    if (info->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Port 0: all addresses of the name get the port that the first was given. */
static void address_port_set(struct sockaddr *any, uint16_t port)
{
    union address *address = (union address *)(void *)any;

    if (any->sa_family == AF_INET6)
        address->v6.sin6_port = htons(port);
    else
        address->v4.sin_port = htons(port);
}

static void listener_name(struct listener *listener, int fd)
{
    union address bound;
    socklen_t size = sizeof(bound);

    memset(&bound, 0, sizeof(bound));
    if (getsockname(fd, &bound.any, &size) < 0)
        return;
    listener->port =
        ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
    address_print(&bound.any, size, listener->address, sizeof(listener->address));
}

static void bind_error(const struct addrinfo *info, int error, char *text, size_t text_size)
{
    char address[LAYOUT_NAME_MAX];

    address_print(info->ai_addr, info->ai_addrlen, address, sizeof(address));
    if (error == EADDRINUSE)
        snprintf(text, text_size,
                 "%s is taken by another process (`ss -ltnp` names it): choose another port with "
                 "--listen, or port 0 for any free one",
                 address);
    else if (error == EADDRNOTAVAIL)
        snprintf(text, text_size,
                 "%s is no address of this host: choose one of `ip address` with --listen",
                 address);
    else
        snprintf(text, text_size, "%s cannot be listened on: %s", address, strerror(error));
}

/* 1 = open, 0 = this host does not have the address, -1 with text. */
static int listener_add(struct listener *listener, struct supervisor *supervisor,
                        const struct addrinfo *info, char *text, size_t text_size)
{
    struct acceptor *acceptor = &listener->acceptor[listener->count];
    int fd;

    if (listener->port != 0)
        address_port_set(info->ai_addr, listener->port);
    fd = socket_listen(info);
    if (fd < 0) {
        bind_error(info, errno, text, text_size);
        return errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT ? 0 : -1;
    }
    if (acceptor_open(acceptor, supervisor, fd, "peer", listener_accepted) < 0) {
        snprintf(text, text_size, "peers' port cannot be watched: %s", strerror(errno));
        close(fd);
        return -1;
    }
    if (listener->count++ == 0)
        listener_name(listener, fd);
    return 1;
}

int listener_open(struct listener *listener, struct supervisor *supervisor, const char *host,
                  uint16_t port, char *text, size_t text_size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list;
    char service[8];
    int rc;

    snprintf(service, sizeof(service), "%u", port);
    listener->count = 0;
    listener->port = 0;
    rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0) {
        snprintf(text, text_size, "--listen %s: %s", host,
                 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
        return -1;
    }
    rc = 0;
    for (const struct addrinfo *info = list;
         info != NULL && rc >= 0 && listener->count < LISTENER_SOCKETS; info = info->ai_next)
        rc = listener_add(listener, supervisor, info, text, text_size);
    freeaddrinfo(list);
    if (rc >= 0 && listener->count > 0)
        return 0;
    listener_close(listener);
    return -1;
}

void listener_close(struct listener *listener)
{
    for (unsigned i = 0; i < listener->count; i++)
        acceptor_close(&listener->acceptor[i]);
    listener->count = 0;
}
