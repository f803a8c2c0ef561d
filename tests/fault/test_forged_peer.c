/* Strangers and forgers on the peer port: their connection ends, or they get an error, and it is
 * counted.  Jobs on both sides go on, over connections that are none of theirs. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "shm/err.h"
#include "shm/table.h"
#include "tests/fault/forged_fixture.h"
#include "tests/harness/process.h"
#include "tests/harness/rawpeer.h"
#include "tests/harness/wait.h"

#define HANGUP_MS    3000u
#define HANDSHAKE_MS 1000u
#define MEMORY       65536u
#define REQUEST      (3u << TABLE_INDEX_BITS | 5u) /* a handle of ours, as the worker sees it */

/* A job of `right` whose memory the forgers go for. */
struct victim_board {
    char name[LAYOUT_NAME_MAX], segment[PROTO_LABEL_MAX];
    tesup_region_t open, readable, closed, deleted;
    _Atomic uint64_t ready, end, received;
};
static struct victim_board *victim;
static struct job victim_job;

static void victim_run(void *argument)
{
    struct victim_board *board = argument;
    struct party_region open, readable, closed, deleted;
    struct tesup_notification note;
    struct party party;

    party_attach(&party, &right, "victim");
    party_region_create(&party, PARTY_MEMORY_ALLOC, MEMORY,
                        TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE, &open);
    party_region_create(&party, PARTY_MEMORY_ALLOC, MEMORY, TESUP_ACCESS_REMOTE_READ, &readable);
    party_region_create(&party, PARTY_MEMORY_ALLOC, MEMORY, TESUP_ACCESS_LOCAL, &closed);
    party_region_create(&party, PARTY_MEMORY_ALLOC, MEMORY, TESUP_ACCESS_REMOTE_WRITE, &deleted);
    board->deleted = deleted.handle;
    party_region_free(&party, &deleted);
    memset(readable.bytes, 7, MEMORY);
    memset(closed.bytes, 7, MEMORY);
    board->open = open.handle;
    board->readable = readable.handle;
    board->closed = closed.handle;
    snprintf(board->name, sizeof(board->name), "%s", tesup_segment_name(party.session));
    atomic_publish(&board->ready, 1);
    while (atomic_observe(&board->end) == 0) {
        if (tesup_notify_peek(party.channel, &note) == TESUP_OK) {
            atomic_count(&board->received, 1);
            party_check(tesup_notify_release(party.channel), "release");
        }
        wait_sleep_ms(1);
    }
    party_verify_byte(readable.bytes, MEMORY, 7, "memory that is read-only for peers");
    party_verify_byte(closed.bytes, MEMORY, 7, "memory that is not for peers");
    party_detach(&party);
}

static int group_setup(void **state)
{
    if (forged_group_setup(state, &right, "--fabric tcp --handshake-timeout 1s") < 0)
        return -1;
    victim = job_board_create(sizeof(*victim));
    job_start(&victim_job, "victim", victim_run, victim);
    wait_word(&victim->ready, 1, "the victim");
    return 0;
}

static int victim_teardown(void **state)
{
    atomic_publish(&victim->end, 1);
    job_expect_success(&victim_job, WAIT_MS);
    job_board_free(victim, sizeof(*victim));
    return group_teardown(state);
}

/* ---- strangers ---- */

static void stranger_try(const void *bytes, size_t size, const char *counter)
{
    uint64_t before = status_supervisor_count(&right, counter);
    struct rawpeer peer;

    rawpeer_connect(&peer, &right);
    rawpeer_send(&peer, bytes, size);
    rawpeer_expect_hangup(&peer, HANDSHAKE_MS + HANGUP_MS);
    rawpeer_close(&peer);
    assert_int_equal(status_supervisor_count(&right, counter), before + 1);
}

static void test_strangers(void **state)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const uint8_t tls[] = {0x16, 3, 1, 0, 0xc8, 1, 0, 0, 0xc4, 3, 3};
    static const uint8_t large[] = {'T', 'S', 'P', 'H', 1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t proof_first[] = {'T', 'S', 'P', 'H', 1, 0, 3, 0, 32, 0, 0, 0};

    (void)state;
    stranger_try(http, sizeof(http) - 1, "peers_refused_protocol");
    stranger_try(tls, sizeof(tls), "peers_refused_protocol");
    stranger_try(large, sizeof(large), "peers_refused_protocol");
    stranger_try(proof_first, sizeof(proof_first), "peers_refused_protocol");
    others_expect_unharmed();
}

static void test_silence_and_half_a_frame(void **state)
{
    uint64_t began;

    (void)state;
    began = wait_now_ms();
    stranger_try("", 0, "peers_timed_out");
    assert_true(wait_now_ms() - began >= HANDSHAKE_MS - 100);
    stranger_try("TSPH\1\0\1\0", 8, "peers_timed_out");
    stranger_try("TS", 2, "peers_timed_out");
    others_expect_unharmed();
}

static void test_half_a_handshake(void **state)
{
    uint64_t before = status_supervisor_count(&right, "peers_timed_out");
    struct rawpeer peer;

    (void)state;
    rawpeer_connect(&peer, &right);
    rawpeer_hello(&peer, "victim");
    rawpeer_expect_hangup(&peer, HANDSHAKE_MS + HANGUP_MS);
    rawpeer_close(&peer);
    assert_int_equal(status_supervisor_count(&right, "peers_timed_out"), before + 1);
    others_expect_unharmed();
}

static void test_wrong_key(void **state)
{
    uint64_t before = status_supervisor_count(&right, "peers_refused_auth");
    struct rawpeer peer;

    (void)state;
    rawpeer_connect(&peer, &right);
    peer.key[0] ^= 1;
    rawpeer_hello(&peer, "victim");
    rawpeer_proof(&peer);
    rawpeer_expect_hangup(&peer, HANGUP_MS);
    rawpeer_close(&peer);
    assert_int_equal(status_supervisor_count(&right, "peers_refused_auth"), before + 1);
    others_expect_unharmed();
}

/* What was recorded on the way of a good handshake does not fit the next nonce. */
static void test_replay(void **state)
{
    uint64_t before = status_supervisor_count(&right, "peers_refused_auth");
    struct rawpeer good, replay;

    (void)state;
    rawpeer_shake(&good, &right, "victim");
    rawpeer_connect(&replay, &right);
    rawpeer_send(&replay, good.hello, good.hello_size);
    rawpeer_send(&replay, good.proof, good.proof_size);
    rawpeer_expect_hangup(&replay, HANGUP_MS);
    rawpeer_close(&replay);
    rawpeer_close(&good);
    assert_int_equal(status_supervisor_count(&right, "peers_refused_auth"), before + 1);
    others_expect_unharmed();
}

static void test_unknown_segment(void **state)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    struct handshake_welcome welcome;
    struct rawpeer peer;
    ssize_t got;

    (void)state;
    rawpeer_connect(&peer, &right);
    rawpeer_hello(&peer, "nobody-has-this");
    rawpeer_proof(&peer);
    got = recv(peer.socket, bytes, sizeof(bytes), 0);
    assert_true(got > 0);
    assert_int_equal(handshake_welcome_read(bytes, (size_t)got, peer.key, peer.hello,
                                            peer.hello_size, peer.challenge, &welcome),
                     TS_OK);
    assert_int_equal(welcome.status, TS_ERR_NOT_FOUND);
    rawpeer_expect_hangup(&peer, HANGUP_MS);
    rawpeer_close(&peer);
}

static void test_many_strangers(void **state)
{
    struct rawpeer peers[200];

    (void)state;
    for (size_t i = 0; i < 200; i++)
        rawpeer_connect(&peers[i], &right);
    others_expect_unharmed();
    for (size_t i = 0; i < 200; i++) {
        rawpeer_expect_hangup(&peers[i], HANDSHAKE_MS + HANGUP_MS);
        rawpeer_close(&peers[i]);
    }
    others_expect_unharmed();
}

/* ---- forgers with the key: frames that end the connection ---- */

static void frame_expect_hangup(const struct frame *frame, const void *payload)
{
    uint64_t before = status_worker_count(&right, "peer_protocol");
    struct rawpeer peer;

    rawpeer_shake(&peer, &right, "victim");
    assert_int_equal(rawpeer_open(&peer, "victim", (uint32_t)geteuid(), 1).status, TS_OK);
    rawpeer_frame(&peer, frame, payload);
    rawpeer_expect_hangup(&peer, HANGUP_MS);
    rawpeer_close(&peer);
    assert_int_equal(status_worker_count(&right, "peer_protocol"), before + 1);
}

static void test_frames_without_sense(void **state)
{
    static uint8_t payload[sizeof(struct frame_open)];
    struct frame_open *ask = (void *)payload;
    const struct frame frames[] = {
        {.type = FRAME_NONE},
        {.type = FRAME_TYPE_COUNT},
        {.type = 255},
        {.type = FRAME_OPEN}, /* no payload */
        {.type = FRAME_OPEN, .length = sizeof(struct frame_open) - 1},
        {.type = FRAME_NOTIFY, .length = FRAME_SMALL_MAX + 1},
        {.type = FRAME_NOTIFY, .length = UINT32_MAX},     /* 4 GiB */
        {.type = FRAME_NOTIFY, .length = 8, .region = 9}, /* name over the end */
        {.type = FRAME_WRITE, .length = FRAME_SLICE_MAX + 1},
        {.type = FRAME_WRITE, .length = 0},
        {.type = FRAME_READ, .length = 1, .value = 1},
        {.type = FRAME_RESULT, .status = 99},
        {.type = FRAME_RESULT, .status = -99},
        {.type = FRAME_EXPORT}, /* not over tcp */
        {.type = FRAME_REVOKE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
        frame_expect_hangup(&frames[i], NULL);
    const struct frame open = {.type = FRAME_OPEN, .length = sizeof(struct frame_open)};
    memset(ask, 'a', sizeof(*ask)); /* no NUL anywhere */
    frame_expect_hangup(&open, ask);
    memset(ask, 0, sizeof(*ask)); /* no name */
    frame_expect_hangup(&open, ask);
    others_expect_unharmed();
}

static void test_handles_that_were_never_given(void **state)
{
    const uint32_t handles[] = {0, UINT32_MAX, 2u << TABLE_INDEX_BITS, 1u << TABLE_INDEX_BITS | 99};
    uint8_t byte = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
        const uint32_t handle = handles[i];
        const struct frame frames[] = {
            {.type = FRAME_CLOSE, .open = handle},
            {.type = FRAME_NOTIFY, .open = handle},
            {.type = FRAME_WRITE, .open = handle, .request = REQUEST, .length = 1},
            {.type = FRAME_READ, .open = handle, .request = REQUEST, .value = 1},
            {.type = FRAME_OPENED, .request = handle},
            {.type = FRAME_GONE, .request = handle},
            {.type = FRAME_CREDIT, .request = handle, .value = 1},
            {.type = FRAME_RESULT, .request = handle},
            {.type = FRAME_DATA, .request = handle, .length = 1}, /* nobody asked for it */
        };

        for (size_t k = 0; k < sizeof(frames) / sizeof(frames[0]); k++)
            frame_expect_hangup(&frames[k], frames[k].length > 0 ? &byte : NULL);
    }
    others_expect_unharmed();
}

static void test_read_of_nothing(void **state)
{
    const struct frame frame = {.type = FRAME_READ, .request = REQUEST, .value = 0};

    (void)state;
    frame_expect_hangup(&frame, NULL);
}

static void test_half_a_frame_of_a_peer(void **state)
{
    struct rawpeer peer;

    (void)state;
    rawpeer_shake(&peer, &right, "victim");
    rawpeer_send(&peer, "half a frame", 12);
    others_expect_unharmed(); /* it may take its time; nobody waits for it */
    rawpeer_close(&peer);
    others_expect_unharmed();
}

/* ---- forgers with the key: frames that get an error ---- */

struct target {
    uint32_t region;
    uint64_t offset, length;
    uint8_t flags;
    int status;
};

static void target_write(const struct rawpeer *peer, uint32_t open, const struct target *target)
{
    static uint8_t bytes[MEMORY];
    const struct frame frame = {.type = FRAME_WRITE,
                                .flags = target->flags | FRAME_FLAG_LAST,
                                .open = open,
                                .request = REQUEST,
                                .region = target->region,
                                .offset = target->offset,
                                .length = (uint32_t)target->length};
    struct frame result;

    memset(bytes, 0xee, sizeof(bytes));
    rawpeer_frame(peer, &frame, bytes);
    result = rawpeer_wait(peer, FRAME_RESULT, NULL, 0);
    assert_int_equal(result.request, REQUEST);
    if (result.status != target->status)
        fail_msg("WRITE region %#x offset %llu: '%s' instead of '%s'", target->region,
                 (unsigned long long)target->offset, err_name(result.status),
                 err_name(target->status));
}

static void target_read(const struct rawpeer *peer, uint32_t open, const struct target *target)
{
    const struct frame frame = {.type = FRAME_READ,
                                .flags = target->flags,
                                .open = open,
                                .request = REQUEST,
                                .region = target->region,
                                .offset = target->offset,
                                .value = target->length};
    struct frame result;

    rawpeer_frame(peer, &frame, NULL);
    result = rawpeer_wait(peer, FRAME_RESULT, NULL, 0);
    if (result.status != target->status)
        fail_msg("READ region %#x offset %llu: '%s' instead of '%s'", target->region,
                 (unsigned long long)target->offset, err_name(result.status),
                 err_name(target->status));
}

static void test_targets(void **state)
{
    const struct target writes[] = {
        {victim->open, 0, 8, 0, TS_OK},
        {victim->readable, 0, 8, 0, TS_ERR_DENIED},
        {victim->closed, 0, 8, 0, TS_ERR_DENIED},
        {victim->deleted, 0, 8, 0, TS_ERR_GONE},
        {0, 0, 8, 0, TS_ERR_NOT_FOUND},
        {UINT32_MAX, 0, 8, 0, TS_ERR_NOT_FOUND},
        {victim->open, MEMORY - 7, 8, 0, TS_ERR_INVALID},
        {victim->open, UINT64_MAX, 8, 0, TS_ERR_INVALID},
        {victim->open, UINT64_MAX - 3, 8, 0, TS_ERR_INVALID},
        {victim->open, UINT64_C(1) << 63, 8, 0, TS_ERR_INVALID},
        {victim->open, 1, MEMORY, 0, TS_ERR_INVALID},
        {0, 4096, 8, FRAME_FLAG_ADDR, TS_ERR_NOT_FOUND},
        {0, UINT64_MAX - 3, 8, FRAME_FLAG_ADDR, TS_ERR_NOT_FOUND},
    };
    const struct target reads[] = {
        {victim->closed, 0, 8, 0, TS_ERR_DENIED},
        {victim->deleted, 0, 8, 0, TS_ERR_GONE},
        {victim->open, MEMORY - 7, 8, 0, TS_ERR_INVALID},
        {victim->open, UINT64_MAX, 8, 0, TS_ERR_INVALID},
        {victim->open, 8, UINT64_MAX - 4, 0, TS_ERR_INVALID},
        {victim->open, 0, UINT64_MAX, 0, TS_ERR_INVALID},
        {0, 4096, UINT64_MAX, FRAME_FLAG_ADDR, TS_ERR_NOT_FOUND},
    };
    struct frame opened;
    struct rawpeer peer;

    (void)state;
    rawpeer_shake(&peer, &right, "victim");
    opened = rawpeer_open(&peer, "victim", (uint32_t)geteuid(), 1);
    assert_int_equal(opened.status, TS_OK);
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
        target_write(&peer, opened.open, &writes[i]);
    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
        target_read(&peer, opened.open, &reads[i]);
    target_write(&peer, opened.open, &writes[0]); /* the connection is as good as before */
    rawpeer_close(&peer);
    others_expect_unharmed();
}

static void test_segment_of_another_uid(void **state)
{
    struct rawpeer peer;
    struct frame opened;

    (void)state;
    rawpeer_shake(&peer, &right, "victim");
    opened = rawpeer_open(&peer, "victim", (uint32_t)geteuid() + 1001, 1);
    assert_int_equal(opened.status, TS_ERR_DENIED);
    assert_int_equal(opened.open, 0);
    opened = rawpeer_open(&peer, "nobody-has-this", (uint32_t)geteuid(), 2);
    assert_int_equal(opened.status, TS_ERR_NOT_FOUND);
    rawpeer_close(&peer);
    others_expect_unharmed();
}

/* ---- notifications ---- */

static void test_notify_without_credit(void **state)
{
    static uint8_t payload[LAYOUT_NOTIFY_NATIVE_MAX];
    uint64_t before = status_worker_count(&right, "peer_protocol");
    struct frame frame = {.type = FRAME_NOTIFY, .region = 8, .length = sizeof(payload)};
    const uint64_t cost = sizeof(payload) + sizeof(struct notify_record);
    struct frame opened;
    struct rawpeer peer;

    (void)state;
    rawpeer_shake(&peer, &right, "victim");
    opened = rawpeer_open(&peer, "victim", (uint32_t)geteuid(), 1);
    frame.open = opened.open;
    /* The credit that comes back may let some more pass; sooner or later it is used up, for nothing
     * comes back faster than it is sent at once. */
    for (uint64_t sent = 0; sent < 64 * opened.value; sent += cost)
        rawpeer_frame(&peer, &frame, payload);
    rawpeer_expect_hangup(&peer, HANGUP_MS);
    rawpeer_close(&peer);
    assert_int_equal(status_worker_count(&right, "peer_protocol"), before + 1);
    others_expect_unharmed();
}

/* A peer that asks and asks and reads no answer: it waits for itself, not for the worker's memory.
 */
static void test_questions_without_end(void **state)
{
    struct frame opened, frame = {.type = FRAME_READ, .request = REQUEST, .value = MEMORY};
    struct rawpeer peer;
    long before, after;
    uint64_t until;

    (void)state;
    rawpeer_shake(&peer, &right, "victim");
    opened = rawpeer_open(&peer, "victim", (uint32_t)geteuid(), 1);
    frame.open = opened.open;
    frame.region = victim->readable;
    before = (long)process_anon_kib(worker);
    until = wait_now_ms() + 2000;
    while (wait_now_ms() < until)
        if (send(peer.socket, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            wait_sleep_ms(1);
    others_expect_unharmed();
    after = (long)process_anon_kib(worker);
    if (after - before > 32 * 1024)
        fail_msg("the worker grew by %ld KiB", after - before);
    rawpeer_close(&peer);
    others_expect_unharmed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_silence_and_half_a_frame),
        cmocka_unit_test(test_half_a_handshake),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_unknown_segment),
        cmocka_unit_test(test_many_strangers),
        cmocka_unit_test(test_frames_without_sense),
        cmocka_unit_test(test_handles_that_were_never_given),
        cmocka_unit_test(test_read_of_nothing),
        cmocka_unit_test(test_half_a_frame_of_a_peer),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_segment_of_another_uid),
        cmocka_unit_test(test_notify_without_credit),
        cmocka_unit_test(test_questions_without_end),
    };

    return cmocka_run_group_tests_name("forged peers", tests, group_setup, victim_teardown);
}
