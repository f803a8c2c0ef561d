/* A job at each end of two supervisors over RDMA, memory in both, and requests between them. */
#ifndef TESUP_TESTS_RDMA_RDMA_FIXTURE_H
#define TESUP_TESTS_RDMA_RDMA_FIXTURE_H

#include "tests/harness/endpoints.h"
#include "tests/harness/party.h"
#include "tests/harness/rdma.h"
#include "tests/harness/wait.h"

#define KIB        UINT64_C(1024)
#define MIB        (UINT64_C(1) << 20)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

struct ends {
    struct party left, right;
    struct party_region local, remote;
    tesup_remote_t there; /* right, for left */
};

static inline void ends_begin(struct ends *ends, uint64_t size)
{
    party_attach(&ends->left, rdma_site.left, NULL);
    party_attach(&ends->right, rdma_site.right, NULL);
    party_region_create(&ends->left, PARTY_MEMORY_ALLOC, size, READ_WRITE, &ends->local);
    party_region_create(&ends->right, PARTY_MEMORY_ALLOC, size, READ_WRITE, &ends->remote);
    ends->there = party_open(&ends->left, tesup_segment_name(ends->right.session));
}

static inline void ends_end(struct ends *ends)
{
    party_detach(&ends->left);
    party_detach(&ends->right);
}

/* A transfer between the beginnings of both regions; with a notification if it has a name. */
static inline struct tesup_request ends_request(const struct ends *ends, uint32_t op,
                                                uint64_t length, const char *name)
{
    return (struct tesup_request){.op = op,
                                  .cookie = length,
                                  .remote = ends->there,
                                  .local_region = ends->local.handle,
                                  .remote_region = ends->remote.handle,
                                  .length = length,
                                  .name = name,
                                  .name_len = name != NULL ? (uint32_t)strlen(name) : 0};
}

#endif
