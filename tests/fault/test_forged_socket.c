/* Hostile bytes on the job socket: the connection ends at most, with a counter, and nothing is left
 * of it in supervisor or worker. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "tests/fault/forged_fixture.h"
#include "tests/harness/forge.h"
#include "tests/harness/process.h"
#include "tests/harness/wait.h"

#define HANGUP_MS  3000u
#define SILENCE_MS 5000u /* how long a connection may say nothing */
#define MEMORY     65536u
#define ATTACHES   (TEST_SANITIZED ? 1000u : 10000u)

static int group_setup(void **state)
{
    return forged_group_setup(state, &left, "--fabric tcp");
}

/* Of the supervisor and its worker; answers in flight make it unsteady, so it must settle. */
static size_t descriptors(void)
{
    return process_fd_count(left.pid) + process_fd_count(worker);
}

static void descriptors_expect(size_t before)
{
    struct wait wait = wait_begin("descriptors are closed again", WAIT_MS);

    while (descriptors() > before)
        wait_step(&wait);
}

/* ---- before HELLO ---- */

static void packet_expect_hangup(const void *bytes, size_t size, const int *fds, size_t fd_count)
{
    uint64_t refused = status_supervisor_count(&left, "attach_refused");
    int fd = forge_connect(&left);

    forge_packet(fd, bytes, size, fds, fd_count);
    forge_expect_hangup(fd, HANGUP_MS);
    close(fd);
    assert_true(status_supervisor_count(&left, "attach_refused") > refused);
}

static void hello_expect_hangup(const struct wire_message *hello, size_t size)
{
    uint8_t bytes[sizeof(hello->header) + WIRE_PAYLOAD_MAX];

    memcpy(bytes, &hello->header, sizeof(hello->header));
    memcpy(bytes + sizeof(hello->header), &hello->body, WIRE_PAYLOAD_MAX);
    packet_expect_hangup(bytes, size, NULL, 0);
}

static void test_malformed_hello(void **state)
{
    const size_t whole = sizeof(struct wire_header) + sizeof(struct proto_hello);
    struct wire_message message;

    (void)state;
    packet_expect_hangup("GET / HTTP/1.1\r\n\r\n", 18, NULL, 0);
    packet_expect_hangup("x", 1, NULL, 0);
    forge_hello(&message, NULL);
    hello_expect_hangup(&message, whole - 1);
    hello_expect_hangup(&message, whole + 1);
    hello_expect_hangup(&message, sizeof(message.header) + WIRE_PAYLOAD_MAX);
    message.header.magic ^= 1;
    hello_expect_hangup(&message, whole);
    forge_hello(&message, NULL);
    message.header.version++;
    hello_expect_hangup(&message, whole);
    forge_hello(&message, NULL);
    message.header.length = UINT32_MAX;
    hello_expect_hangup(&message, whole);
    forge_hello(&message, NULL);
    message.header.type = WIRE_TYPE_COUNT;
    hello_expect_hangup(&message, whole);
    message.header.type = WIRE_NONE;
    hello_expect_hangup(&message, whole);
    others_expect_unharmed();
}

static void test_descriptors_with_hello(void **state)
{
    struct wire_message message;
    int fds[16];
    size_t before = descriptors();

    (void)state;
    for (size_t i = 0; i < 16; i++)
        fds[i] = STDIN_FILENO;
    forge_hello(&message, NULL);
    for (size_t count = 1; count <= 16; count += 5)
        packet_expect_hangup(&message, sizeof(message.header) + message.header.length, fds, count);
    descriptors_expect(before);
}

static void test_request_before_hello(void **state)
{
    struct wire_message message;

    (void)state;
    for (enum wire_type type = WIRE_CHANNEL_OPEN; type < WIRE_TYPE_COUNT; type++) {
        int fds[3] = {STDIN_FILENO, STDIN_FILENO, STDIN_FILENO};
        uint8_t bytes[sizeof(message.header) + WIRE_PAYLOAD_MAX];
        size_t need =
            type == WIRE_CHANNEL_READY || type == WIRE_CHANNEL_ADD ? 3
            : type == WIRE_WORKER_CONFIG || type == WIRE_SESSION_ADD || type == WIRE_PEER_SOCKET
                ? 1
                : 0;

        wire_message_init(&message, type);
        if (type == WIRE_LOCAL_LINK)
            memset(&message.body, 0xff, sizeof(message.body.link)); /* a worker that is not there */
        memcpy(bytes, &message.header, sizeof(message.header));
        memcpy(bytes + sizeof(message.header), &message.body, message.header.length);
        packet_expect_hangup(bytes, sizeof(message.header) + message.header.length, fds, need);
    }
    others_expect_unharmed();
}

static void hello_expect_status(const struct wire_message *hello, int status)
{
    struct wire_message answer;
    int fd = forge_connect(&left);

    assert_int_equal(wire_send(fd, hello), TS_OK);
    forge_receive(fd, &answer);
    assert_int_equal(answer.header.type, WIRE_WELCOME);
    assert_int_equal(answer.body.welcome.status, status);
    assert_true(answer.body.welcome.text[0] != '\0'); /* a refusal comes with its sentence */
    wire_message_close(&answer);
    forge_expect_hangup(fd, HANGUP_MS);
    close(fd);
}

static void test_hello_with_bad_words(void **state)
{
    struct wire_message message;

    (void)state;
    forge_hello(&message, NULL);
    message.body.hello.abi_major++;
    hello_expect_status(&message, TS_ERR_VERSION);
    forge_hello(&message, NULL);
    message.body.hello.features = 0; /* a library that is too old for our channels */
    hello_expect_status(&message, TS_ERR_VERSION);
    forge_hello(&message, NULL);
    message.body.hello.slots = 17;
    hello_expect_status(&message, TS_ERR_INVALID);
    message.body.hello.slots = UINT32_MAX;
    hello_expect_status(&message, TS_ERR_INVALID);
    forge_hello(&message, NULL);
    message.body.hello.flags = UINT32_MAX;
    hello_expect_status(&message, TS_ERR_INVALID);
    forge_hello(&message, "a name\nwith a line");
    hello_expect_status(&message, TS_ERR_INVALID);
    forge_hello(&message, NULL);
    memset(message.body.hello.segment, 'a', PROTO_LABEL_MAX); /* no NUL */
    memset(message.body.hello.pair, 'b', PROTO_LABEL_MAX);
    hello_expect_status(&message, TS_ERR_NOT_FOUND);
    others_expect_unharmed();
}

static void test_silent(void **state)
{
    uint64_t began = wait_now_ms();
    int fds[8];

    (void)state;
    for (int i = 0; i < 8; i++)
        fds[i] = forge_connect(&left);
    for (int i = 0; i < 8; i++) {
        forge_expect_hangup(fds[i], SILENCE_MS + HANGUP_MS);
        close(fds[i]);
    }
    assert_true(wait_now_ms() - began >= SILENCE_MS - 500);
    others_expect_unharmed();
}

/* ---- after HELLO ---- */

static void attached_expect_hangup(const struct wire_message *message)
{
    struct forge forge;

    forge_attach(&forge, &left, NULL);
    assert_int_equal(wire_send(forge.socket, message), TS_OK);
    forge_expect_hangup(forge.socket, HANGUP_MS);
    forge_leave(&forge);
}

static void test_out_of_turn(void **state)
{
    const enum wire_type types[] = {WIRE_HELLO,       WIRE_WELCOME,     WIRE_REPLY,
                                    WIRE_SESSION_DEL, WIRE_DRAIN,       WIRE_WORKER_READY,
                                    WIRE_LOCAL_LINK,  WIRE_SESSION_KILL};
    struct wire_message message;
    size_t before = descriptors();

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        wire_message_init(&message, types[i]);
        attached_expect_hangup(&message);
    }
    descriptors_expect(before);
    others_expect_unharmed();
}

/* ---- regions ---- */

static void region_expect(struct forge *forge, int fd, uint64_t length, uint32_t access, int status)
{
    uint32_t handle;
    int got = forge_region(forge, fd, length, access, &handle);

    if (got != status)
        fail_msg("length %llu: '%s' instead of '%s'", (unsigned long long)length, err_name(got),
                 err_name(status));
}

static int reopened_read_only(int fd)
{
    char path[32];
    int again;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(again >= 0);
    return again;
}

static void test_region_files(void **state)
{
    int sealed = segment_create("forged", MEMORY), plain = memfd_create("forged", MFD_CLOEXEC);
    int reader = reopened_read_only(sealed), write_only, ends[2];
    char path[DAEMON_PATH];
    struct forge forge;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(ftruncate(plain, MEMORY), 0);
    snprintf(path, sizeof(path), "%s/write-only.log", daemon_directory());
    write_only = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(write_only >= 0 && ftruncate(write_only, MEMORY) == 0);
    forge_attach(&forge, &left, NULL);
    region_expect(&forge, sealed, MEMORY, 3, TS_OK);
    region_expect(&forge, plain, MEMORY, 3, TS_OK);
    region_expect(&forge, sealed, MEMORY + 1, 3, TS_ERR_INVALID); /* smaller than said */
    region_expect(&forge, plain, UINT64_MAX, 3, TS_ERR_INVALID);
    region_expect(&forge, sealed, 0, 3, TS_ERR_INVALID);
    region_expect(&forge, ends[0], MEMORY, 3, TS_ERR_INVALID); /* not a file */
    region_expect(&forge, forge.socket, MEMORY, 3, TS_ERR_INVALID);
    region_expect(&forge, reader, MEMORY, REGION_ACCESS_READ, TS_OK);
    region_expect(&forge, reader, MEMORY, REGION_ACCESS_WRITE, TS_ERR_DENIED);
    region_expect(&forge, write_only, MEMORY, REGION_ACCESS_READ, TS_ERR_SYSTEM);
    forge_leave(&forge);
    close(sealed);
    close(plain);
    close(reader);
    close(write_only);
    close(ends[0]);
    close(ends[1]);
    others_expect_unharmed();
}

static int region_packet_status(struct forge *forge, const struct proto_region *region,
                                const int *fds, size_t fd_count)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_REGION_ADD);
    message.header.id = 77;
    message.body.region = *region;
    forge_packet(forge->socket, &message, sizeof(message.header) + message.header.length, fds,
                 fd_count);
    forge_receive(forge->socket, &message);
    wire_message_close(&message);
    return message.body.reply.status;
}

static void test_region_descriptors(void **state)
{
    int fd = segment_create("forged", MEMORY);
    const int fds[3] = {fd, fd, fd};
    struct proto_region region = {.kind = REGION_KIND_SHARED, .access = 3, .length = MEMORY};
    struct wire_message message;
    size_t before = descriptors();
    struct forge forge;

    (void)state;
    forge_attach(&forge, &left, NULL);
    assert_int_equal(region_packet_status(&forge, &region, fds, 0), TS_ERR_INVALID);
    region.offset = UINT64_MAX - 10; /* offset + length overflows */
    assert_int_equal(region_packet_status(&forge, &region, fds, 1), TS_ERR_INVALID);
    region.offset = 8;
    assert_int_equal(region_packet_status(&forge, &region, fds, 1), TS_ERR_INVALID);
    region = (struct proto_region){.kind = REGION_KIND_PRIVATE, .access = 3, .length = MEMORY};
    assert_int_equal(region_packet_status(&forge, &region, fds, 1), TS_ERR_INVALID);
    region.base = 4096; /* nothing is mapped there */
    assert_int_equal(region_packet_status(&forge, &region, fds, 0), TS_ERR_FAULT);
    region.base = UINT64_MAX - 10;
    assert_int_equal(region_packet_status(&forge, &region, fds, 0), TS_ERR_INVALID);
    region.kind = 99;
    assert_true(region_packet_status(&forge, &region, fds, 0) < 0);
    /* Two descriptors are one too many: a broken message ends the job. */
    wire_message_init(&message, WIRE_REGION_ADD);
    forge_packet(forge.socket, &message, sizeof(message.header) + message.header.length, fds, 2);
    forge_expect_hangup(forge.socket, HANGUP_MS);
    forge_leave(&forge);
    descriptors_expect(before);
    close(fd);
    others_expect_unharmed();
}

static void test_strange_handles(void **state)
{
    const enum wire_type types[] = {WIRE_CHANNEL_CLOSE, WIRE_REGION_DEL, WIRE_REMOTE_CLOSE,
                                    WIRE_REMOTE_WATCH};
    const uint32_t handles[] = {0, 1, 63, 64, 1u << 14, 5u << 14 | 3, UINT32_MAX};
    struct wire_message message;
    struct forge forge;

    (void)state;
    forge_attach(&forge, &left, NULL);
    for (size_t type = 0; type < sizeof(types) / sizeof(types[0]); type++) {
        for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
            wire_message_init(&message, types[type]);
            message.body.handle.handle = handles[i];
            assert_true(forge_ask(&forge, &message) < 0);
        }
    }
    forge_leave(&forge);
    others_expect_unharmed();
}

/* ---- answers that nobody reads ---- */

static void test_never_reads_replies(void **state)
{
    struct wire_message message;
    struct wait wait = wait_begin("the supervisor gives up a job that reads nothing", WAIT_MS);
    struct forge forge;
    int rc;

    (void)state;
    forge_attach(&forge, &left, NULL);
    wire_message_init(&message, WIRE_REGION_DEL);
    while ((rc = wire_send(forge.socket, &message)) == TS_OK || rc == TS_AGAIN)
        wait_step(&wait);
    assert_int_equal(rc, TS_ERR_GONE);
    forge_leave(&forge);
    others_expect_unharmed();
}

/* ---- many ---- */

static void test_many_attaches(void **state)
{
    struct wait wait = wait_begin("the first of them is gone", WAIT_MS);
    struct wire_message message;
    struct forge forge;
    size_t before;

    (void)state;
    forge_attach(&forge, &left, NULL); /* what is made once is made */
    forge_leave(&forge);
    while (status_sessions(&left) > 1 || status_worker_count(&left, "sessions") > 1)
        wait_step(&wait);
    before = descriptors();
    for (unsigned i = 0; i < ATTACHES; i++) {
        bool polite = i % 2 == 0;

        /* Who waited for the hang-up can have the same name again; others just go. */
        forge_attach(&forge, &left, polite ? "again-and-again" : NULL);
        if (polite) {
            wire_message_init(&message, WIRE_BYE);
            (void)wire_send(forge.socket, &message);
            forge_expect_hangup(forge.socket, HANGUP_MS);
        }
        forge_leave(&forge);
    }
    descriptors_expect(before);
    assert_int_equal(status_worker_count(&left, "sessions"), 1);
    assert_int_equal(status_worker_count(&left, "channels"), 1);
    others_expect_unharmed();
}

/* More connections than the supervisor keeps: the oldest that say nothing make way. */
static void test_many_silent(void **state)
{
    size_t before = descriptors();
    int fds[400];

    (void)state;
    for (size_t i = 0; i < 400; i++)
        fds[i] = forge_connect(&left);
    others_expect_unharmed();
    forge_expect_hangup(fds[0], HANGUP_MS);
    for (size_t i = 0; i < 400; i++)
        close(fds[i]);
    descriptors_expect(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_hello),
        cmocka_unit_test(test_descriptors_with_hello),
        cmocka_unit_test(test_request_before_hello),
        cmocka_unit_test(test_hello_with_bad_words),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_out_of_turn),
        cmocka_unit_test(test_region_files),
        cmocka_unit_test(test_region_descriptors),
        cmocka_unit_test(test_strange_handles),
        cmocka_unit_test(test_never_reads_replies),
        cmocka_unit_test(test_many_attaches),
        cmocka_unit_test(test_many_silent),
    };

    return cmocka_run_group_tests_name("forged socket", tests, group_setup, group_teardown);
}
