/* A job that writes whatever it likes into its channel while the worker reads it. */
#include "tests/fuzz/endpoint_fixture.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fixture_start(host_config("fuzzed"));
    return 0;
}

/* Places in the segment that matter; anything else is reached by SCRIBBLE_ANY. */
enum place {
    SCRIBBLE_SQ_TAIL,
    SCRIBBLE_SQ_HEAD,
    SCRIBBLE_CQ_HEAD,
    SCRIBBLE_NTX_TAIL,
    SCRIBBLE_NRX_HEAD,
    SCRIBBLE_SQE,
    SCRIBBLE_NTX,
    SCRIBBLE_JOURNAL,
    SCRIBBLE_ANY,
    SCRIBBLE_PLACES
};

/* place, then where (16 bits), then how many bytes follow. */
struct scribble {
    uint8_t place, size;
    uint16_t at;
};

static uint8_t *place_of(const struct scribble *scribble)
{
    struct channel_map *map = &fixture.job.main.map;
    struct channel_header *header = map->header;

    switch (scribble->place % SCRIBBLE_PLACES) {
    case SCRIBBLE_SQ_TAIL:
        return (uint8_t *)&header->sq_words.tail;
    case SCRIBBLE_SQ_HEAD:
        return (uint8_t *)&header->sq_words.head;
    case SCRIBBLE_CQ_HEAD:
        return (uint8_t *)&header->cq_words.head;
    case SCRIBBLE_NTX_TAIL:
        return (uint8_t *)&header->ntx_words.tail;
    case SCRIBBLE_NRX_HEAD:
        return (uint8_t *)&header->nrx_words.head;
    case SCRIBBLE_SQE:
        return (uint8_t *)header + map->sq.offset +
               scribble->at % FIXTURE_SLOTS * sizeof(struct sqe);
    case SCRIBBLE_NTX:
        return (uint8_t *)header + map->ntx.offset + scribble->at % 64 * 8;
    case SCRIBBLE_JOURNAL:
        return (uint8_t *)map->journal + scribble->at % (FIXTURE_SLOTS * sizeof(*map->journal));
    default:
        return (uint8_t *)header + scribble->at % (map->size - 256);
    }
}

static void scribbles_run(const uint8_t *data, size_t size)
{
    struct scribble scribble;

    while (size >= sizeof(scribble)) {
        memcpy(&scribble, data, sizeof(scribble));
        data += sizeof(scribble);
        size -= sizeof(scribble);
        size_t bytes = scribble.size % 65 < size ? scribble.size % 65 : size;
        memcpy(place_of(&scribble), data, bytes);
        data += bytes;
        size -= bytes;
        if (scribble.size >= 128) /* else more comes before the worker looks */
            host_turns(1);
    }
    host_turns(2);
}

/* The next worker takes the same rings over, as after a crash. */
static void channel_adopt(int fd)
{
    const struct proto_channel ask = {.slots = FIXTURE_SLOTS, .adopt = 1};

    channel_delete(fixture_channel());
    (void)channel_add(fixture.job.session, &ask, fd, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                      eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

/* The job's mapping is of a descriptor that the fixture has closed; this is the same file. */
static int channel_reopen(void)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx",
             (unsigned long)fixture.job.main.map.header,
             (unsigned long)fixture.job.main.map.header + fixture.job.main.map.size);
    return open(path, O_RDWR | O_CLOEXEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct endpoint *endpoint;
    int pair[2], fd = -1;

    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    fixture_attach();
    endpoint = peer_endpoint();
    endpoint->link = tcp_link_open(endpoint, pair[1]);
    endpoint_handle(endpoint, ENDPOINT_EVENT_ACCEPTED, TS_OK, "");
    peer_remote(endpoint, true);
    scribbles_run(data + 1, size - 1);
    if ((data[0] & 1) != 0)
        fd = channel_reopen();
    if (fd >= 0 && !fixture.job.session->killed) {
        channel_adopt(fd);
        host_turns(2);
    } else if (fd >= 0) {
        close(fd);
    }
    fixture_detach();
    close(pair[0]);
    host_turns(4);
    fixture_expect_nothing();
    return 0;
}
