/* A supervisor and its worker, played by the test: a thread answers the control socket as the
 * script in struct fake says, and the worker's ends of the rings are in the test's own hands. */
#ifndef TESTS_UNIT_CLIENT_FAKE_PEER_H
#define TESTS_UNIT_CLIENT_FAKE_PEER_H

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/include/tesup.h"
#include "shm/channel.h"
#include "shm/wire.h"

#define FAKE_CHANNELS 32
#define FAKE_CLIENTS  16
#define FAKE_NAME     "127.0.0.1:7400/job"

struct fake_channel { /* the worker's side */
    struct channel_map map;
    int memfd;
    struct doorbell worker_bell, job_bell;
    struct ring_consumer sq, ntx;
    struct ring_producer cq, nrx;
};

struct fake {
    char dir[32], path[64];
    int listener, stop;
    pthread_t thread;
    pthread_mutex_t lock;

    /* The script; set before the call that it is for. */
    struct channel_shape shape;
    int32_t refuse[WIRE_TYPE_COUNT]; /* status of the answer */
    bool mute[WIRE_TYPE_COUNT];      /* no answer at all */
    bool hang_up[WIRE_TYPE_COUNT];   /* the connection ends instead */
    uint32_t next_handle;
    const char *name;

    /* What was seen. */
    uint32_t seen[WIRE_TYPE_COUNT];
    struct wire_message last[WIRE_TYPE_COUNT];
    uint64_t shared_size; /* of the last region's file */
    uint32_t muted_id;    /* of the last message that got no answer */
    int clients[FAKE_CLIENTS];
    int client_count;
    struct fake_channel channels[FAKE_CHANNELS];
    int channel_count;
};

static inline void fake_channel_open(struct fake *fake, struct fake_channel *channel, bool mailbox)
{
    struct channel_shape shape = fake->shape;
    struct channel_map *map = &channel->map;

    shape.mailbox = mailbox;
    channel->memfd = channel_create(&shape);
    channel->worker_bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    channel->job_bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (channel->memfd < 0 || channel_map(channel->memfd, map) != TS_OK)
        abort();
    channel->worker_bell.word = &map->header->worker_bell;
    channel->job_bell.word = &map->header->job_bell;
    ring_consumer_init(&channel->sq, &map->header->sq_words, channel_bytes(map, &map->sq),
                       map->sq.size, map->sq.start);
    ring_consumer_init(&channel->ntx, &map->header->ntx_words, channel_bytes(map, &map->ntx),
                       map->ntx.size, map->ntx.start);
    ring_producer_init(&channel->cq, &map->header->cq_words, channel_bytes(map, &map->cq),
                       map->cq.size, map->cq.start);
    ring_producer_init(&channel->nrx, &map->header->nrx_words, channel_bytes(map, &map->nrx),
                       map->nrx.size, map->nrx.start);
}

static inline void fake_channel_close(struct fake_channel *channel)
{
    channel_unmap(&channel->map);
    close(channel->memfd);
    close(channel->worker_bell.fd);
    close(channel->job_bell.fd);
}

static inline void fake_give_channel(struct fake *fake, struct wire_message *answer, bool mailbox)
{
    struct fake_channel *channel = &fake->channels[fake->channel_count++ % FAKE_CHANNELS];

    if (channel->map.header != NULL)
        fake_channel_close(channel);
    fake_channel_open(fake, channel, mailbox);
    answer->fds[0] = channel->memfd;
    answer->fds[1] = channel->worker_bell.fd;
    answer->fds[2] = channel->job_bell.fd;
    answer->fd_count = 3;
}

static inline void fake_answer(struct fake *fake, int client, const struct wire_message *asked)
{
    uint16_t type = asked->header.type;
    int32_t status = fake->refuse[type];
    struct wire_message answer;

    if (type == WIRE_HELLO) {
        wire_message_init(&answer, WIRE_WELCOME);
        answer.body.welcome.status = status;
        answer.body.welcome.notify_max = fake->shape.notify_max;
        answer.body.welcome.supervisor_pid = (uint32_t)getpid();
        snprintf(answer.body.welcome.segment, LAYOUT_NAME_MAX, "%s", fake->name);
        snprintf(answer.body.welcome.worker, PROTO_LABEL_MAX, "tcp@node0");
        snprintf(answer.body.welcome.text, PROTO_TEXT_MAX, "the fake refuses %d", status);
        if (status == TS_OK)
            fake_give_channel(fake, &answer, true);
    } else if (type == WIRE_CHANNEL_OPEN && status == TS_OK) {
        wire_message_init(&answer, WIRE_CHANNEL_READY);
        answer.body.reply.handle = (uint32_t)fake->channel_count;
        fake_give_channel(fake, &answer, false);
    } else {
        wire_message_init(&answer, WIRE_REPLY);
        answer.body.reply.status = status;
        if (status == TS_OK && (type == WIRE_REGION_ADD || type == WIRE_REMOTE_OPEN))
            answer.body.reply.handle = fake->next_handle++;
        snprintf(answer.body.reply.text, PROTO_TEXT_MAX, "the fake refuses %d", status);
    }
    answer.header.id = asked->header.id;
    if (wire_send(client, &answer) != TS_OK)
        abort();
}

static inline void fake_client_end(struct fake *fake, int index)
{
    close(fake->clients[index]);
    fake->clients[index] = fake->clients[--fake->client_count];
}

/* Returns false when the client is gone. */
static inline bool fake_hear(struct fake *fake, int client)
{
    struct wire_message message;
    int rc = wire_receive(client, &message);
    uint16_t type = message.header.type;

    if (rc == TS_AGAIN)
        return true;
    if (rc != TS_OK)
        return false;
    if (message.fd_count > 0)
        fake->shared_size = (uint64_t)lseek(message.fds[0], 0, SEEK_END);
    wire_message_close(&message);
    fake->seen[type]++;
    fake->last[type] = message;
    if (type == WIRE_BYE || fake->hang_up[type])
        return false;
    if (fake->mute[type])
        fake->muted_id = message.header.id;
    else
        fake_answer(fake, client, &message);
    return true;
}

static inline void fake_accept(struct fake *fake)
{
    int client = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

    if (client < 0 || fake->client_count == FAKE_CLIENTS)
        abort();
    fake->clients[fake->client_count++] = client;
}

static inline void *fake_run(void *argument)
{
    struct fake *fake = argument;

    for (;;) {
        struct pollfd wait[2 + FAKE_CLIENTS] = {{.fd = fake->stop, .events = POLLIN},
                                                {.fd = fake->listener, .events = POLLIN}};
        int count = fake->client_count;

        for (int i = 0; i < count; i++)
            wait[2 + i] = (struct pollfd){.fd = fake->clients[i], .events = POLLIN};
        if (poll(wait, 2 + (nfds_t)count, -1) < 0)
            abort();
        if (wait[0].revents != 0)
            return NULL;
        pthread_mutex_lock(&fake->lock);
        for (int i = count - 1; i >= 0; i--)
            if (wait[2 + i].revents != 0 && !fake_hear(fake, fake->clients[i]))
                fake_client_end(fake, i);
        if (wait[1].revents != 0)
            fake_accept(fake);
        pthread_mutex_unlock(&fake->lock);
    }
}

/* Begins to listen at fake->path. */
static inline void fake_start(struct fake *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->path);
    fake->stop = eventfd(0, EFD_CLOEXEC);
    fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fake->listener >= 0 && fake->stop >= 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listener, 16), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

/* Dies: every connection ends, the socket's name goes. */
static inline void fake_stop(struct fake *fake)
{
    uint64_t one = 1;

    assert_int_equal(write(fake->stop, &one, sizeof(one)), sizeof(one));
    pthread_join(fake->thread, NULL);
    while (fake->client_count > 0)
        fake_client_end(fake, 0);
    close(fake->listener);
    close(fake->stop);
    unlink(fake->path);
}

static inline void fake_init(struct fake *fake)
{
    memset(fake, 0, sizeof(*fake));
    pthread_mutex_init(&fake->lock, NULL);
    fake->shape = (struct channel_shape){.slots = 16, .notify_max = LAYOUT_NOTIFY_NATIVE_MAX};
    fake->next_handle = 1u << 14;
    fake->name = FAKE_NAME;
    strcpy(fake->dir, "/tmp/tesup-fake-XXXXXX");
    assert_non_null(mkdtemp(fake->dir));
    snprintf(fake->path, sizeof(fake->path), "%s/socket", fake->dir);
    fake_start(fake);
}

static inline void fake_fini(struct fake *fake)
{
    fake_stop(fake);
    for (int i = 0; i < FAKE_CHANNELS; i++)
        if (fake->channels[i].map.header != NULL)
            fake_channel_close(&fake->channels[i]);
    rmdir(fake->dir);
    pthread_mutex_destroy(&fake->lock);
}

static inline uint32_t fake_seen(struct fake *fake, enum wire_type type)
{
    uint32_t seen;

    pthread_mutex_lock(&fake->lock);
    seen = fake->seen[type];
    pthread_mutex_unlock(&fake->lock);
    return seen;
}

static inline uint32_t fake_channels_given(struct fake *fake)
{
    uint32_t given;

    pthread_mutex_lock(&fake->lock);
    given = (uint32_t)fake->channel_count;
    pthread_mutex_unlock(&fake->lock);
    return given;
}

static inline struct tesup_session *fake_attach(struct fake *fake)
{
    struct tesup_options options = {.socket = fake->path, .segment = "job", .timeout_ms = 2000};
    struct tesup_session *session = NULL;

    assert_int_equal(tesup_attach(&options, &session), TESUP_OK);
    return session;
}

/* ---- the worker ---- */

static inline bool fake_take(struct fake_channel *channel, struct sqe *sqe)
{
    uint64_t ready = 0;

    if (ring_consumer_ready(&channel->sq, &ready) != TS_OK || ready == 0)
        return false;
    ring_slot_read(&channel->sq, sqe, sizeof(*sqe));
    channel->sq.head++;
    ring_consumer_publish(&channel->sq);
    return true;
}

static inline void fake_push(struct fake_channel *channel, const struct cqe *cqe)
{
    memcpy(ring_slot_next(&channel->cq, sizeof(*cqe)), cqe, sizeof(*cqe));
    channel->cq.tail++;
    ring_producer_publish(&channel->cq);
    doorbell_ring(&channel->job_bell);
}

/* Takes the next descriptor (there must be one) and its notification. */
static inline struct sqe fake_take_whole(struct fake_channel *channel)
{
    struct sqe sqe;

    assert_true(fake_take(channel, &sqe));
    if ((sqe.flags & SQE_FLAG_NOTIFY) != 0) {
        struct notify_record record;
        const uint8_t *body;

        assert_int_equal(
            ring_record_at(&channel->ntx, sqe.notify_pos, sqe.notify_len, &record, &body), TS_OK);
        ring_record_consume(&channel->ntx, &record);
        ring_consumer_publish(&channel->ntx);
    }
    return sqe;
}

/* The same, and completes it. */
static inline struct sqe fake_serve(struct fake_channel *channel, int status)
{
    uint64_t ticket = channel->sq.head;
    struct sqe sqe = fake_take_whole(channel);

    fake_push(channel, &(struct cqe){.cookie = sqe.cookie,
                                     .ticket = ticket,
                                     .bytes = sqe.length,
                                     .status = status,
                                     .slot = sqe.slot,
                                     .op = sqe.op});
    return sqe;
}

static inline void fake_deliver(struct fake_channel *channel, enum notify_kind kind,
                                const char *from, const char *name, const char *msg,
                                uint32_t remote, int status)
{
    struct notify_record header = {.kind = (uint16_t)kind,
                                   .from_len = (uint16_t)strlen(from),
                                   .name_len = (uint32_t)strlen(name),
                                   .msg_len = (uint32_t)strlen(msg),
                                   .status = status,
                                   .remote = remote};
    uint8_t *at;

    header.size = (uint32_t)ring_record_size(header.from_len, header.name_len, header.msg_len);
    assert_int_equal(ring_record_claim(&channel->nrx, header.size, &at), TS_OK);
    memcpy(at, &header, sizeof(header));
    at += sizeof(header);
    memcpy(at, from, header.from_len);
    memcpy(at + header.from_len, name, header.name_len);
    memcpy(at + header.from_len + header.name_len, msg, header.msg_len);
    ring_producer_publish(&channel->nrx);
    doorbell_ring(&channel->job_bell);
}

/* Changes the script of the fake that a test calls `fake`. */
#define fake_set(field, value)            \
    do {                                  \
        pthread_mutex_lock(&fake.lock);   \
        fake.field = (value);             \
        pthread_mutex_unlock(&fake.lock); \
    } while (0)

#define assert_sentence(part)                                      \
    do {                                                           \
        if (strstr(tesup_last_error(), part) == NULL)              \
            fail_msg("'%s' lacks '%s'", tesup_last_error(), part); \
    } while (0)

#endif
