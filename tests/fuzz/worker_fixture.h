/* A worker inside the fuzzer's own process, with one job that has one channel and four regions. */
#ifndef TESUP_TESTS_FUZZ_WORKER_FIXTURE_H
#define TESUP_TESTS_FUZZ_WORKER_FIXTURE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/segment.h"
#include "shm/wire.h"
#include "tests/harness/worker/job.h"
#include "worker/inbound.h"

#define FIXTURE_SLOTS   16u
#define FIXTURE_MEMORY  (64u * 1024u)
#define FIXTURE_SESSION 1u
#define FIXTURE_SEGMENT "segment"

enum { REGION_SEALED, REGION_READ_ONLY, REGION_PRIVATE, REGION_SHRUNK, REGION_COUNT };

struct fixture {
    struct host host;
    struct job job;
    int shrunk;
};

static struct fixture fixture;
static uint8_t fixture_private[FIXTURE_MEMORY];

/* Once per process. */
static void fixture_start(struct proto_worker_config config)
{
    config.connect_ms = 1000;
    host_start(&fixture.host, &config);
}

static void fixture_regions(void)
{
    const struct proto_region shared = {
        .kind = REGION_KIND_SHARED, .access = REGION_ACCESS_MASK, .length = FIXTURE_MEMORY};
    struct proto_region ask = shared;
    struct job *job = &fixture.job;

    job_region(job, REGION_SEALED, &shared, segment_create("fuzz", FIXTURE_MEMORY));
    ask.access = REGION_ACCESS_READ;
    job_region(job, REGION_READ_ONLY, &ask, segment_create("fuzz", FIXTURE_MEMORY));
    ask = (struct proto_region){.kind = REGION_KIND_PRIVATE,
                                .access = REGION_ACCESS_MASK,
                                .base = (uintptr_t)fixture_private,
                                .length = FIXTURE_MEMORY};
    job_region(job, REGION_PRIVATE, &ask, -1);
    fixture.shrunk = memfd_create("shrinks", MFD_CLOEXEC);
    host_require(ftruncate(fixture.shrunk, FIXTURE_MEMORY) == 0, "file");
    job_region(job, REGION_SHRUNK, &shared, fcntl(fixture.shrunk, F_DUPFD_CLOEXEC, 0));
}

/* For each input: the job comes. */
static void fixture_attach(void)
{
    const struct job_shape shape = {
        .handle = FIXTURE_SESSION, .segment = FIXTURE_SEGMENT, .slots = FIXTURE_SLOTS};

    job_attach(&fixture.job, &fixture.host, &shape);
    fixture_regions();
}

/* The job goes; nothing of it may be left, but for what a link still holds of its regions. */
static void fixture_detach(void)
{
    const struct counters_worker_stats *stats = fixture.host.worker.stats;

    job_detach(&fixture.job);
    close(fixture.shrunk);
    host_turns(2);
    host_require(host_stat(&stats->sessions) == 0, "a session is left");
    host_require(host_stat(&stats->channels) == 0, "a channel is left");
    host_require(host_stat(&stats->in_flight) == 0, "a request is left");
    host_require(host_stat(&stats->notify_parked) == 0, "a notification is left");
    host_require(!fixture.host.worker.stop, "the worker stopped");
}

/* After detach, with all links closed. */
static void fixture_expect_nothing(void)
{
    host_require(host_stat(&fixture.host.worker.stats->regions) == 0, "a region is left");
    host_require(fixture.host.worker.endpoint_count == 1, "an endpoint is left");
}

static struct channel *fixture_channel(void)
{
    return fixture.job.session->channels[0];
}

#endif
