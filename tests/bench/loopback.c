#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/bench/loopback.h"

static void socket_prepare(int socket)
{
    const struct timeval deadline = {.tv_sec = 10};
    const int on = 1;

    assert_int_equal(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    assert_int_equal(setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline)), 0);
    assert_int_equal(setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof(deadline)), 0);
}

void loopback_open(int sockets[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    sockets[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(sockets[0] >= 0);
    assert_int_equal(connect(sockets[0], (struct sockaddr *)&address, size), 0);
    sockets[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(sockets[1] >= 0);
    close(listener);
    socket_prepare(sockets[0]);
    socket_prepare(sockets[1]);
}

void loopback_close(const int sockets[2])
{
    close(sockets[0]);
    close(sockets[1]);
}

void loopback_send(int socket, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(socket, (const uint8_t *)bytes + done, size - done, MSG_NOSIGNAL);

        assert_true(sent > 0);
        done += (size_t)sent;
    }
}

void loopback_receive(int socket, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = recv(socket, (uint8_t *)bytes + done, size - done, 0);

        assert_true(got > 0);
        done += (size_t)got;
    }
}
