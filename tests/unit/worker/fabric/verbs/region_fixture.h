/* Regions that may be refused. */
#ifndef TESUP_TESTS_UNIT_WORKER_FABRIC_VERBS_REGION_FIXTURE_H
#define TESUP_TESTS_UNIT_WORKER_FABRIC_VERBS_REGION_FIXTURE_H

#include "tests/harness/worker/job.h"

static char region_text[PROTO_TEXT_MAX]; /* why the last one was */

/* Registers [offset, offset + length) of the file as JOB_HANDLE(index); takes the descriptor. */
static inline int region_try(struct job *job, uint32_t index, int file, uint64_t offset,
                             uint64_t length, uint32_t access)
{
    const struct proto_region ask = {.handle = JOB_HANDLE(index),
                                     .kind = REGION_KIND_SHARED,
                                     .access = access,
                                     .offset = offset,
                                     .length = length};

    region_text[0] = '\0';
    return region_add(job->session, &ask, file, region_text, sizeof(region_text));
}

#endif
