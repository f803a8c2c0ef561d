/* The local protocol: one packet as any process may send it, with up to four descriptors. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int pair[2] = {-1, -1};

/* The packet as it is, not as wire_send would make it. */
static void packet_send(const uint8_t *bytes, size_t size, size_t fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 4)];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

    if (fds > 0) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = CMSG_SPACE(sizeof(int) * fds);
        struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fds);
        for (size_t i = 0; i < fds; i++)
            memcpy(CMSG_DATA(header) + i * sizeof(int), &pair[0], sizeof(int));
    }
    (void)sendmsg(pair[0], &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_message message;
    int next, rc;

    if (size < 1)
        return 0;
    if (pair[0] < 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    packet_send(data + 1, size - 1, data[0] % 5);
    rc = wire_receive(pair[1], &message);
    if (rc == TS_OK) {
        if (wire_message_check(&message, size - 1) != TS_OK)
            abort();
        wire_message_close(&message);
    }
    /* Whatever came, no descriptor stays open: the next one gets the lowest free number again. */
    next = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
    if (next > pair[1] + 8)
        abort();
    close(next);
    return 0;
}
