/* The words two hosts exchange on a fresh TCP connection, before any frame of the peer protocol.
 *
 *   initiator (worker)                         responder (supervisor, then the owning worker)
 *   HELLO      nonce, JSON        ->
 *                                 <-  CHALLENGE  nonce
 *   PROOF      mac                ->             (supervisor checks it, in constant time)
 *                                 <-  WELCOME    mac, JSON   (worker, or a refusal)
 *
 * Both macs are keyed with the pre-shared key and cover the whole HELLO and the responder's nonce;
 * WELCOME's covers its own JSON too.  A recorded HELLO and PROOF do not fit a new nonce.  Without
 * authentication the same messages travel with a key of zeros.  docs/protocol.md has the bytes.
 */
#ifndef TESUP_SHM_HANDSHAKE_H
#define TESUP_SHM_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/proto.h"

#define HANDSHAKE_VERSION   1
#define HANDSHAKE_KEY       32
#define HANDSHAKE_NONCE     32
#define HANDSHAKE_MAC       32
#define HANDSHAKE_ID        16
#define HANDSHAKE_FRAME_MAX PROTO_HELLO_MAX
#define HANDSHAKE_GIDS      8         /* candidates that a side offers */
#define HANDSHAKE_QPS       16        /* for data */
#define HANDSHAKE_QPN_MAX   0xffffffu /* 24 bits on the wire; of a PSN, too */

enum handshake_type {
    HANDSHAKE_HELLO = 1,
    HANDSHAKE_CHALLENGE = 2,
    HANDSHAKE_PROOF = 3,
    HANDSHAKE_WELCOME = 4,
};

/* What the other side needs to know to connect its queue pairs.  Numbers are those of the verbs
 * (ibv_modify_qp(3)). */
struct handshake_verbs {
    bool offered;
    uint8_t gid[HANDSHAKE_GIDS][16]; /* HELLO: best first; WELCOME: the one in use */
    uint8_t gid_type[HANDSHAKE_GIDS];
    uint32_t gid_count;
    uint32_t gid_chosen; /* WELCOME: which of HELLO's gids the other side must use */
    uint32_t gid_pairs;  /* WELCOME: pairs that may meet; HELLO: those that did not work before */
    uint32_t lid;
    uint32_t mtu; /* bytes of the port */
    uint32_t psn;
    uint32_t notify_qp; /* 0: no notification QP */
    uint32_t data_qp[HANDSHAKE_QPS];
    uint32_t data_qps;
    uint32_t window; /* receive buffers of notify_qp that the other side may fill */
    uint32_t reads;  /* READs that may be outstanding towards this side */
    bool renews;     /* a queue pair that fails may be replaced while the link goes on */
};

struct handshake_hello {
    uint8_t worker[HANDSHAKE_ID];  /* new for each worker process */
    uint64_t generation;           /* of this attempt; the answer echoes it */
    char host[65];                 /* same text = same running kernel */
    char address[LAYOUT_NAME_MAX]; /* HOST:PORT of the initiator's supervisor */
    char worker_name[PROTO_LABEL_MAX];
    char segment[PROTO_LABEL_MAX]; /* wanted: its owner answers */
    bool local;                    /* shared memory between workers of one host is welcome */
    uint32_t notify_max;
    struct handshake_verbs verbs;
};

struct handshake_welcome {
    int status;                /* TS_OK or a refusal */
    char text[PROTO_TEXT_MAX]; /* of the refusal */
    uint8_t worker[HANDSHAKE_ID];
    uint64_t generation; /* the HELLO's */
    char worker_name[PROTO_LABEL_MAX];
    bool local; /* use local_socket and token instead of this connection */
    char local_socket[LAYOUT_NAME_MAX];
    uint8_t token[HANDSHAKE_ID];
    uint32_t notify_max;
    struct handshake_verbs verbs; /* offered: use it, with this connection beside it */
};

/* Bytes of the whole message that begins at `bytes`, 0 when more are needed to know, or
 * TS_ERR_PROTOCOL / TS_ERR_VERSION.  A message of another `type` than expected is refused. */
int handshake_size(const uint8_t *bytes, size_t have, enum handshake_type type);

/* Each writes one message into `bytes` (HANDSHAKE_FRAME_MAX) and returns its size. */
size_t handshake_hello_write(uint8_t *bytes, const struct handshake_hello *hello);
size_t handshake_challenge_write(uint8_t *bytes, uint8_t challenge[HANDSHAKE_NONCE]);
size_t handshake_proof_write(uint8_t *bytes, const uint8_t key[HANDSHAKE_KEY], const uint8_t *hello,
                             size_t hello_size, const uint8_t challenge[HANDSHAKE_NONCE]);
size_t handshake_welcome_write(uint8_t *bytes, const uint8_t key[HANDSHAKE_KEY],
                               const uint8_t *hello, size_t hello_size,
                               const uint8_t challenge[HANDSHAKE_NONCE],
                               const struct handshake_welcome *welcome);

/* Each reads one whole message. TS_OK, TS_ERR_PROTOCOL, TS_ERR_VERSION, TS_ERR_AUTH. */
int handshake_hello_read(const uint8_t *bytes, size_t size, struct handshake_hello *hello);
int handshake_challenge_read(const uint8_t *bytes, size_t size, uint8_t challenge[HANDSHAKE_NONCE]);
int handshake_proof_check(const uint8_t *bytes, size_t size, const uint8_t key[HANDSHAKE_KEY],
                          const uint8_t *hello, size_t hello_size,
                          const uint8_t challenge[HANDSHAKE_NONCE]);
int handshake_welcome_read(const uint8_t *bytes, size_t size, const uint8_t key[HANDSHAKE_KEY],
                           const uint8_t *hello, size_t hello_size,
                           const uint8_t challenge[HANDSHAKE_NONCE],
                           struct handshake_welcome *welcome);

/* The kernel's boot id: equal on both ends means one host. "" when it cannot be read. */
void handshake_host_id(char host[65]);
void handshake_random(void *bytes, size_t size);

#endif
