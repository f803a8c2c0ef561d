#include "tests/harness/worker/responder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"

void responder_listen(struct responder *responder, const uint8_t key[HANDSHAKE_KEY])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    responder->socket = -1;
    memcpy(responder->key, key, sizeof(responder->key));
    responder->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    host_require(bind(responder->listener, (struct sockaddr *)&address, size) == 0 &&
                     listen(responder->listener, 8) == 0 &&
                     getsockname(responder->listener, (struct sockaddr *)&address, &size) == 0,
                 "a listening socket");
    responder->port = ntohs(address.sin_port);
}

bool responder_accepts(struct responder *responder)
{
    responder->socket = accept4(responder->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return responder->socket >= 0;
}

void responder_hangs_up(struct responder *responder)
{
    if (responder->socket >= 0)
        close(responder->socket);
    responder->socket = -1;
}

/* One whole message of the initiator. */
size_t responder_hears(struct responder *responder, enum handshake_type type, uint8_t *bytes)
{
    uint64_t until = host_deadline();
    size_t have = 0;
    int size = 0;

    while (size == 0 || have < (size_t)size) {
        size_t want = size > 0 ? (size_t)size : 12;
        ssize_t got = recv(responder->socket, bytes + have, want - have, MSG_DONTWAIT);

        have += got > 0 ? (size_t)got : 0;
        size = handshake_size(bytes, have, type);
        host_require(size >= 0 && got != 0, "an initiator that speaks the protocol");
        if (got < 0)
            host_turn_before(until, "the initiator is silent");
    }
    return have;
}

void responder_says(struct responder *responder, const uint8_t *bytes, size_t size)
{
    host_require(send(responder->socket, bytes, size, MSG_NOSIGNAL) == (ssize_t)size,
                 "an initiator that listens");
    host_turns(1);
}

/* The attempt up to HELLO. */
void responder_meets(struct responder *responder)
{
    host_until(responder_accepts(responder));
    responder->hello_size = responder_hears(responder, HANDSHAKE_HELLO, responder->hello);
    host_require(handshake_hello_read(responder->hello, responder->hello_size, &responder->said) ==
                     TS_OK,
                 "a valid HELLO");
}

/* Up to PROOF, which must be a proof. */
void responder_challenges(struct responder *responder)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size;

    responder_meets(responder);
    size = handshake_challenge_write(bytes, responder->challenge);
    responder_says(responder, bytes, size);
    size = responder_hears(responder, HANDSHAKE_PROOF, bytes);
    host_require(handshake_proof_check(bytes, size, responder->key, responder->hello,
                                       responder->hello_size, responder->challenge) == TS_OK,
                 "a proof");
}

struct handshake_welcome responder_welcome(const struct responder *responder)
{
    struct handshake_welcome welcome = {.generation = responder->said.generation,
                                        .worker_name = "there",
                                        .notify_max = HOST_NOTIFY_MAX};

    memset(welcome.worker, 0xee, sizeof(welcome.worker));
    return welcome;
}

size_t responder_welcome_write(const struct responder *responder,
                               const struct handshake_welcome *welcome, uint8_t *bytes)
{
    return handshake_welcome_write(bytes, responder->key, responder->hello, responder->hello_size,
                                   responder->challenge, welcome);
}

void responder_welcomes(struct responder *responder, const struct handshake_welcome *welcome)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    responder_says(responder, bytes, responder_welcome_write(responder, welcome, bytes));
}

void responder_end(struct responder *responder)
{
    responder_hangs_up(responder);
    close(responder->listener);
}
