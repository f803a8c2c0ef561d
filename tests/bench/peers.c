#include "tests/bench/peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "shm/handshake.h"
#include "tests/bench/loopback.h"
#include "worker/frame.h"

#define BUFFER      (64u * 1024u)
#define WINDOW      (256u * 1024u)
#define TURN_MS     50
#define EVENTS      64
#define HEAD_SIZE   12u
#define NOTIFY_COST 32u

struct peer {
    int socket;
    uint32_t opener; /* its handle of our segment: names it in CREDIT */
    uint64_t owed;
    size_t have;
    uint8_t bytes[BUFFER];
};

struct serving {
    struct peers *peers;
    int listener, epoll;
};

static const uint8_t no_key[HANDSHAKE_KEY];

static size_t message_receive(int socket, uint8_t *bytes, enum handshake_type type)
{
    int size;

    loopback_receive(socket, bytes, HEAD_SIZE);
    size = handshake_size(bytes, HEAD_SIZE, type);
    assert_in_range(size, HEAD_SIZE, HANDSHAKE_FRAME_MAX);
    loopback_receive(socket, bytes + HEAD_SIZE, (size_t)size - HEAD_SIZE);
    return (size_t)size;
}

/* The responder's half of shm/handshake.h, as a worker with an id that nobody else has. */
static void peer_greet(int socket, uint64_t number)
{
    uint8_t hello_bytes[HANDSHAKE_FRAME_MAX], bytes[HANDSHAKE_FRAME_MAX];
    struct handshake_welcome welcome = {.status = TESUP_OK, .notify_max = TESUP_NOTIFY_MAX};
    uint8_t challenge[HANDSHAKE_NONCE];
    struct handshake_hello hello;
    size_t hello_size = message_receive(socket, hello_bytes, HANDSHAKE_HELLO);

    party_check(handshake_hello_read(hello_bytes, hello_size, &hello), "hello");
    loopback_send(socket, bytes, handshake_challenge_write(bytes, challenge));
    message_receive(socket, bytes, HANDSHAKE_PROOF);
    handshake_random(welcome.worker, sizeof(welcome.worker));
    welcome.generation = hello.generation;
    snprintf(welcome.worker_name, sizeof(welcome.worker_name), "simulated-%u", (unsigned)number);
    loopback_send(
        socket, bytes,
        handshake_welcome_write(bytes, no_key, hello_bytes, hello_size, challenge, &welcome));
}

static void peer_accept(struct serving *serving)
{
    const struct timeval deadline = {.tv_sec = 10};
    struct epoll_event event = {.events = EPOLLIN};
    const int on = 1;
    struct peer *peer = calloc(1, sizeof(*peer));

    assert_non_null(peer);
    peer->socket = accept4(serving->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(peer->socket >= 0);
    setsockopt(peer->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(peer->socket, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
    peer_greet(peer->socket, atomic_peek(&serving->peers->connections));
    event.data.ptr = peer;
    assert_int_equal(epoll_ctl(serving->epoll, EPOLL_CTL_ADD, peer->socket, &event), 0);
    atomic_publish(&serving->peers->connections, atomic_peek(&serving->peers->connections) + 1);
}

static void frame_answer(const struct peer *peer, struct frame answer)
{
    loopback_send(peer->socket, &answer, sizeof(answer));
}

static void frame_take(struct serving *serving, struct peer *peer, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_OPEN:
        peer->opener = frame->request;
        frame_answer(
            peer, (struct frame){
                      .type = FRAME_OPENED, .request = frame->request, .open = 1, .value = WINDOW});
        break;
    case FRAME_NOTIFY:
        atomic_publish(&serving->peers->received, atomic_peek(&serving->peers->received) + 1);
        peer->owed += frame->length + NOTIFY_COST;
        if (peer->owed < WINDOW / 4)
            break;
        frame_answer(peer, (struct frame){
                               .type = FRAME_CREDIT, .request = peer->opener, .value = peer->owed});
        peer->owed = 0;
        break;
    case FRAME_BYE:
        frame_answer(peer, (struct frame){.type = FRAME_BYE});
        break;
    case FRAME_CLOSE:
        break;
    default:
        fail_msg("a simulated peer got a frame of type %u", frame->type);
    }
}

static void peer_end(struct peer *peer)
{
    close(peer->socket);
    free(peer);
}

static void peer_read(struct serving *serving, struct peer *peer)
{
    ssize_t got = recv(peer->socket, peer->bytes + peer->have, BUFFER - peer->have, MSG_DONTWAIT);
    size_t at = 0;
    struct frame frame;

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        peer_end(peer);
        return;
    }
    peer->have += (size_t)got;
    while (peer->have - at >= sizeof(frame)) {
        memcpy(&frame, peer->bytes + at, sizeof(frame));
        if (peer->have - at < sizeof(frame) + frame.length)
            break;
        frame_take(serving, peer, &frame);
        at += sizeof(frame) + frame.length;
    }
    memmove(peer->bytes, peer->bytes + at, peer->have - at);
    peer->have -= at;
}

static void peers_job(void *argument)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    struct peers *peers = argument;
    struct serving serving = {.peers = peers,
                              .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                              .epoll = epoll_create1(EPOLL_CLOEXEC)};
    struct epoll_event events[EVENTS] = {{.events = EPOLLIN}};

    place_pin(0, peers->place);
    assert_true(serving.listener >= 0 && serving.epoll >= 0);
    assert_int_equal(bind(serving.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(serving.listener, 128), 0);
    assert_int_equal(getsockname(serving.listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(epoll_ctl(serving.epoll, EPOLL_CTL_ADD, serving.listener, events), 0);
    peers->port = ntohs(address.sin_port);
    atomic_publish(&peers->ready, 1);
    while (atomic_observe(&peers->stop) == 0) {
        int count = epoll_wait(serving.epoll, events, EVENTS, TURN_MS);

        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL)
                peer_accept(&serving);
            else
                peer_read(&serving, events[i].data.ptr);
        }
    }
}

struct peers *peers_start(unsigned place)
{
    struct peers *peers = job_board_create(sizeof(*peers));

    peers->place = place;
    job_start(&peers->job, "simulated peers", peers_job, peers);
    wait_word(&peers->ready, 1, "the simulated peers");
    return peers;
}

void peers_stop(struct peers *peers)
{
    atomic_publish(&peers->stop, 1);
    job_expect_success(&peers->job, WAIT_MS);
    job_board_free(peers, sizeof(*peers));
}
