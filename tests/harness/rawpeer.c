#include "tests/harness/test.h"

#include "tests/harness/rawpeer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "tests/harness/wait.h"

#define HEAD_SIZE 12u /* enough to know how long a message of the handshake is */

static void key_read(uint8_t key[HANDSHAKE_KEY])
{
    char path[DAEMON_PATH], hex[2 * HANDSHAKE_KEY + 1] = "";
    FILE *file;

    snprintf(path, sizeof(path), "%s/peer.key", daemon_directory());
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(hex, 1, 2 * HANDSHAKE_KEY, file), 2 * HANDSHAKE_KEY);
    fclose(file);
    assert_int_equal(sodium_hex2bin(key, HANDSHAKE_KEY, hex, strlen(hex), NULL, NULL, NULL), 0);
}

void rawpeer_connect_keyless(struct rawpeer *peer, const struct daemon *daemon)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *port = strrchr(daemon->address, ':');

    memset(peer, 0, sizeof(*peer));
    assert_non_null(port);
    address.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
    handshake_random(peer->key, sizeof(peer->key));
    peer->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer->socket >= 0);
    assert_int_equal(connect(peer->socket, (struct sockaddr *)&address, sizeof(address)), 0);
}

void rawpeer_connect(struct rawpeer *peer, const struct daemon *daemon)
{
    rawpeer_connect_keyless(peer, daemon);
    key_read(peer->key);
}

void rawpeer_send(const struct rawpeer *peer, const void *bytes, size_t size)
{
    struct wait wait = wait_begin("room in the connection", WAIT_MS);
    size_t done = 0;

    while (done < size) {
        ssize_t sent = send(peer->socket, (const uint8_t *)bytes + done, size - done,
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* hung up: what the test waits for next */
        if (sent < 0)
            wait_step(&wait);
        else
            done += (size_t)sent;
    }
}

size_t rawpeer_hangup_bytes(const struct rawpeer *peer, unsigned ms)
{
    struct wait wait = wait_begin("the peer hangs up", ms);
    size_t said = 0;
    char bytes[4096];

    for (;;) {
        ssize_t got = recv(peer->socket, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return said;
        if (got < 0)
            wait_step(&wait);
        else
            said += (size_t)got;
    }
}

uint64_t rawpeer_expect_hangup(const struct rawpeer *peer, unsigned ms)
{
    uint64_t began = wait_now_ms();

    (void)rawpeer_hangup_bytes(peer, ms);
    return wait_now_ms() - began;
}

void rawpeer_close(struct rawpeer *peer)
{
    close(peer->socket);
    peer->socket = -1;
}

static void bytes_read(const struct rawpeer *peer, void *bytes, size_t size, const char *what)
{
    struct wait wait = wait_begin(what, WAIT_MS);
    size_t done = 0;

    while (done < size) {
        ssize_t got = recv(peer->socket, (uint8_t *)bytes + done, size - done, MSG_DONTWAIT);

        if (got > 0)
            done += (size_t)got;
        else if (got < 0 && errno == EAGAIN)
            wait_step(&wait);
        else
            fail_msg("%s: the connection ended", what);
    }
}

static size_t message_read(const struct rawpeer *peer, uint8_t bytes[HANDSHAKE_FRAME_MAX],
                           enum handshake_type type)
{
    int size;

    bytes_read(peer, bytes, HEAD_SIZE, "a message of the handshake");
    size = handshake_size(bytes, HEAD_SIZE, type);
    assert_true(size >= (int)HEAD_SIZE);
    bytes_read(peer, bytes + HEAD_SIZE, (size_t)size - HEAD_SIZE, "a message of the handshake");
    return (size_t)size;
}

static void hello_send(struct rawpeer *peer, const char *segment)
{
    struct handshake_hello hello = {.generation = 1,
                                    .address = "127.0.0.1:9",
                                    .worker_name = "forged",
                                    .notify_max = LAYOUT_NOTIFY_NATIVE_MAX,
                                    .verbs = peer->verbs};

    handshake_random(hello.worker, sizeof(hello.worker));
    snprintf(hello.host, sizeof(hello.host), "another host");
    snprintf(hello.segment, sizeof(hello.segment), "%s", segment);
    peer->hello_size = handshake_hello_write(peer->hello, &hello);
    rawpeer_send(peer, peer->hello, peer->hello_size);
}

void rawpeer_hello_refused(struct rawpeer *peer, const char *segment)
{
    hello_send(peer, segment);
    assert_int_equal(rawpeer_hangup_bytes(peer, WAIT_MS), 0);
}

void rawpeer_hello(struct rawpeer *peer, const char *segment)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    hello_send(peer, segment);
    assert_int_equal(handshake_challenge_read(bytes, message_read(peer, bytes, HANDSHAKE_CHALLENGE),
                                              peer->challenge),
                     TS_OK);
}

void rawpeer_proof(struct rawpeer *peer)
{
    peer->proof_size = handshake_proof_write(peer->proof, peer->key, peer->hello, peer->hello_size,
                                             peer->challenge);
    rawpeer_send(peer, peer->proof, peer->proof_size);
}

int rawpeer_ask(struct rawpeer *peer, const char *segment)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size;

    rawpeer_hello(peer, segment);
    rawpeer_proof(peer);
    size = message_read(peer, bytes, HANDSHAKE_WELCOME);
    assert_int_equal(handshake_welcome_read(bytes, size, peer->key, peer->hello, peer->hello_size,
                                            peer->challenge, &peer->welcome),
                     TS_OK);
    return peer->welcome.status;
}

void rawpeer_shake(struct rawpeer *peer, const struct daemon *daemon, const char *segment)
{
    rawpeer_connect(peer, daemon);
    if (rawpeer_ask(peer, segment) != TS_OK)
        fail_msg("handshake: %s", peer->welcome.text);
    assert_false(peer->welcome.local);
}

void rawpeer_frame(const struct rawpeer *peer, const struct frame *frame, const void *payload)
{
    rawpeer_send(peer, frame, sizeof(*frame));
    if (payload)
        rawpeer_send(peer, payload, frame->length);
}

struct frame rawpeer_wait(const struct rawpeer *peer, enum frame_type type, void *payload,
                          size_t room)
{
    static uint8_t skipped[FRAME_SLICE_MAX];
    struct frame frame;

    for (;;) {
        bytes_read(peer, &frame, sizeof(frame), "a frame");
        assert_true(frame.length <= sizeof(skipped));
        bytes_read(peer, skipped, frame.length, "a frame's payload");
        if (frame.type != type)
            continue;
        if (payload)
            memcpy(payload, skipped, frame.length < room ? frame.length : room);
        return frame;
    }
}

struct frame rawpeer_open(const struct rawpeer *peer, const char *segment, uint32_t uid,
                          uint32_t request)
{
    const struct frame frame = {
        .type = FRAME_OPEN, .request = request, .length = sizeof(struct frame_open)};
    struct frame_open ask = {.uid = uid, .sender = "127.0.0.1:9/forged"};

    snprintf(ask.segment, sizeof(ask.segment), "%s", segment);
    rawpeer_frame(peer, &frame, &ask);
    return rawpeer_wait(peer, FRAME_OPENED, NULL, 0);
}
