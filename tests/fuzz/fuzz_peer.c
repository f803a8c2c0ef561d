/* Everything that a peer with the key can send over TCP to a worker whose job is at work. */
#include "tests/fuzz/peer_fixture.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fixture_start(host_config("fuzzed"));
    return 0;
}

static void bytes_send(int fd, const void *bytes, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t sent =
            send(fd, (const uint8_t *)bytes + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        host_turns(1);
        if (sent < 0)
            return; /* it has hung up, or reads no more because we read no answers */
        done += (size_t)sent;
    }
}

static void answers_drop(int fd)
{
    static uint8_t bytes[65536];

    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

static void script_run(int fd, const uint8_t *data, size_t size)
{
    static uint8_t payload[UINT16_MAX];
    struct step step;

    for (; size >= sizeof(step); data += sizeof(step), size -= sizeof(step)) {
        memcpy(&step, data, sizeof(step));
        if (step.type >= STEP_SUBMIT) {
            peer_do(&step);
            continue;
        }
        struct frame frame = peer_frame(&step, payload);
        bytes_send(fd, &frame, sizeof(frame));
        bytes_send(fd, payload, frame.length);
        if (step.type != FRAME_CANCEL)
            answers_drop(fd);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct endpoint *endpoint;
    int pair[2];

    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    fixture_attach();
    endpoint = peer_endpoint();
    endpoint->link = tcp_link_open(endpoint, pair[1]);
    endpoint_handle(endpoint, ENDPOINT_EVENT_ACCEPTED, TS_OK, "");
    if ((data[0] & 2) != 0)
        peer_remote(endpoint, (data[0] & 4) != 0);
    if ((data[0] & 1) != 0)
        bytes_send(pair[0], data + 1, size - 1); /* raw bytes */
    else
        script_run(pair[0], data + 1, size - 1);
    host_turns(4);
    if ((data[0] & 8) != 0) { /* the peer goes first, or the job */
        close(pair[0]);
        host_turns(4);
    }
    fixture_detach();
    if ((data[0] & 8) == 0)
        close(pair[0]);
    host_turns(4);
    fixture_expect_nothing();
    return 0;
}
