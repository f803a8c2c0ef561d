/* The tcp fabric and its stream: frames in pieces of any size, sockets that take little, a peer
 * that does not read. */
#include "tests/harness/test.h"

#include <string.h>
#include <sys/socket.h>

#include "shm/err.h"
#include "tests/harness/worker/pair.h"
#include "tests/harness/worker/stage.h"
#include "worker/fabric/tcp/tcp.h"

static struct stage stage;
static struct pair pair;

static int setup(void **state)
{
    (void)state;
    stage_begin(&stage);
    return 0;
}

static int setup_long(void **state)
{
    const struct job_shape shape = {
        .handle = 1, .segment = STAGE_SEGMENT, .notify_max = LAYOUT_NOTIFY_NATIVE_MAX};

    (void)state;
    stage_begin_with(&stage, &shape);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

static void narrow(struct endpoint *endpoint)
{
    const int fd = tcp_of(endpoint->link)->source.fd, little = 1;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
}

/* Whatever the kernel takes at a time, nothing is lost, repeated or reordered. */
static void test_narrow_sockets(void **state)
{
    const struct job_note note = {.name = "n", .name_len = 1, .msg = "m", .msg_len = 1};
    struct sqe write, read;
    struct job_mail mail;
    uint64_t first;
    struct cqe cqe;

    (void)state;
    pair_begin(&pair, PAIR_TCP);
    narrow(pair.link.a);
    narrow(pair.link.b);
    pair.a.worker.config.slice_bytes = pair.b.worker.config.slice_bytes = 1024 * 1024;
    for (uint8_t round = 1; round <= 5; round++) {
        write = pair_move(SQE_WRITE, 0, round * 20011);
        read = pair_move(SQE_READ, 200000, round * 10007);
        pair_fill(pair.here, write.length, round);
        pair_fill(pair.there + 200000, read.length, round);
        first = job_submit(&pair.user.main, &write, &note);
        job_submit(&pair.user.main, &read, NULL);
        for (int i = 0; i < 2; i++) {
            host_until(job_complete(&pair.user.main, &cqe));
            assert_int_equal(cqe.status, TS_OK);
            assert_true(cqe.ticket - first < 2);
        }
        assert_memory_equal(pair.there, pair.here, write.length);
        assert_memory_equal(pair.here + 200000, pair.there + 200000, read.length);
        host_until(job_mail(&pair.owner, &mail));
        assert_int_equal(mail.record.bytes, write.length);
    }
    pair_end(&pair);
}

static size_t put(uint8_t *stream, size_t at, const struct frame *frame, const void *payload)
{
    memcpy(stream + at, frame, sizeof(*frame));
    if (payload != NULL)
        memcpy(stream + at + sizeof(*frame), payload, frame->length);
    return at + sizeof(*frame) + (payload != NULL ? frame->length : 0);
}

/* A WRITE in two slices, its notification and a READ, cut anywhere. */
static void test_cut_anywhere(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    struct frame write = {.type = FRAME_WRITE,
                          .open = sender.open,
                          .request = PEER_HANDLE(5),
                          .region = JOB_HANDLE(0),
                          .length = 10};
    const struct frame notify = {.type = FRAME_NOTIFY,
                                 .flags = FRAME_FLAG_BOUND,
                                 .open = sender.open,
                                 .request = PEER_HANDLE(5),
                                 .length = 5,
                                 .value = 20};
    const struct frame read = {.type = FRAME_READ,
                               .open = sender.open,
                               .request = PEER_HANDLE(6),
                               .region = JOB_HANDLE(0),
                               .value = 20};
    uint8_t stream[512];
    struct job_mail mail;
    size_t size = put(stream, 0, &write, "0123456789");

    (void)state;
    write.offset = 10;
    write.flags = FRAME_FLAG_LAST;
    size = put(stream, size, &write, "abcdefghij");
    size = put(stream, size, &notify, "hello");
    size = put(stream, size, &read, NULL);
    for (size_t piece = 1; piece <= size; piece++) {
        memset(stage.bytes, 0, 30);
        for (size_t at = 0; at < size; at += piece) {
            size_t part = size - at < piece ? size - at : piece;

            assert_int_equal(send(stage.peer.socket, stream + at, part, MSG_NOSIGNAL), part);
            host_turns(1);
        }
        host_turns(1);
        peer_expect(&stage.peer, FRAME_RESULT);
        assert_int_equal(stage.peer.frame.status, TS_OK);
        assert_int_equal(stage.peer.frame.value, 20);
        assert_int_equal(peer_expect(&stage.peer, FRAME_DATA)->length, 20);
        assert_memory_equal(stage.peer.payload, "0123456789abcdefghij", 20);
        host_until(job_mail(&stage.job, &mail));
        assert_memory_equal(mail.msg, "hello", 5);
        assert_int_equal(mail.record.status, TS_OK);
        assert_memory_equal(stage.bytes, "0123456789abcdefghij\0", 21);
    }
}

/* Larger than the buffer for headers, and in many pieces. */
static void test_long_notification(void **state)
{
    static uint8_t payload[3 * TCP_IN_SIZE + 11];
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const struct frame notify = {
        .type = FRAME_NOTIFY, .open = sender.open, .region = 100, .length = sizeof(payload)};
    static struct job_mail mail;

    (void)state;
    for (uint8_t round = 0; round < 3; round++) {
        pair_fill(payload, sizeof(payload), round);
        peer_send(&stage.peer, &notify, payload);
        host_until(job_mail(&stage.job, &mail));
        assert_int_equal(mail.record.name_len, 100);
        assert_int_equal(mail.record.msg_len, sizeof(payload) - 100);
        assert_memory_equal(mail.name, payload, 100);
        assert_memory_equal(mail.msg, payload + 100, sizeof(payload) - 100);
    }
}

#define BATCH 1000u

/* Sends BATCH questions that have a short answer each. false: the host reads no more. */
static bool ask(uint32_t open)
{
    static struct frame reads[BATCH];
    static size_t left;
    ssize_t sent;

    for (unsigned i = 0; i < BATCH; i++)
        reads[i] = (struct frame){.type = FRAME_READ, .open = open, .request = i, .value = 1};
    for (left = left > 0 ? left : sizeof(reads); left > 0; left -= (size_t)sent) {
        sent = send(stage.peer.socket, (uint8_t *)reads + sizeof(reads) - left, left,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return false; /* the rest goes first, next time */
        host_turns(1);
    }
    return true;
}

/* A peer that asks and does not read the answers is not read any more, until it does. */
static void test_a_peer_that_does_not_read(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    struct tcp_link *tcp = tcp_of(stage.peer.endpoint->link);
    uint64_t asked = 0, answered = 0, most = 0;

    (void)state;
    while (ask(sender.open)) {
        asked += BATCH;
        assert_true(asked < 100 * BATCH * BATCH);
        if (tcp->answer_bytes > most)
            most = tcp->answer_bytes;
    }
    assert_true(tcp->paused);
    assert_true(most <= TCP_QUEUE_MAX + TCP_IN_SIZE);
    host_turns(10);
    assert_false(ask(sender.open));
    while (answered < asked) {
        peer_expect(&stage.peer, FRAME_RESULT);
        assert_int_equal(stage.peer.frame.request, answered % BATCH);
        answered++;
    }
    host_until(!tcp->paused);
    assert_true(ask(sender.open));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrow_sockets),
        cmocka_unit_test_setup_teardown(test_cut_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_notification, setup_long, teardown),
        cmocka_unit_test_setup_teardown(test_a_peer_that_does_not_read, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
