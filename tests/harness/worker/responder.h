/* The other half of a handshake, step by step: a host that the test plays. */
#ifndef TESUP_TESTS_HARNESS_WORKER_RESPONDER_H
#define TESUP_TESTS_HARNESS_WORKER_RESPONDER_H

#include "shm/handshake.h"
#include "tests/harness/worker/host.h"

struct responder {
    int listener, socket;
    uint16_t port;
    uint8_t key[HANDSHAKE_KEY];
    uint8_t hello[HANDSHAKE_FRAME_MAX], challenge[HANDSHAKE_NONCE];
    size_t hello_size;
    struct handshake_hello said; /* what was in HELLO */
};

/* Listens at a free port of 127.0.0.1. */
void responder_listen(struct responder *responder, const uint8_t key[HANDSHAKE_KEY]);
bool responder_accepts(struct responder *responder);
void responder_hangs_up(struct responder *responder);
void responder_end(struct responder *responder);

/* Reads one whole message of that type; its size. */
size_t responder_hears(struct responder *responder, enum handshake_type type, uint8_t *bytes);
void responder_says(struct responder *responder, const uint8_t *bytes, size_t size);

/* The attempt up to its HELLO, and up to its PROOF, which must be one. */
void responder_meets(struct responder *responder);
void responder_challenges(struct responder *responder);
/* A WELCOME that is right in every way; the caller spoils it. */
struct handshake_welcome responder_welcome(const struct responder *responder);
size_t responder_welcome_write(const struct responder *responder,
                               const struct handshake_welcome *welcome, uint8_t *bytes);
void responder_welcomes(struct responder *responder, const struct handshake_welcome *welcome);

#endif
