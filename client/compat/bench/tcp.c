/* A limit: the block through one loopback TCP connection and a byte back, with blocking calls. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/compat/bench/bench.h"

static int connection = -1, listener = -1;

static int socket_prepare(int fd)
{
    const struct timeval limit = {.tv_sec = BENCH_WAIT_MS / 1000};
    const int on = 1;

    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0)
        return bench_fail("TCP: %s", strerror(errno));
    return 0;
}

static int target_begin(char *name)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 ||
        listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&address, &size) < 0)
        return bench_fail("TCP: %s", strerror(errno));
    snprintf(name, BENCH_NAME_MAX, "%u", ntohs(address.sin_port));
    return 0;
}

static int tcp_begin(struct bench_side *side)
{
    char *name = side->board->name[BENCH_TCP];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    if (side->target)
        return target_begin(name);
    address.sin_port = htons((uint16_t)strtoul(name, NULL, 10));
    connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof(address)) < 0)
        return bench_fail("TCP: %s", strerror(errno));
    return socket_prepare(connection);
}

static int all_send(const uint8_t *bytes, uint64_t length)
{
    while (length > 0) {
        ssize_t sent = send(connection, bytes, length, MSG_NOSIGNAL);

        if (sent < 0)
            return bench_fail("TCP: %s", strerror(errno));
        bytes += sent;
        length -= (uint64_t)sent;
    }
    return 0;
}

static int all_receive(uint8_t *bytes, uint64_t length)
{
    while (length > 0) {
        ssize_t got = recv(connection, bytes, length, 0);

        if (got <= 0)
            return bench_fail("TCP: %s", got == 0 ? "the other side ended" : strerror(errno));
        bytes += got;
        length -= (uint64_t)got;
    }
    return 0;
}

/* The other way round it would cost the same, so a READ's limit is this, too. */
static int tcp_move(struct bench_side *side, enum bench_op op, uint64_t length)
{
    uint8_t byte;

    (void)op;
    return all_send(side->bytes, length) == 0 ? all_receive(&byte, 1) : -1;
}

static int tcp_take(struct bench_side *side, uint64_t length)
{
    if (connection < 0) {
        connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket_prepare(connection) < 0)
            return -1;
    }
    if (all_receive(side->bytes, length) < 0)
        return -1;
    return all_send(side->bytes, 1) == 0 ? 1 : -1;
}

static void tcp_end(void)
{
    if (connection >= 0)
        close(connection);
    if (listener >= 0)
        close(listener);
}

const struct bench_method bench_tcp = {"TCP", tcp_begin, tcp_move, tcp_take, tcp_end};
