/* Peers that connected and must prove that they know the key: HELLO, CHALLENGE, PROOF.
 *
 * Every connection has a deadline, a size limit and a place among few; reading takes not one byte
 * more than the handshake's, because the socket goes on to a worker.
 */
#ifndef TESUP_SUPERVISOR_PEER_ACCEPT_H
#define TESUP_SUPERVISOR_PEER_ACCEPT_H

#include "shm/counters.h"
#include "shm/handshake.h"
#include "shm/list.h"
#include "shm/log.h"
#include "supervisor/loop.h"

#define PEER_GUESTS_MAX 64u
#define PEER_PROOF_MAX  64u

enum peer_stage { PEER_STAGE_HELLO, PEER_STAGE_PROOF };

struct peer_guest {
    struct peer_gate *gate;
    struct list node; /* gate->guests, oldest first */
    int fd;
    struct loop_source source;
    struct timer timer;
    enum peer_stage stage;
    char address[64]; /* for messages */
    uint8_t hello_bytes[HANDSHAKE_FRAME_MAX];
    size_t hello_size;
    struct handshake_hello hello;
    uint8_t challenge[HANDSHAKE_NONCE];
    uint8_t proof[PEER_PROOF_MAX];
    size_t proof_size;
};

struct peer_gate {
    struct loop *loop;
    const uint8_t *key; /* HANDSHAKE_KEY bytes */
    uint64_t timeout_ms;
    struct counters_supervisor *counters;
    /* The peer proved itself: gives its socket on. TS_OK, or a status and a sentence for it. */
    int (*deliver)(struct peer_gate *gate, const struct peer_guest *guest, char *text,
                   size_t text_size);
    struct list guests;
    unsigned guest_count;
    struct log_limit broken, unproven, late;
};

void peer_gate_init(struct peer_gate *gate);
/* Takes a connected, non-blocking socket. */
void peer_gate_admit(struct peer_gate *gate, int fd);
void peer_gate_close(struct peer_gate *gate);

#endif
