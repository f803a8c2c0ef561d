#include "tests/harness/worker/peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"

void peer_connect(struct peer *peer, struct host *host)
{
    int pair[2];

    memset(peer, 0, sizeof(*peer));
    peer->host = host;
    host_stream_pair(pair);
    peer->socket = pair[0];
    peer->endpoint = host_endpoint_tcp(host, "peer", PEER_ID, pair[1]);
}

void peer_leave(struct peer *peer)
{
    if (peer->socket >= 0)
        close(peer->socket);
    peer->socket = -1;
}

void peer_end(struct peer *peer)
{
    peer_leave(peer);
    host_end_endpoints(peer->host);
}

static void bytes_send(struct peer *peer, const void *bytes, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t sent = send(peer->socket, (const uint8_t *)bytes + done, size - done,
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        host_require(sent > 0 || errno == EAGAIN, "a host that listens");
        if (sent > 0)
            done += (size_t)sent;
        host_turn(peer->host);
    }
}

void peer_send(struct peer *peer, const struct frame *frame, const void *payload)
{
    bytes_send(peer, frame, sizeof(*frame));
    if (payload != NULL)
        bytes_send(peer, payload, frame->length);
    host_turn(peer->host);
}

bool peer_take(struct peer *peer)
{
    size_t size = sizeof(peer->frame);
    ssize_t got = recv(peer->socket, peer->bytes + peer->have, sizeof(peer->bytes) - peer->have,
                       MSG_DONTWAIT);

    if (got > 0)
        peer->have += (size_t)got;
    if (peer->have < size)
        return false;
    memcpy(&peer->frame, peer->bytes, size);
    host_require(peer->frame.length <= sizeof(peer->payload), "a frame of a size that is in use");
    if (peer->have < size + peer->frame.length)
        return false;
    memcpy(peer->payload, peer->bytes + size, peer->frame.length);
    size += peer->frame.length;
    peer->have -= size;
    memmove(peer->bytes, peer->bytes + size, peer->have);
    return true;
}

const struct frame *peer_expect(struct peer *peer, enum frame_type type)
{
    char what[64];

    host_until(peer_take(peer));
    snprintf(what, sizeof(what), "frame %d came where %d was due", peer->frame.type, (int)type);
    host_require(peer->frame.type == type, what);
    return &peer->frame;
}

bool peer_is_quiet(struct peer *peer)
{
    for (int i = 0; i < 8; i++) {
        host_turns(1);
        if (peer_take(peer))
            return false;
    }
    return true;
}
