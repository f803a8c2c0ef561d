/* One process that is many peer workers: it answers the handshake with a new id on each
 * connection, opens every segment, takes notifications and gives their credit back. */
#ifndef TESUP_TESTS_BENCH_PEERS_H
#define TESUP_TESTS_BENCH_PEERS_H

#include "tests/bench/bench.h"

struct peers {
    unsigned place;
    uint32_t port;
    _Atomic uint64_t ready, stop;
    _Atomic uint64_t connections;
    _Atomic uint64_t received; /* notifications */
    struct job job;
};

/* For supervisors with `peer.auth = none`. */
struct peers *peers_start(unsigned place);
void peers_stop(struct peers *peers);

#endif
