#include "tests/harness/test.h"

#include "tests/harness/forge.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm/err.h"
#include "tests/harness/wait.h"

#define FDS_MAX 16

int forge_connect(const struct daemon *daemon)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct wait wait = wait_begin("a connection to the supervisor", WAIT_MS);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.107s", daemon->socket);
    while (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        assert_int_equal(errno, EAGAIN); /* its backlog is full */
        wait_step(&wait);
    }
    return fd;
}

void forge_packet(int socket, const void *bytes, size_t size, const int *fds, size_t fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd_count > 0) {
        struct cmsghdr *header;

        assert_true(fd_count <= FDS_MAX);
        packet.msg_control = control.bytes;
        packet.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
    }
    if (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0)
        assert_true(errno == EPIPE || errno == ECONNRESET); /* it has hung up already */
}

void forge_receive(int socket, struct wire_message *message)
{
    struct wait wait = wait_begin("a message of the supervisor", WAIT_MS);
    int rc;

    while ((rc = wire_receive(socket, message)) == TS_AGAIN)
        wait_step(&wait);
    if (rc != TS_OK)
        fail_msg("instead of a message: %s", err_name(rc));
}

void forge_expect_hangup(int socket, unsigned ms)
{
    struct wait wait = wait_begin("the supervisor hangs up", ms);
    struct wire_message message;

    for (;;) {
        int rc = wire_receive(socket, &message);

        if (rc == TS_ERR_GONE)
            return;
        if (rc == TS_OK)
            wire_message_close(&message);
        else
            wait_step(&wait);
    }
}

void forge_hello(struct wire_message *message, const char *segment)
{
    wire_message_init(message, WIRE_HELLO);
    message->header.id = 1;
    message->body.hello.abi_major = LAYOUT_VERSION_MAJOR;
    message->body.hello.abi_minor = LAYOUT_VERSION_MINOR;
    message->body.hello.features = LAYOUT_FEATURES_KNOWN;
    message->body.hello.slots = 16;
    message->body.hello.cpu = -1;
    snprintf(message->body.hello.segment, sizeof(message->body.hello.segment), "%s",
             segment ? segment : "");
}

static void forge_rings(struct forge *forge)
{
    struct channel_map *map = &forge->map;
    struct channel_header *header = map->header;

    ring_producer_init(&forge->sq, &header->sq_words, channel_bytes(map, &map->sq), map->sq.size,
                       map->sq.start);
    ring_producer_init(&forge->ntx, &header->ntx_words, channel_bytes(map, &map->ntx),
                       map->ntx.size, map->ntx.start);
    ring_consumer_init(&forge->cq, &header->cq_words, channel_bytes(map, &map->cq), map->cq.size,
                       map->cq.start);
    ring_consumer_init(&forge->nrx, &header->nrx_words, channel_bytes(map, &map->nrx),
                       map->nrx.size, map->nrx.start);
}

void forge_attach(struct forge *forge, const struct daemon *daemon, const char *segment)
{
    struct wire_message message;
    int fd;

    memset(forge, 0, sizeof(*forge));
    forge->next_id = 2;
    forge->socket = forge_connect(daemon);
    forge_hello(&message, segment);
    assert_int_equal(wire_send(forge->socket, &message), TS_OK);
    forge_receive(forge->socket, &message);
    assert_int_equal(message.header.type, WIRE_WELCOME);
    if (message.body.welcome.status != TS_OK)
        fail_msg("attach: %s", message.body.welcome.text);
    snprintf(forge->name, sizeof(forge->name), "%s", message.body.welcome.segment);
    fd = wire_message_take(&message, 0);
    forge->worker_event = wire_message_take(&message, 1);
    forge->job_event = wire_message_take(&message, 2);
    assert_int_equal(channel_map(fd, &forge->map), TS_OK);
    close(fd);
    forge_rings(forge);
}

void forge_leave(struct forge *forge)
{
    close(forge->socket);
    close(forge->worker_event);
    close(forge->job_event);
    channel_unmap(&forge->map);
}

int forge_ask(struct forge *forge, struct wire_message *message)
{
    uint32_t id = forge->next_id++;

    message->header.id = id;
    assert_int_equal(wire_send(forge->socket, message), TS_OK);
    forge_receive(forge->socket, message);
    assert_int_equal(message->header.id, id);
    wire_message_close(message);
    return message->body.reply.status;
}

int forge_region(struct forge *forge, int fd, uint64_t length, uint32_t access, uint32_t *handle)
{
    struct wire_message message;
    int status;

    wire_message_init(&message, WIRE_REGION_ADD);
    message.body.region =
        (struct proto_region){.kind = fd < 0 ? REGION_KIND_PRIVATE : REGION_KIND_SHARED,
                              .access = access,
                              .length = length};
    message.fds[0] = fd;
    message.fd_count = fd < 0 ? 0 : 1;
    status = forge_ask(forge, &message);
    *handle = message.body.reply.handle;
    return status;
}

uint32_t forge_open(struct forge *forge, const char *name)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_REMOTE_OPEN);
    message.body.remote.timeout_ms = WAIT_MS;
    snprintf(message.body.remote.name, sizeof(message.body.remote.name), "%s", name);
    if (forge_ask(forge, &message) != TS_OK)
        fail_msg("open %s: %s", name, message.body.reply.text);
    return message.body.reply.handle;
}

void forge_sqe(struct forge *forge, const struct sqe *sqe)
{
    assert_int_equal(ring_producer_room(&forge->sq, 1), TS_OK);
    memcpy(ring_slot_next(&forge->sq, sizeof(*sqe)), sqe, sizeof(*sqe));
    forge->sq.tail++;
}

uint64_t forge_record(struct forge *forge, uint32_t name_len, uint32_t msg_len)
{
    struct notify_record record = {.size = (uint32_t)ring_record_size(0, name_len, msg_len),
                                   .kind = NOTIFY_KIND_MESSAGE,
                                   .name_len = name_len,
                                   .msg_len = msg_len};
    uint8_t *at;

    assert_int_equal(ring_record_claim(&forge->ntx, record.size, &at), TS_OK);
    memset(at, 'x', record.size);
    memcpy(at, &record, sizeof(record));
    return forge->ntx.tail - record.size;
}

void forge_wake(const struct forge *forge)
{
    doorbell_signal(forge->worker_event);
}

void forge_publish(struct forge *forge)
{
    ring_producer_publish(&forge->ntx);
    ring_producer_publish(&forge->sq);
    forge_wake(forge);
}

struct cqe forge_complete(struct forge *forge)
{
    struct wait wait = wait_begin("a completion of the worker", WAIT_MS);
    uint64_t ready = 0;
    struct cqe cqe;

    for (;;) {
        assert_int_equal(ring_consumer_ready(&forge->cq, &ready), TS_OK);
        if (ready > 0)
            break;
        wait_step(&wait);
    }
    ring_slot_read(&forge->cq, &cqe, sizeof(cqe));
    forge->cq.head++;
    ring_consumer_publish(&forge->cq);
    return cqe;
}
