/* Work that goes on while something else is broken: a target job, and source jobs that keep
 * requests of mixed sizes in flight to it, verify every byte and keep a ledger by cookie. */
#ifndef TESUP_TESTS_HARNESS_LOAD_H
#define TESUP_TESTS_HARNESS_LOAD_H

#include "shm/layout.h"
#include "tests/harness/daemon.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"

#define LOAD_SOURCES 4u
#define LOAD_SLOTS   4u /* requests in flight of one source */
#define LOAD_SLOT    (256u * 1024u)

struct load_source {
    _Atomic uint64_t accepted, completed;
    _Atomic uint64_t ok, uncertain, failed;
    _Atomic uint64_t status; /* of the last failure, negated */
    _Atomic uint64_t rounds; /* WRITE, READ and compare of one slot */
};

/* Shared by the test and its jobs. */
struct load {
    const struct daemon *from, *to;
    char target_name[LAYOUT_NAME_MAX];
    tesup_region_t target_region;
    enum party_memory memory;
    _Atomic uint64_t ready, received, stop, target_stop;
    struct load_source source[LOAD_SOURCES];
    struct job target_job, source_job[LOAD_SOURCES];
    unsigned sources;
};

/* Starts one target at `to` and `sources` sources at `from`, and waits until they all move. */
struct load *load_start(const struct daemon *from, const struct daemon *to, unsigned sources,
                        enum party_memory memory);
/* All sources do some rounds more. */
void load_expect_progress(struct load *load);
/* Ends the jobs that the test has not killed: each says that every accepted request of its own got
 * exactly one completion, and that nothing is left in flight. */
void load_stop(struct load *load);
/* The same, and nothing went wrong at any time. */
void load_stop_clean(struct load *load);
uint64_t load_sum_uncertain(const struct load *load);

#endif
