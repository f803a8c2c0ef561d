#include "tests/harness/worker/host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/channel.h"
#include "shm/err.h"
#include "shm/wire.h"

#define HOSTS_MAX 4

static struct host *hosts[HOSTS_MAX]; /* started ones */

void host_require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

/* ---- life ---- */

struct proto_worker_config host_config(const char *name)
{
    struct proto_worker_config config = {.fabric = PROTO_FABRIC_TCP,
                                         .notify_max = HOST_NOTIFY_MAX,
                                         .slice_bytes = HOST_SLICE,
                                         .endpoint_max = 8,
                                         .connect_ms = HOST_CONNECT_MS};

    snprintf(config.name, sizeof(config.name), "%s", name);
    snprintf(config.address, sizeof(config.address), "127.0.0.1:1");
    return config;
}

struct proto_worker_config host_config_verbs(const char *name, const char *device)
{
    struct proto_worker_config config = host_config(name);

    config.fabric = PROTO_FABRIC_VERBS;
    config.notify_native = 1;
    config.rdma = (struct proto_rdma){.gid_index = PROTO_GID_AUTO,
                                      .data_qps = 1,
                                      .timeout = 14,
                                      .retries = 6,
                                      .rnr_retries = 7,
                                      .fused_max = 64 * 1024};
    snprintf(config.device, sizeof(config.device), "%s", device);
    return config;
}

static void hosts_put(struct host *old, struct host *new)
{
    for (unsigned i = 0; i < HOSTS_MAX; i++) {
        if (hosts[i] != old)
            continue;
        hosts[i] = new;
        return;
    }
    host_require(false, "a place for one more host");
}

void host_start(struct host *host, const struct proto_worker_config *config)
{
    struct counters_segment *counters;
    struct wire_message message;
    int pair[2], fd;

    memset(host, 0, sizeof(*host));
    host_require(counters_create(&fd, &counters) == TS_OK, "a counters segment");
    host_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
                 "a control socket");
    wire_message_init(&message, WIRE_WORKER_CONFIG);
    message.body.config = *config;
    message.fds[0] = fd;
    message.fd_count = 1;
    host_require(wire_send(pair[0], &message) == TS_OK, "a configuration that can be sent");
    close(fd);
    counters_unmap(counters);
    host->supervisor = pair[0];
    host_require(worker_init(&host->worker, pair[1]) == 0, "a worker that starts");
    hosts_put(NULL, host);
}

void host_end_endpoints(struct host *host)
{
    list_each (node, following, &host->worker.endpoints) {
        struct endpoint *endpoint = list_entry(node, struct endpoint, link_node);

        if (!endpoint->self)
            endpoint_handle(endpoint, ENDPOINT_EVENT_DRAINED, TS_OK, "the test ends");
    }
    host_until(host->worker.endpoint_count == 1);
}

void host_stop(struct host *host)
{
    const struct counters_worker_stats *stats = host->worker.stats;

    host_turns(2);
    host_require(host_stat(&stats->sessions) == 0, "a session is left");
    host_require(host_stat(&stats->channels) == 0, "a channel is left");
    host_require(host_stat(&stats->in_flight) == 0, "a request is left");
    host_require(host_stat(&stats->notify_parked) == 0, "a notification is left");
    host_require(host_stat(&stats->regions) == 0, "a region is left");
    host_require(host->worker.endpoint_count == 1, "an endpoint is left");
    host_require(!host->worker.stop, "the worker stopped");
    hosts_put(host, NULL);
    worker_fini(&host->worker);
    close(host->worker.control.fd);
    close(host->supervisor);
}

/* ---- turns ---- */

static void host_listen(struct host *host)
{
    struct wire_message message;

    while (wire_receive(host->supervisor, &message) == TS_OK) {
        const struct proto_reply *reply = &message.body.reply;

        if (message.header.type == WIRE_SESSION_KILL) {
            host->kill_count++;
            snprintf(host->killed, sizeof(host->killed), "%s", reply->text);
        } else if (message.header.type == WIRE_REPLY) {
            struct host_answer *answer = &host->answers[host->answer_count++ % HOST_ANSWERS];

            answer->id = message.header.id;
            answer->status = reply->status;
            answer->handle = reply->handle;
            snprintf(answer->text, sizeof(answer->text), "%s", reply->text);
        }
        wire_message_close(&message);
    }
}

void host_turn(struct host *host)
{
    host->worker.now = clock_now();
    (void)worker_do_work(&host->worker);
    (void)reactor_wait(&host->worker.reactor, 0);
    host_listen(host);
}

void host_turns(unsigned count)
{
    while (count-- > 0)
        for (unsigned i = 0; i < HOSTS_MAX; i++)
            if (hosts[i] != NULL)
                host_turn(hosts[i]);
}

/* The clock cannot be moved, so the timers are: what they set again begins at the real time. */
void host_skip(struct host *host, unsigned ms)
{
    const struct timer_heap *timers = &host->worker.timers;

    for (size_t i = 1; i <= timers->count; i++)
        timers->entries[i]->when -= ms * CLOCK_NS_PER_MS;
    host_turn(host);
}

uint64_t host_deadline(void)
{
    return clock_now() + HOST_WAIT_MS * CLOCK_NS_PER_MS;
}

void host_turn_before(uint64_t until, const char *what)
{
    host_require(clock_now() < until, what);
    host_turns(1);
}

const struct host_answer *host_answer(const struct host *host, uint32_t id)
{
    for (unsigned i = 0; i < HOST_ANSWERS && i < host->answer_count; i++)
        if (host->answers[i].id == id)
            return &host->answers[i];
    return NULL;
}

/* ---- links ---- */

void host_stream_pair(int pair[2])
{
    host_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
                 "a socket pair");
}

void host_tcp_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    host_require(bind(listener, (struct sockaddr *)&address, size) == 0 &&
                     listen(listener, 1) == 0 &&
                     getsockname(listener, (struct sockaddr *)&address, &size) == 0,
                 "a listening socket");
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    host_require(connect(pair[0], (struct sockaddr *)&address, size) == 0, "a connection");
    pair[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    host_require(pair[1] >= 0 && fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0, "both its ends");
    close(listener);
}

struct endpoint *host_endpoint(struct host *host, const char *name, uint8_t id, uint32_t notify_max)
{
    struct handshake_hello hello = {
        .generation = 1, .address = "127.0.0.1:1", .segment = "any", .notify_max = notify_max};
    char text[PROTO_TEXT_MAX] = "";
    struct endpoint *endpoint;

    memset(hello.worker, id, sizeof(hello.worker));
    snprintf(hello.worker_name, sizeof(hello.worker_name), "%s", name);
    endpoint = endpoint_accept(&host->worker, &hello, text, sizeof(text));
    host_require(endpoint != NULL, text);
    return endpoint;
}

struct endpoint *host_endpoint_tcp(struct host *host, const char *name, uint8_t id, int socket)
{
    struct endpoint *endpoint = host_endpoint(host, name, id, HOST_NOTIFY_MAX);

    endpoint->link = tcp_link_open(endpoint, socket);
    host_require(endpoint->link != NULL, "a tcp link");
    endpoint_handle(endpoint, ENDPOINT_EVENT_ACCEPTED, TS_OK, "");
    return endpoint;
}

struct host_link host_link_tcp(struct host *a, struct host *b)
{
    struct host_link link;
    int pair[2];

    host_tcp_pair(pair);
    link.a = host_endpoint_tcp(a, b->worker.config.name, 0xb0, pair[0]);
    link.b = host_endpoint_tcp(b, a->worker.config.name, 0xa0, pair[1]);
    return link;
}

static struct link *local_half(struct endpoint *endpoint, int socket, const int fds[3], bool first)
{
    char text[PROTO_TEXT_MAX] = "";
    struct link *link = local_link_open(endpoint, socket, fds, first, text, sizeof(text));

    host_require(link != NULL, text);
    return link;
}

struct host_link host_link_local(struct host *a, struct host *b)
{
    const struct channel_shape shape = {
        .slots = 16, .notify_max = a->worker.config.notify_max, .mailbox = true};
    struct host_link link = {.a = host_endpoint(a, b->worker.config.name, 0xb0, HOST_NOTIFY_MAX),
                             .b = host_endpoint(b, a->worker.config.name, 0xa0, HOST_NOTIFY_MAX)};
    int pair[2], ours[3], theirs[3];

    host_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
                 "a socket pair");
    ours[0] = channel_create(&shape);
    ours[1] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ours[2] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (int i = 0; i < 3; i++)
        theirs[i] = fcntl(ours[i], F_DUPFD_CLOEXEC, 0);
    endpoint_handle(link.a, ENDPOINT_EVENT_LINKING, TS_OK, "");
    link.a->link = local_half(link.a, pair[0], ours, true);
    endpoint_handle(link.b, ENDPOINT_EVENT_LINKING, TS_OK, "");
    link.b->link = local_half(link.b, pair[1], theirs, false);
    endpoint_handle(link.b, ENDPOINT_EVENT_LINKED, TS_OK, "");
    host_until(link.a->state == ENDPOINT_READY);
    return link;
}

static struct link *verbs_half(struct endpoint *endpoint, bool initiator)
{
    char text[PROTO_TEXT_MAX] = "";

    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
    endpoint->link = verbs_link_prepare(endpoint, initiator, text, sizeof(text));
    host_require(endpoint->link != NULL, text);
    return endpoint->link;
}

struct host_link host_link_verbs(struct host *a, struct host *b)
{
    struct host_link link = {
        .a = host_endpoint(a, b->worker.config.name, 0xb0, b->worker.config.notify_max),
        .b = host_endpoint(b, a->worker.config.name, 0xa0, a->worker.config.notify_max)};
    struct link *first = verbs_half(link.a, true), *second = verbs_half(link.b, false);
    char text[PROTO_TEXT_MAX] = "";
    int pair[2];

    host_tcp_pair(pair);
    host_require(verbs_link_answer(second, verbs_link_offer(first), text, sizeof(text)) == TS_OK,
                 text);
    host_require(verbs_link_carry(second, pair[1]) == TS_OK, "a carrier");
    host_require(verbs_link_confirm(first, verbs_link_offer(second), text, sizeof(text)) == TS_OK,
                 text);
    host_require(verbs_link_carry(first, pair[0]) == TS_OK, "a carrier");
    host_until(link.a->state == ENDPOINT_READY && link.b->state == ENDPOINT_READY);
    return link;
}
