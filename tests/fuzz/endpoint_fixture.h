/* An endpoint to a peer worker that the fuzzer plays, and a segment of the peer's that the job
 * opened. */
#ifndef TESUP_TESTS_FUZZ_ENDPOINT_FIXTURE_H
#define TESUP_TESTS_FUZZ_ENDPOINT_FIXTURE_H

#include "tests/fuzz/worker_fixture.h"

#define PEER_OPEN   7u /* the peer's handle of the segment that the job opened */
#define PEER_CREDIT 2000u

static struct endpoint *peer_endpoint(void)
{
    return host_endpoint(&fixture.host, "peer", 0xfe, HOST_NOTIFY_MAX);
}

/* The job opens a segment of ours, and we answer OPENED when `opened`. */
static void peer_remote(struct endpoint *endpoint, bool opened)
{
    const struct frame answer = {.type = FRAME_OPENED, .open = PEER_OPEN, .value = PEER_CREDIT};
    struct remote *remote = job_open(&fixture.job, 0, endpoint, "other", 1);

    if (opened)
        remote_on_opened(remote, &answer, "");
}

#endif
