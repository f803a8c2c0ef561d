/* A worker of the same host that writes whatever it likes into the rings and the socket of a local
 * link. */
#include "tests/fuzz/peer_fixture.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEP_RING = STEP_END, STEP_EXPORT, STEP_PACKET, STEP_WORDS };

static struct channel_map rings;
static struct ring_producer out;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fixture_start(host_config("fuzzed"));
    return 0;
}

static struct endpoint *link_open(int *socket)
{
    const struct channel_shape shape = {
        .slots = 16, .notify_max = HOST_NOTIFY_MAX, .mailbox = true};
    struct endpoint *endpoint = peer_endpoint();
    char text[PROTO_TEXT_MAX] = "";
    int fds[3], pair[2];

    host_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0, "socket");
    fds[0] = channel_create(&shape);
    fds[1] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    fds[2] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    host_require(channel_map(fds[0], &rings) == TS_OK, "rings");
    ring_producer_init(&out, &rings.header->ntx_words, channel_bytes(&rings, &rings.ntx),
                       rings.ntx.size, rings.ntx.start);
    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
    endpoint->link = local_link_open(endpoint, pair[1], fds, false, text, sizeof(text));
    host_require(endpoint->link != NULL, text);
    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKED, TS_OK, "");
    *socket = pair[0];
    return endpoint;
}

static void ring_send(const struct step *step)
{
    static uint8_t payload[UINT16_MAX];
    const struct frame frame = peer_frame(step, payload);
    struct notify_record record = {.kind = step->flags & 0x40 ? step->flags & 3 : 1,
                                   .name_len = sizeof(frame),
                                   .msg_len = frame.length};
    uint8_t *at;

    /* Claims by its own counter only: what the worker took is not our concern. */
    out.head = atomic_observe(&rings.header->ntx_words.head);
    record.size = (uint32_t)ring_record_size(0, record.name_len, record.msg_len);
    if (ring_record_claim(&out, record.size, &at) != TS_OK)
        return;
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), &frame, sizeof(frame));
    memcpy(at + sizeof(record) + sizeof(frame), payload, frame.length);
    ring_producer_publish(&out);
}

/* Memory that the worker had asked for, or had not. */
static void export_send(int socket, const struct step *step)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_REGION_ADD);
    message.header.session = peer_handle(step->request);
    message.body.region = (struct proto_region){.handle = peer_handle(step->region),
                                                .kind = step->flags & 3,
                                                .access = step->flags >> 4,
                                                .base = peer_number(step->value),
                                                .offset = peer_number(step->offset),
                                                .length = step->length};
    if ((step->flags & 4) != 0) {
        /* its own address space, which it must not change */
        message.fds[0] = (step->flags & 8) != 0 ? open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
                                                : dup(fixture.shrunk);
        message.fd_count = 1;
    }
    (void)wire_send(socket, &message);
    wire_message_close(&message);
}

static void words_write(const struct step *step)
{
    uint8_t *words = (uint8_t *)&rings.header->sq_words;
    uint64_t value = peer_number(step->value) + atomic_peek(&rings.header->ntx_words.tail);

    memcpy(words + step->length % (sizeof(struct ring_shared) * 4 - 8), &value, sizeof(value));
}

static void step_run(int socket, const struct step *step, const uint8_t *rest, size_t left)
{
    switch (step->type) {
    case STEP_EXPORT:
        export_send(socket, step);
        break;
    case STEP_PACKET:
        (void)send(socket, rest, step->length % 64 < left ? step->length % 64 : left,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case STEP_WORDS:
        words_write(step);
        break;
    default:
        if (step->type < STEP_SUBMIT)
            ring_send(step);
        else
            peer_do(step);
        break;
    }
    host_turns(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct endpoint *endpoint;
    struct step step;
    int socket;

    if (size < 2)
        return 0;
    fixture_attach();
    endpoint = link_open(&socket);
    if ((data[0] & 2) != 0)
        peer_remote(endpoint, (data[0] & 4) != 0);
    for (size_t at = 1; at + sizeof(step) <= size; at += sizeof(step)) {
        memcpy(&step, data + at, sizeof(step));
        step_run(socket, &step, data + at, size - at);
    }
    host_turns(4);
    if ((data[0] & 8) == 0)
        fixture_detach();
    close(socket);
    host_turns(4);
    if ((data[0] & 8) != 0)
        fixture_detach();
    host_turns(4);
    channel_unmap(&rings);
    fixture_expect_nothing();
    return 0;
}
