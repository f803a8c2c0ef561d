#include "supervisor/peer/accept.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"

/* Enough to know a message's size; every message is longer. */
#define HEAD_SIZE 12u

static void guest_free(struct peer_guest *guest)
{
    struct peer_gate *gate = guest->gate;

    loop_remove(gate->loop, &guest->source);
    timer_clear(&gate->loop->timers, &guest->timer);
    list_remove(&guest->node);
    gate->guest_count--;
    close(guest->fd);
    free(guest);
}

/* Counts, says so, closes. */
static void guest_refuse(struct peer_guest *guest, _Atomic uint64_t *counter,
                         struct log_limit *limit, const char *what)
{
    struct peer_gate *gate = guest->gate;
    char text[COUNTERS_TEXT];
    uint64_t left_out;

    atomic_count(counter, 1);
    /* Without the address: distinct errors are kept, and every connection has another port. */
    snprintf(text, sizeof(text), "a peer %s", what);
    counters_error_add(gate->counters->error, text);
    if (log_limit_pass(limit, &left_out))
        log_warning("peer %s %s; %llu others like it were not logged", guest->address, what,
                    (unsigned long long)left_out);
    guest_free(guest);
}

static void guest_broken(struct peer_guest *guest, const char *what)
{
    guest_refuse(guest, &guest->gate->counters->peers_refused_protocol, &guest->gate->broken, what);
}

static void guest_late(struct timer *timer)
{
    struct peer_guest *guest = list_entry(timer, struct peer_guest, timer);

    guest_refuse(guest, &guest->gate->counters->peers_timed_out, &guest->gate->late,
                 guest->hello_size == 0 ? "connected and said nothing within the handshake's time"
                                        : "did not finish its handshake in time");
}

/* Reads on; 1 = the message is complete, 0 = not yet, negative = a refusal was done. */
static int guest_read(struct peer_guest *guest, uint8_t *bytes, size_t room, size_t *have,
                      enum handshake_type type)
{
    for (;;) {
        int whole = handshake_size(bytes, *have, type);
        size_t want = whole == 0 ? HEAD_SIZE : (size_t)whole;
        ssize_t got;

        if (whole < 0 || want > room) {
            guest_broken(guest, whole == TS_ERR_VERSION ? "speaks another version of the handshake"
                                                        : "sent something that is no handshake");
            return -1;
        }
        if (whole > 0 && *have == want)
            return 1;
        got = recv(guest->fd, bytes + *have, want - *have, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0) {
            guest_broken(guest, "hung up in the middle of its handshake");
            return -1;
        }
        *have += (size_t)got;
    }
}

static bool guest_write(const struct peer_guest *guest, const uint8_t *bytes, size_t size)
{
    /* A few hundred bytes into an empty socket: they fit, or the peer plays games. */
    return send(guest->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void guest_hello(struct peer_guest *guest)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size;

    if (handshake_hello_read(guest->hello_bytes, guest->hello_size, &guest->hello) != TS_OK) {
        guest_broken(guest, "sent a HELLO that makes no sense");
        return;
    }
    size = handshake_challenge_write(bytes, guest->challenge);
    if (!guest_write(guest, bytes, size)) {
        guest_broken(guest, "hung up after its HELLO");
        return;
    }
    guest->stage = PEER_STAGE_PROOF;
}

static void guest_send_refusal(const struct peer_guest *guest, int status, const char *text)
{
    struct handshake_welcome welcome = {.status = status, .generation = guest->hello.generation};
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size;

    snprintf(welcome.text, sizeof(welcome.text), "%s", text);
    size = handshake_welcome_write(bytes, guest->gate->key, guest->hello_bytes, guest->hello_size,
                                   guest->challenge, &welcome);
    (void)guest_write(guest, bytes, size); /* closed next, received or not */
}

static void guest_proof(struct peer_guest *guest)
{
    struct peer_gate *gate = guest->gate;
    char text[PROTO_TEXT_MAX] = "";
    int status;

    if (handshake_proof_check(guest->proof, guest->proof_size, gate->key, guest->hello_bytes,
                              guest->hello_size, guest->challenge) != TS_OK) {
        guest_refuse(
            guest, &gate->counters->peers_refused_auth, &gate->unproven,
            "does not know the key; both hosts need the same key file and the same peer.auth");
        return;
    }
    status = gate->deliver(gate, guest, text, sizeof(text));
    if (status == TS_OK)
        atomic_count(&gate->counters->peers_accepted, 1);
    else
        guest_send_refusal(guest, status, text);
    guest_free(guest);
}

static void guest_ready(struct loop_source *source, uint32_t events)
{
    struct peer_guest *guest = list_entry(source, struct peer_guest, source);

    (void)events;
    if (guest->stage == PEER_STAGE_HELLO) {
        if (guest_read(guest, guest->hello_bytes, sizeof(guest->hello_bytes), &guest->hello_size,
                       HANDSHAKE_HELLO) > 0)
            guest_hello(guest);
    } else if (guest_read(guest, guest->proof, sizeof(guest->proof), &guest->proof_size,
                          HANDSHAKE_PROOF) > 0) {
        guest_proof(guest);
    }
}

static void guest_address(struct peer_guest *guest)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(address);
    char host[48] = "?", port[8] = "?";

    if (getpeername(guest->fd, (struct sockaddr *)&address, &size) == 0)
        getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(guest->address, sizeof(guest->address),
             address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

void peer_gate_init(struct peer_gate *gate)
{
    list_init(&gate->guests);
}

void peer_gate_admit(struct peer_gate *gate, int fd)
{
    struct peer_guest *guest = calloc(1, sizeof(*guest));
    const int on = 1;

    if (guest == NULL)
        goto err_close;
    guest->gate = gate;
    guest->fd = fd;
    guest->timer.fire = guest_late;
    guest_address(guest);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (loop_add(gate->loop, &guest->source, fd, EPOLLIN, guest_ready) < 0)
        goto err_free;
    loop_timer_set(gate->loop, &guest->timer, gate->timeout_ms);
    if (gate->guest_count >= PEER_GUESTS_MAX)
        guest_refuse(list_entry(gate->guests.next, struct peer_guest, node),
                     &gate->counters->peers_timed_out, &gate->late,
                     "made way for a newer connection, as it had not proved itself");
    list_append(&gate->guests, &guest->node);
    gate->guest_count++;
    return;

err_free:
    free(guest);
err_close:
    close(fd);
}

void peer_gate_close(struct peer_gate *gate)
{
    list_each (node, next, &gate->guests)
        guest_free(list_entry(node, struct peer_guest, node));
}
