/* A job in a process of its own that offers a region and takes what it is sent. */
#ifndef TESUP_TESTS_BENCH_TARGET_H
#define TESUP_TESTS_BENCH_TARGET_H

#include "tests/bench/bench.h"

/* Shared by both processes. */
struct target {
    const struct daemon *daemon;
    unsigned place;
    bool spin;   /* else it sleeps in tesup_wait */
    bool answer; /* each notification is answered by one of 64 B */
    enum party_memory memory;
    uint64_t size;              /* of the region */
    char peer[LAYOUT_NAME_MAX]; /* who gets the answers */
    char name[LAYOUT_NAME_MAX];
    _Atomic uint64_t region; /* its handle */
    _Atomic uint64_t pid;
    _Atomic uint64_t ready, stop;
    _Atomic uint64_t received;    /* notifications so far */
    _Atomic uint64_t received_ns; /* when the last one was taken: all processes share the clock */
    _Atomic uint64_t check;       /* asks: does the region hold the pattern of this seed? */
    _Atomic uint64_t checked;     /* yes, of this seed */
    struct job job;
};

/* Starts the job and waits until it is there. */
struct target *target_start(struct target form);
/* The region must hold the pattern of `seed` (party_fill). */
void target_verify(struct target *target, uint64_t seed);
void target_stop(struct target *target);

#endif
