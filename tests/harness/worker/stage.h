/* One host with one job, and a peer worker that the test plays: what most unit tests of the worker
 * need. */
#ifndef TESUP_TESTS_HARNESS_WORKER_STAGE_H
#define TESUP_TESTS_HARNESS_WORKER_STAGE_H

#include "tests/harness/worker/job.h"
#include "tests/harness/worker/peer.h"

#define STAGE_SEGMENT "here"
#define STAGE_MEMORY  (64u * 1024u)
/* The peer's handle of the segment that the job opened as JOB_HANDLE(index). */
#define STAGE_OPEN(index) (700u + (index))

struct stage {
    struct host host;
    struct job job;
    struct peer peer;
    uint8_t *bytes; /* the job's region JOB_HANDLE(0), readable and writable for peers */
};

void stage_begin(struct stage *stage);
void stage_begin_with(struct stage *stage, const struct job_shape *shape);
/* Nothing may be left. */
void stage_end(struct stage *stage);

/* The job opens a segment of the peer's. The peer has seen OPEN and has not answered. */
struct remote *stage_ask(struct stage *stage, uint32_t index, const char *segment);
/* The peer's yes. */
void stage_allow(struct stage *stage, const struct remote *remote, uint64_t credit);
/* Both. */
struct remote *stage_open(struct stage *stage, uint32_t index, const char *segment,
                          uint64_t credit);

/* The peer opens the job's segment: our handle for its frames, and the credit that it got. */
struct stage_sender {
    uint32_t open;
    uint64_t credit;
};
struct stage_sender stage_sender(struct stage *stage, uint32_t request, uint32_t uid);

#endif
