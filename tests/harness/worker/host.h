/* A worker inside the test's own process; the test plays its supervisor.  Turns are made by hand
 * and time is skipped by hand: nothing sleeps.
 *
 * Used by cmocka programs and by fuzzers, so a broken promise aborts with a sentence. */
#ifndef TESUP_TESTS_HARNESS_WORKER_HOST_H
#define TESUP_TESTS_HARNESS_WORKER_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/clock.h"
#include "worker/endpoint.h"
#include "worker/worker.h"

#define HOST_NOTIFY_MAX 1024u
#define HOST_SLICE      4096u
#define HOST_CONNECT_MS 60000u /* time is skipped, not waited for */
#define HOST_ANSWERS    64u
#define HOST_WAIT_MS    10000u /* for what must come, however slow the machine is */

/* What the worker told its supervisor about one message. */
struct host_answer {
    uint32_t id;
    int status;
    uint32_t handle;
    char text[PROTO_TEXT_MAX];
};

struct host {
    struct worker worker;
    int supervisor; /* the other end of its control socket */
    struct host_answer answers[HOST_ANSWERS];
    unsigned answer_count;
    unsigned kill_count;
    char killed[PROTO_TEXT_MAX]; /* why the last session was killed */
};

void host_require(bool holds, const char *what);

/* Small limits, fabric tcp, an address that nobody listens at. */
struct proto_worker_config host_config(const char *name);
/* The same with fabric verbs on a device. */
struct proto_worker_config host_config_verbs(const char *name, const char *device);
void host_start(struct host *host, const struct proto_worker_config *config);
/* Lets all peers go. */
void host_end_endpoints(struct host *host);
/* Nothing may be left but the link to itself. */
void host_stop(struct host *host);

void host_turn(struct host *host);
/* One turn of every started host. */
void host_turns(unsigned count);
/* `ms` pass for everything that waits, then one turn. */
void host_skip(struct host *host, unsigned ms);

/* The answer to message `id`; NULL: none yet. */
const struct host_answer *host_answer(const struct host *host, uint32_t id);

/* Turns all hosts until the condition holds; aborts with its text when it never does. */
#define host_until(condition)                                              \
    do {                                                                   \
        const uint64_t until_ = host_deadline();                           \
        while (!(condition))                                               \
            host_turn_before(until_, "this never came true: " #condition); \
    } while (0)
uint64_t host_deadline(void);
void host_turn_before(uint64_t until, const char *what);

/* Two connected, non-blocking stream sockets: within the kernel, where what one side wrote is at
 * once there for the other; and over loopback. */
void host_stream_pair(int pair[2]);
void host_tcp_pair(int pair[2]);

/* An endpoint that is ready over a link of the test's making; the peer worker is called `name` and
 * its id is made of `id`. */
struct endpoint *host_endpoint(struct host *host, const char *name, uint8_t id,
                               uint32_t notify_max);
struct endpoint *host_endpoint_tcp(struct host *host, const char *name, uint8_t id, int socket);
/* The same between two hosts. */
struct host_link {
    struct endpoint *a, *b;
};
struct host_link host_link_tcp(struct host *a, struct host *b);
struct host_link host_link_local(struct host *a, struct host *b);
/* Both hosts have a device; the second one answers. */
struct host_link host_link_verbs(struct host *a, struct host *b);

static inline uint64_t host_stat(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
