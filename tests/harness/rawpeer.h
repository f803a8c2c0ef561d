/* A peer on the TCP port of a supervisor, byte by byte: a stranger, or one that knows the key and
 * then breaks the protocol. */
#ifndef TESUP_TESTS_HARNESS_RAWPEER_H
#define TESUP_TESTS_HARNESS_RAWPEER_H

#include "shm/handshake.h"
#include "tests/harness/daemon.h"
#include "worker/frame.h"

struct rawpeer {
    size_t hello_size, proof_size;
    struct handshake_welcome welcome;
    int socket;
    struct handshake_verbs verbs; /* offered by its HELLO */
    uint8_t key[HANDSHAKE_KEY];
    uint8_t hello[HANDSHAKE_FRAME_MAX], proof[HANDSHAKE_FRAME_MAX];
    uint8_t challenge[HANDSHAKE_NONCE];
};

/* A connection that has said nothing. The key is that of the daemon's directory. */
void rawpeer_connect(struct rawpeer *peer, const struct daemon *daemon);
/* The same by one who does not know the key, and has made up his own. */
void rawpeer_connect_keyless(struct rawpeer *peer, const struct daemon *daemon);
void rawpeer_send(const struct rawpeer *peer, const void *bytes, size_t size);
/* The other side hangs up within `ms`; what it says before is skipped. How long it took. */
uint64_t rawpeer_expect_hangup(const struct rawpeer *peer, unsigned ms);
/* The same; how many bytes it said before. */
size_t rawpeer_hangup_bytes(const struct rawpeer *peer, unsigned ms);
void rawpeer_close(struct rawpeer *peer);

/* HELLO for `segment`, and the challenge that answers it. */
void rawpeer_hello(struct rawpeer *peer, const char *segment);
/* HELLO, and that it is the end. */
void rawpeer_hello_refused(struct rawpeer *peer, const char *segment);
void rawpeer_proof(struct rawpeer *peer);
/* HELLO, PROOF, and what the WELCOME says: a status. */
int rawpeer_ask(struct rawpeer *peer, const char *segment);
/* The whole handshake; the connection is a link then. */
void rawpeer_shake(struct rawpeer *peer, const struct daemon *daemon, const char *segment);

void rawpeer_frame(const struct rawpeer *peer, const struct frame *frame, const void *payload);
/* Waits for the next frame of `type`; others are skipped. Its payload goes to `payload`. */
struct frame rawpeer_wait(const struct rawpeer *peer, enum frame_type type, void *payload,
                          size_t room);
/* OPEN as a job of `uid`; the answer. */
struct frame rawpeer_open(const struct rawpeer *peer, const char *segment, uint32_t uid,
                          uint32_t request);

#endif
