/* Two jobs, and between them a fabric: what the tests of the fabrics begin with. */
#ifndef TESUP_TESTS_HARNESS_WORKER_PAIR_H
#define TESUP_TESTS_HARNESS_WORKER_PAIR_H

#include "tests/harness/worker/fake_verbs.h"
#include "tests/harness/worker/job.h"

#define PAIR_MEMORY (8u * 1024u * 1024u + 64u)

enum pair_fabric { PAIR_TCP, PAIR_LOCAL, PAIR_SELF, PAIR_VERBS };

struct pair {
    enum pair_fabric fabric;
    struct host a, b; /* PAIR_SELF: b is not started */
    struct proto_worker_config config_a, config_b;
    struct fake_device *device_a, *device_b; /* PAIR_VERBS */
    struct host_link link;                   /* PAIR_SELF: none */
    struct job user;                         /* of a: opened the owner's segment as JOB_HANDLE(0) */
    struct job owner;                        /* of b */
    struct remote *remote;                   /* of the user */
    uint8_t *here, *there;                   /* PAIR_MEMORY each, JOB_HANDLE(0) of user and owner */
};

void pair_begin(struct pair *pair, enum pair_fabric fabric);
/* Its two halves: what devices and workers shall be may be changed in between. */
void pair_prepare(struct pair *pair, enum pair_fabric fabric);
void pair_start(struct pair *pair);
/* Nothing may be left. */
void pair_end(struct pair *pair);
struct host *pair_owner_host(struct pair *pair);

/* A descriptor for [offset, offset + length) of both memories. */
struct sqe pair_move(enum sqe_op op, uint64_t offset, uint64_t length);
/* Bytes that are different in each place, and with each seed. */
void pair_fill(uint8_t *bytes, size_t size, uint8_t seed);

#endif
