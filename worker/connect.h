/* The initiator's half of a handshake: resolve, connect, HELLO … WELCOME, without blocking. */
#ifndef TESUP_WORKER_CONNECT_H
#define TESUP_WORKER_CONNECT_H

#include "shm/handshake.h"
#include "worker/reactor.h"
#include "worker/resolve.h"

struct endpoint;
struct verbs_way;

struct connect {
    struct resolve resolve; /* while the host's name is looked up */
    struct source source;   /* the socket; fd -1 when there is none */
    struct addrinfo *found; /* all addresses of the host */
    struct addrinfo *next;  /* to try if the present one fails */
    uint8_t hello[HANDSHAKE_FRAME_MAX];
    size_t hello_size;
    uint8_t challenge[HANDSHAKE_NONCE];
    uint8_t in[HANDSHAKE_FRAME_MAX];
    size_t have;
    enum handshake_type expected;
    struct handshake_welcome welcome;
    struct verbs_way *way; /* to the peer's GID, while it is looked for */
};

void connect_init(struct endpoint *endpoint);
/* Starts for `segment`; the outcome comes as an endpoint event, maybe from inside the call. */
void connect_start(struct endpoint *endpoint, const char *segment);
/* Gives up what is in progress. */
void connect_stop(struct endpoint *endpoint);
/* Leaves the authenticated socket open and silent until connect_stop: while a local link is being
 * set up the acceptor sees by its end that the link is not wanted any more. */
void connect_hold_socket(struct endpoint *endpoint);
/* Takes the authenticated socket out: it becomes the caller's. */
int connect_take_socket(struct endpoint *endpoint);

#endif
