/* A job at each end of a site, memory in both, and a request between them that works. */
#ifndef TESUP_TESTS_INTEGRATION_DUO_FIXTURE_H
#define TESUP_TESTS_INTEGRATION_DUO_FIXTURE_H

#include "tests/harness/party.h"
#include "tests/harness/site.h"

#define MIB        (UINT64_C(1) << 20)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

struct duo {
    const struct site *site;
    struct party left, right;
    struct party_region local, remote;
    struct tesup_request request; /* a WRITE of all of it */
};

static inline void duo_begin(struct duo *duo, const struct site *site, uint64_t size)
{
    duo->site = site;
    party_attach(&duo->left, site->left, NULL);
    party_attach(&duo->right, site->right, NULL);
    party_region_create(&duo->left, PARTY_MEMORY_ALLOC, size, TESUP_ACCESS_LOCAL, &duo->local);
    party_region_create(&duo->right, PARTY_MEMORY_ALLOC, size, READ_WRITE, &duo->remote);
    duo->request = (struct tesup_request){
        .op = TESUP_OP_WRITE,
        .remote = party_open(&duo->left, tesup_segment_name(duo->right.session)),
        .local_region = duo->local.handle,
        .remote_region = duo->remote.handle,
        .length = size};
}

static inline void duo_end(struct duo *duo)
{
    party_detach(&duo->left);
    party_detach(&duo->right);
}

#endif
