#include "shm/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"

#define FDS_TAKEN \
    253 /* as many as a packet can have: what is too much must be taken to be closed */

/* What each type carries.  Exact: a shorter, longer or differently equipped message is refused. */
static const struct wire_shape {
    uint32_t length;
    uint8_t fds_min, fds_max;
} wire_shapes[WIRE_TYPE_COUNT] = {
    [WIRE_HELLO] = {sizeof(struct proto_hello), 0, 0},
    [WIRE_CHANNEL_OPEN] = {sizeof(struct proto_channel), 0, 0},
    [WIRE_CHANNEL_CLOSE] = {sizeof(struct proto_handle), 0, 0},
    [WIRE_REGION_ADD] = {sizeof(struct proto_region), 0, 1},
    [WIRE_REGION_DEL] = {sizeof(struct proto_handle), 0, 0},
    [WIRE_REMOTE_OPEN] = {sizeof(struct proto_remote), 0, 0},
    [WIRE_REMOTE_CLOSE] = {sizeof(struct proto_handle), 0, 0},
    [WIRE_REMOTE_WATCH] = {sizeof(struct proto_handle), 0, 0},
    [WIRE_REGION_GRANT] = {sizeof(struct proto_handle), 0, 0},
    [WIRE_REGION_KEYS] = {sizeof(struct proto_keys), 0, 0},
    [WIRE_BYE] = {0, 0, 0},
    [WIRE_WELCOME] = {sizeof(struct proto_welcome), 0, 3},
    [WIRE_CHANNEL_READY] = {sizeof(struct proto_reply), 3, 3},
    [WIRE_REPLY] = {sizeof(struct proto_reply), 0, 0},
    [WIRE_GRANT] = {sizeof(struct proto_grant), 1, 1},
    [WIRE_WORKER_CONFIG] = {sizeof(struct proto_worker_config), 1, 1},
    [WIRE_SESSION_ADD] = {sizeof(struct proto_session), 1, 1},
    [WIRE_SESSION_DEL] = {0, 0, 0},
    [WIRE_CHANNEL_ADD] = {sizeof(struct proto_channel), 3, 3},
    [WIRE_PEER_SOCKET] = {sizeof(struct proto_peer), 1, 1},
    [WIRE_LOCAL_LINK] = {sizeof(struct proto_local_link), 0, 1},
    [WIRE_DRAIN] = {sizeof(struct proto_drain), 0, 0},
    [WIRE_WORKER_READY] = {0, 0, 0},
    [WIRE_SESSION_KILL] = {sizeof(struct proto_reply), 0, 0},
    [WIRE_REGION_ADD_GPU] = {sizeof(struct proto_region_gpu), 0, PROTO_GPU_FDS_MAX},
};

void wire_message_init(struct wire_message *message, enum wire_type type)
{
    memset(message, 0, sizeof(*message));
    message->header = (struct wire_header){.magic = WIRE_MAGIC,
                                           .version = WIRE_VERSION,
                                           .type = (uint16_t)type,
                                           .length = wire_shapes[type].length};
    for (int i = 0; i < WIRE_FDS_MAX; i++)
        message->fds[i] = -1;
}

void wire_message_close(struct wire_message *message)
{
    for (int i = 0; i < WIRE_FDS_MAX; i++) {
        if (message->fds[i] >= 0)
            close(message->fds[i]);
        message->fds[i] = -1;
    }
    message->fd_count = 0;
}

int wire_message_take(struct wire_message *message, int index)
{
    int fd = message->fds[index];

    message->fds[index] = -1;
    return fd;
}

int wire_send(int socket, const struct wire_message *message)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
    } control;
    struct iovec parts[2] = {
        {.iov_base = (void *)(uintptr_t)&message->header, .iov_len = sizeof(message->header)},
        {.iov_base = (void *)(uintptr_t)&message->body, .iov_len = message->header.length},
    };
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};

    if (message->fd_count > 0) {
        struct cmsghdr *header;
        size_t bytes = sizeof(int) * (size_t)message->fd_count;

        memset(&control, 0, sizeof(control));
        packet.msg_control = control.bytes;
        packet.msg_controllen = CMSG_SPACE(bytes);
        header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), message->fds, bytes);
    }
    while (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0) {
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == ENOBUFS)
            return TS_AGAIN;
        return errno == EPIPE || errno == ECONNRESET ? TS_ERR_GONE : TS_ERR_SYSTEM;
    }
    return TS_OK;
}

/* Takes the descriptors out of the packet. TS_ERR_PROTOCOL: there were more than may be (they are
 * closed); TS_ERR_LIMIT: this process could not take all. */
static int wire_collect_fds(struct msghdr *packet, struct wire_message *message)
{
    int rc = (packet->msg_flags & MSG_CTRUNC) != 0 ? TS_ERR_LIMIT : TS_OK;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(packet); header != NULL;
         header = CMSG_NXTHDR(packet, header)) {
        size_t count;

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            if (message->fd_count < WIRE_FDS_MAX) {
                message->fds[message->fd_count++] = fd;
            } else {
                close(fd);
                rc = TS_ERR_PROTOCOL;
            }
        }
    }
    return rc;
}

static int wire_header_check(const struct wire_message *message, size_t received)
{
    const struct wire_shape *shape;

    if (received < sizeof(message->header) || message->header.magic != WIRE_MAGIC)
        return TS_ERR_PROTOCOL;
    if (message->header.version != WIRE_VERSION)
        return TS_ERR_VERSION;
    if (message->header.type == WIRE_NONE || message->header.type >= WIRE_TYPE_COUNT)
        return TS_ERR_PROTOCOL;
    shape = &wire_shapes[message->header.type];
    if (message->header.length != shape->length ||
        received != sizeof(message->header) + shape->length)
        return TS_ERR_PROTOCOL;
    return TS_OK;
}

int wire_message_check(const struct wire_message *message, size_t received)
{
    const struct wire_shape *shape;
    int rc = wire_header_check(message, received);

    if (rc != TS_OK)
        return rc;
    shape = &wire_shapes[message->header.type];
    return message->fd_count < shape->fds_min || message->fd_count > shape->fds_max
               ? TS_ERR_PROTOCOL
               : TS_OK;
}

int wire_receive(int socket, struct wire_message *message)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FDS_TAKEN)];
    } control;
    struct iovec parts[2] = {
        {.iov_base = &message->header, .iov_len = sizeof(message->header)},
        {.iov_base = &message->body, .iov_len = sizeof(message->body)},
    };
    struct msghdr packet = {.msg_iov = parts,
                            .msg_iovlen = 2,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    int rc, fds;

    for (int i = 0; i < WIRE_FDS_MAX; i++)
        message->fds[i] = -1;
    message->fd_count = 0;
    do
        got = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        if (errno == EAGAIN)
            return TS_AGAIN;
        return errno == ECONNRESET ? TS_ERR_GONE : TS_ERR_SYSTEM;
    }
    fds = wire_collect_fds(&packet, message);
    if (got == 0 && message->fd_count == 0)
        return TS_ERR_GONE;
    if ((packet.msg_flags & MSG_TRUNC) != 0 || fds == TS_ERR_PROTOCOL)
        rc = TS_ERR_PROTOCOL;
    else if (fds == TS_ERR_LIMIT)
        rc = wire_header_check(message, (size_t)got) == TS_OK ? TS_ERR_LIMIT : TS_ERR_PROTOCOL;
    else
        rc = wire_message_check(message, (size_t)got);
    if (rc != TS_OK)
        wire_message_close(message);
    return rc;
}
