/* A peer worker that the test plays: it has one tcp link to a host and sends frames by hand. */
#ifndef TESUP_TESTS_HARNESS_WORKER_PEER_H
#define TESUP_TESTS_HARNESS_WORKER_PEER_H

#include "tests/harness/worker/host.h"
#include "worker/frame.h"

#define PEER_ID      0xfeu
#define PEER_PAYLOAD (64u * 1024u)
/* A handle as the peer's own table would give it out: names a transfer of the peer's. */
#define PEER_HANDLE(index) (1u << TABLE_INDEX_BITS | (index))

struct peer {
    struct host *host;
    struct endpoint *endpoint; /* the host's; valid while it has the link */
    int socket;
    size_t have; /* of `bytes`, not looked at yet */
    uint8_t bytes[PEER_PAYLOAD + sizeof(struct frame)];
    struct frame frame; /* the last one that peer_take found */
    uint8_t payload[PEER_PAYLOAD];
};

void peer_connect(struct peer *peer, struct host *host);
/* Closes the connection; the host notices in its next turns. */
void peer_leave(struct peer *peer);
/* Leaves, and nothing of it is left at the host. */
void peer_end(struct peer *peer);

void peer_send(struct peer *peer, const struct frame *frame, const void *payload);
/* Takes the next frame that has come into peer->frame and payload. false: none has. */
bool peer_take(struct peer *peer);
/* Waits for the next frame, which must be of this type. */
const struct frame *peer_expect(struct peer *peer, enum frame_type type);
/* Nothing came, whatever the host did. */
bool peer_is_quiet(struct peer *peer);

#endif
