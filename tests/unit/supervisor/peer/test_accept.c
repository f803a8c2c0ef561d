/* The gate for peers: who proves the key is delivered, everybody else costs a counter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "supervisor/peer/accept.h"

#define TIMEOUT_MS 100u

static struct loop loop;
static struct peer_gate gate;
static struct counters_supervisor counters;
static uint8_t key[HANDSHAKE_KEY];
static int deliver_status;
static int delivered_fd; /* a duplicate of the socket that was given on */
static size_t delivered_hello;
static struct timer turn;

static int deliver(struct peer_gate *from, const struct peer_guest *guest, char *text,
                   size_t text_size)
{
    assert_ptr_equal(from, &gate);
    snprintf(text, text_size, "about %s", guest->hello.segment);
    if (deliver_status == TS_OK) {
        delivered_fd = dup(guest->fd);
        delivered_hello = guest->hello_size;
    }
    return deliver_status;
}

static int gate_open(void **state)
{
    (void)state;
    memset(&counters, 0, sizeof(counters));
    memset(&gate, 0, sizeof(gate));
    memset(key, 7, sizeof(key));
    deliver_status = TS_OK;
    delivered_fd = -1;
    if (loop_init(&loop) < 0)
        return -1;
    gate.loop = &loop;
    gate.key = key;
    gate.timeout_ms = TIMEOUT_MS;
    gate.counters = &counters;
    gate.deliver = deliver;
    peer_gate_init(&gate);
    return 0;
}

static int gate_close(void **state)
{
    (void)state;
    peer_gate_close(&gate);
    if (delivered_fd >= 0)
        close(delivered_fd);
    loop_fini(&loop);
    return gate.guest_count == 0 ? 0 : -1;
}

static void turn_over(struct timer *timer)
{
    (void)timer;
    loop.stop = true;
}

/* Lets the gate work for a while. */
static void gate_run(unsigned ms)
{
    loop.stop = false;
    turn.fire = turn_over;
    loop_timer_set(&loop, &turn, ms);
    assert_int_equal(loop_run(&loop), 0);
}

/* Our end of a connection that the gate was given. */
static int peer_connect(void)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    peer_gate_admit(&gate, ends[1]);
    return ends[0];
}

static void peer_send(int fd, const void *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
    gate_run(5);
}

static void assert_closed(int fd)
{
    char byte;

    assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0);
    assert_int_not_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
    close(fd);
}

static size_t hello_make(uint8_t bytes[HANDSHAKE_FRAME_MAX])
{
    struct handshake_hello hello = {.generation = 5,
                                    .host = "h",
                                    .address = "127.0.0.1:1",
                                    .worker_name = "tcp@node0",
                                    .segment = "decode",
                                    .notify_max = 65528};

    return handshake_hello_write(bytes, &hello);
}

static void challenge_take(int fd, uint8_t challenge[HANDSHAKE_NONCE])
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    assert_true(got > 0);
    assert_int_equal(handshake_challenge_read(bytes, (size_t)got, challenge), TS_OK);
}

static void who_proves_the_key_is_delivered(void **state)
{
    uint8_t hello[HANDSHAKE_FRAME_MAX], proof[HANDSHAKE_FRAME_MAX], challenge[HANDSHAKE_NONCE];
    size_t hello_size = hello_make(hello), proof_size;
    int fd = peer_connect();
    char rest[8] = "";

    (void)state;
    peer_send(fd, hello, hello_size);
    challenge_take(fd, challenge);
    proof_size = handshake_proof_write(proof, key, hello, hello_size, challenge);
    memcpy(proof + proof_size, "frame", 5); /* an eager peer's first frame is for the worker */
    peer_send(fd, proof, proof_size + 5);
    assert_true(delivered_fd >= 0);
    assert_int_equal(delivered_hello, hello_size);
    assert_int_equal(recv(delivered_fd, rest, sizeof(rest), MSG_DONTWAIT), 5);
    assert_string_equal(rest, "frame");
    assert_int_equal(counters.peers_accepted, 1);
    assert_int_equal(gate.guest_count, 0);
    close(fd);
}

static void bytes_may_come_one_by_one(void **state)
{
    uint8_t hello[HANDSHAKE_FRAME_MAX], proof[HANDSHAKE_FRAME_MAX], challenge[HANDSHAKE_NONCE];
    size_t hello_size = hello_make(hello), proof_size;
    int fd = peer_connect();

    (void)state;
    gate.timeout_ms = 10000;
    for (size_t i = 0; i < hello_size; i++) {
        assert_int_equal(send(fd, hello + i, 1, MSG_NOSIGNAL), 1);
        gate_run(0);
    }
    gate_run(5);
    challenge_take(fd, challenge);
    proof_size = handshake_proof_write(proof, key, hello, hello_size, challenge);
    peer_send(fd, proof, 20);
    assert_int_equal(delivered_fd, -1);
    peer_send(fd, proof + 20, proof_size - 20);
    assert_true(delivered_fd >= 0);
    close(fd);
}

static void another_key_is_refused_and_counted(void **state)
{
    uint8_t hello[HANDSHAKE_FRAME_MAX], proof[HANDSHAKE_FRAME_MAX], challenge[HANDSHAKE_NONCE];
    uint8_t other[HANDSHAKE_KEY] = {8};
    size_t hello_size = hello_make(hello), proof_size;
    int fd = peer_connect();

    (void)state;
    peer_send(fd, hello, hello_size);
    challenge_take(fd, challenge);
    proof_size = handshake_proof_write(proof, other, hello, hello_size, challenge);
    peer_send(fd, proof, proof_size);
    assert_int_equal(delivered_fd, -1);
    assert_int_equal(counters.peers_refused_auth, 1);
    assert_closed(fd);
}

static void a_recorded_handshake_does_not_fit_again(void **state)
{
    uint8_t hello[HANDSHAKE_FRAME_MAX], proof[HANDSHAKE_FRAME_MAX], challenge[HANDSHAKE_NONCE];
    size_t hello_size = hello_make(hello), proof_size;
    int fd = peer_connect();

    (void)state;
    peer_send(fd, hello, hello_size);
    challenge_take(fd, challenge);
    proof_size = handshake_proof_write(proof, key, hello, hello_size, challenge);
    peer_send(fd, proof, proof_size);
    assert_int_equal(counters.peers_accepted, 1);
    close(fd);
    close(delivered_fd);
    delivered_fd = -1;

    fd = peer_connect();
    peer_send(fd, hello, hello_size);
    peer_send(fd, proof, proof_size);
    assert_int_equal(delivered_fd, -1);
    assert_int_equal(counters.peers_refused_auth, 1);
    challenge_take(fd, challenge);
    assert_closed(fd);
}

static void other_protocols_are_refused_at_once(void **state)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const uint8_t tls[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc};
    uint8_t huge[12] = {0};
    int fd;

    (void)state;
    gate.timeout_ms = 10000; /* not the deadline's doing */
    fd = peer_connect();
    peer_send(fd, http, strlen(http));
    assert_closed(fd);
    fd = peer_connect();
    peer_send(fd, tls, sizeof(tls));
    assert_closed(fd);
    fd = peer_connect();
    memcpy(huge, "\x54\x53\x50\x48\x01\x00\x01\x00\xff\xff\xff\xff", 12); /* 4 GiB are announced */
    peer_send(fd, huge, sizeof(huge));
    assert_closed(fd);
    assert_int_equal(counters.peers_refused_protocol, 3);
    assert_int_equal(gate.guest_count, 0);
}

static void messages_out_of_turn_are_refused(void **state)
{
    uint8_t hello[HANDSHAKE_FRAME_MAX], challenge[HANDSHAKE_NONCE];
    size_t hello_size = hello_make(hello);
    int fd = peer_connect();

    (void)state;
    peer_send(fd, hello, hello_size);
    challenge_take(fd, challenge);
    peer_send(fd, hello, hello_size); /* once more, where the proof belongs */
    assert_closed(fd);
    assert_int_equal(counters.peers_refused_protocol, 1);
}

static void silence_and_halves_end_at_the_deadline(void **state)
{
    uint8_t hello[HANDSHAKE_FRAME_MAX];
    size_t hello_size = hello_make(hello);
    int silent = peer_connect(), half = peer_connect();

    (void)state;
    assert_int_equal(send(half, hello, hello_size / 2, MSG_NOSIGNAL), hello_size / 2);
    gate_run(TIMEOUT_MS / 2);
    assert_int_equal(gate.guest_count, 2);
    gate_run(TIMEOUT_MS);
    assert_int_equal(counters.peers_timed_out, 2);
    assert_int_equal(gate.guest_count, 0);
    assert_closed(silent);
    assert_closed(half);
}

static void a_refusal_names_the_reason(void **state)
{
    uint8_t hello[HANDSHAKE_FRAME_MAX], bytes[HANDSHAKE_FRAME_MAX], challenge[HANDSHAKE_NONCE];
    size_t hello_size = hello_make(hello), size;
    struct handshake_welcome welcome;
    int fd = peer_connect();
    ssize_t got;

    (void)state;
    deliver_status = TS_ERR_NOT_FOUND;
    peer_send(fd, hello, hello_size);
    challenge_take(fd, challenge);
    size = handshake_proof_write(bytes, key, hello, hello_size, challenge);
    peer_send(fd, bytes, size);
    got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    assert_true(got > 0);
    assert_int_equal(
        handshake_welcome_read(bytes, (size_t)got, key, hello, hello_size, challenge, &welcome),
        TS_OK);
    assert_int_equal(welcome.status, TS_ERR_NOT_FOUND);
    assert_int_equal(welcome.generation, 5);
    assert_string_equal(welcome.text, "about decode");
    assert_int_equal(counters.peers_accepted, 0);
    assert_closed(fd);
}

static void the_oldest_makes_way_for_the_newest(void **state)
{
    int fds[PEER_GUESTS_MAX + 2];

    (void)state;
    gate.timeout_ms = 10000;
    for (unsigned i = 0; i < PEER_GUESTS_MAX + 2; i++)
        fds[i] = peer_connect();
    assert_int_equal(gate.guest_count, PEER_GUESTS_MAX);
    assert_closed(fds[0]);
    assert_closed(fds[1]);
    for (unsigned i = 2; i < PEER_GUESTS_MAX + 2; i++) {
        assert_int_equal(poll(&(struct pollfd){.fd = fds[i], .events = POLLIN}, 1, 0), 0);
        close(fds[i]);
    }
    gate_run(5);
    assert_int_equal(gate.guest_count, 0);
}

#define GATE_TEST(function) cmocka_unit_test_setup_teardown(function, gate_open, gate_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GATE_TEST(who_proves_the_key_is_delivered),
        GATE_TEST(bytes_may_come_one_by_one),
        GATE_TEST(another_key_is_refused_and_counted),
        GATE_TEST(a_recorded_handshake_does_not_fit_again),
        GATE_TEST(other_protocols_are_refused_at_once),
        GATE_TEST(messages_out_of_turn_are_refused),
        GATE_TEST(silence_and_halves_end_at_the_deadline),
        GATE_TEST(a_refusal_names_the_reason),
        GATE_TEST(the_oldest_makes_way_for_the_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
