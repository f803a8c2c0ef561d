/* A worker inside the fuzzer's own process: its supervisor is a socketpair that we read empty, and
 * one job is attached with one channel and four regions.  Turns are made by hand; nothing sleeps.
 */
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

#include "shm/channel.h"
#include "shm/clock.h"
#include "shm/segment.h"
#include "shm/wire.h"
#include "worker/channel.h"
#include "worker/endpoint.h"
#include "worker/inbound.h"
#include "worker/region.h"
#include "worker/remote.h"

#define FIXTURE_SLOTS      16u
#define FIXTURE_NOTIFY_MAX 1024u
#define FIXTURE_MEMORY     (64u * 1024u)
#define FIXTURE_SESSION    1u
#define FIXTURE_SEGMENT    "segment"

#define FIXTURE_HANDLE(index) ((1u << TABLE_INDEX_BITS) | (index))

enum { REGION_SEALED, REGION_READ_ONLY, REGION_PRIVATE, REGION_SHRUNK, REGION_COUNT };

struct fixture {
    struct worker worker;
    int supervisor; /* the other end of its control socket */
    struct session *session;
    struct channel_map map; /* the job's view */
    int shrunk;
};

static struct fixture fixture;
static uint8_t fixture_private[FIXTURE_MEMORY];

/* What the fuzzer found must be seen: a broken promise is a crash. */
static void fixture_require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void fixture_listen(void)
{
    struct wire_message message;

    while (wire_receive(fixture.supervisor, &message) == TS_OK)
        wire_message_close(&message);
}

static void fixture_turns(int count)
{
    for (int i = 0; i < count; i++) {
        fixture.worker.now = clock_now();
        (void)worker_do_work(&fixture.worker);
        (void)reactor_wait(&fixture.worker.reactor, 0);
        fixture_listen();
    }
}

/* Once per process. */
static void fixture_start(void)
{
    struct counters_segment *counters;
    struct wire_message message;
    int pair[2], fd;

    fixture_require(counters_create(&fd, &counters) == TS_OK, "counters segment");
    fixture_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0, "control");
    wire_message_init(&message, WIRE_WORKER_CONFIG);
    message.body.config.fabric = PROTO_FABRIC_TCP;
    message.body.config.notify_max = FIXTURE_NOTIFY_MAX;
    message.body.config.slice_bytes = 4096;
    message.body.config.endpoint_max = 8;
    message.body.config.connect_ms = 1000;
    snprintf(message.body.config.name, sizeof(message.body.config.name), "fuzzed");
    snprintf(message.body.config.address, sizeof(message.body.config.address), "127.0.0.1:1");
    message.fds[0] = fd;
    message.fd_count = 1;
    fixture_require(wire_send(pair[0], &message) == TS_OK, "configuration");
    close(fd);
    counters_unmap(counters);
    fixture.supervisor = pair[0];
    fixture_require(worker_init(&fixture.worker, pair[1]) == 0, "worker");
}

static void fixture_region(uint32_t index, const struct proto_region *ask, int fd)
{
    struct proto_region region = *ask;
    char text[PROTO_TEXT_MAX] = "";

    region.handle = FIXTURE_HANDLE(index);
    fixture_require(region_add(fixture.session, &region, fd, text, sizeof(text)) == TS_OK, text);
}

static void fixture_regions(void)
{
    const struct proto_region shared = {
        .kind = REGION_KIND_SHARED, .access = REGION_ACCESS_MASK, .length = FIXTURE_MEMORY};
    struct proto_region ask = shared;

    fixture_region(REGION_SEALED, &shared, segment_create("fuzz", FIXTURE_MEMORY));
    ask.access = REGION_ACCESS_READ;
    fixture_region(REGION_READ_ONLY, &ask, segment_create("fuzz", FIXTURE_MEMORY));
    ask = (struct proto_region){.kind = REGION_KIND_PRIVATE,
                                .access = REGION_ACCESS_MASK,
                                .base = (uintptr_t)fixture_private,
                                .length = FIXTURE_MEMORY};
    fixture_region(REGION_PRIVATE, &ask, -1);
    fixture.shrunk = memfd_create("shrinks", MFD_CLOEXEC);
    fixture_require(ftruncate(fixture.shrunk, FIXTURE_MEMORY) == 0, "file");
    fixture_region(REGION_SHRUNK, &shared, fcntl(fixture.shrunk, F_DUPFD_CLOEXEC, 0));
}

/* For each input: the job comes. */
static void fixture_attach(void)
{
    const struct channel_shape shape = {
        .slots = FIXTURE_SLOTS, .notify_max = FIXTURE_NOTIFY_MAX, .mailbox = true};
    const struct proto_channel ask = {.slots = FIXTURE_SLOTS};
    struct proto_session session = {
        .uid = 1000, .pid = (uint32_t)getpid(), .trusted = 1, .segment = FIXTURE_SEGMENT};
    int fd = channel_create(&shape);

    session.start_time = process_start_time(getpid());
    fixture_require(fd >= 0 && channel_map(fd, &fixture.map) == TS_OK, "channel");
    fixture_require(session_add(&fixture.worker, FIXTURE_SESSION, &session,
                                open("/dev/null", O_RDONLY | O_CLOEXEC)) == TS_OK,
                    "session");
    fixture.session = session_find(&fixture.worker, FIXTURE_SESSION);
    fixture_require(channel_add(fixture.session, &ask, fd, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                                eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) == TS_OK,
                    "channel_add");
    fixture_regions();
}

/* The job goes; nothing of it may be left. */
static void fixture_detach(void)
{
    const struct counters_worker_stats *stats = fixture.worker.stats;

    session_delete(fixture.session);
    channel_unmap(&fixture.map);
    close(fixture.shrunk);
    fixture_turns(2);
    fixture_require(atomic_peek(&stats->sessions) == 0, "a session is left");
    fixture_require(atomic_peek(&stats->channels) == 0, "a channel is left");
    fixture_require(atomic_peek(&stats->in_flight) == 0, "a request is left");
    fixture_require(atomic_peek(&stats->notify_parked) == 0, "a notification is left");
    fixture_require(fixture.worker.stop == false, "the worker stopped");
}

/* After detach, with all links closed. */
static void fixture_expect_no_regions(void)
{
    fixture_require(atomic_peek(&fixture.worker.stats->regions) == 0, "a region is left");
}

static struct channel *fixture_channel(void)
{
    return fixture.session->channels[0];
}

#endif
