/* A file that vanishes while its bytes are half-way into the socket: the stream stays in step, and
 * what had been promised is taken back. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"
#include "worker/fabric/tcp/tcp.h"

#define SIZE   (64u * 1024u)
#define SLICE  (16u * 1024u) /* more than the socket takes at once */
#define REGION 3u

static struct stage stage;
static struct tcp_link *tcp;
static int file;

static int setup(void **state)
{
    const struct proto_region ask = {
        .kind = REGION_KIND_SHARED, .access = REGION_ACCESS_MASK, .length = SIZE};
    const int little = 1;

    (void)state;
    stage_begin(&stage);
    file = memfd_create("vanishes", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, SIZE), 0);
    job_region(&stage.job, REGION, &ask, fcntl(file, F_DUPFD_CLOEXEC, 0));
    stage.host.worker.config.slice_bytes = SLICE;
    tcp = tcp_of(stage.peer.endpoint->link);
    return setsockopt(tcp->source.fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    close(file);
    return 0;
}

/* The link is blocked in the middle of a slice when the file goes. */
static void vanish_half_way(void)
{
    const struct tcp_item *first;

    host_until(tcp->blocked);
    host_until(!list_empty(&tcp->sending));
    first = list_entry(tcp->sending.next, struct tcp_item, link);
    assert_true(first->sent > sizeof(first->frame));
    assert_true(first->sent < sizeof(first->frame) + first->frame.length);
    assert_int_equal(ftruncate(file, 0), 0);
}

/* Slices up to the fault, then a frame of another type, which is what the caller looks at. */
static void expect_after_slices(enum frame_type slice, enum frame_type type)
{
    do {
        host_until(peer_take(&stage.peer));
        assert_false(stage.peer.frame.type == slice &&
                     (stage.peer.frame.flags & FRAME_FLAG_LAST) != 0);
    } while (stage.peer.frame.type == slice);
    assert_int_equal(stage.peer.frame.type, type);
}

/* The peer never gets a last slice: it cannot think that it has all. */
static void test_write(void **state)
{
    const struct sqe sqe = {.op = SQE_WRITE,
                            .length = SIZE,
                            .local_region = JOB_HANDLE(REGION),
                            .remote_region = 5,
                            .remote = JOB_HANDLE(0)};
    const struct job_note note = {.msg = "a lie", .msg_len = 5};
    struct frame result = {.type = FRAME_RESULT, .status = TS_ERR_CANCELLED};
    struct cqe cqe;
    uint64_t ticket;

    (void)state;
    stage_open(&stage, 0, "there", 1000);
    ticket = job_submit(&stage.job.main, &sqe, &note);
    vanish_half_way();
    expect_after_slices(FRAME_WRITE, FRAME_CANCEL);
    result.request = stage.peer.frame.request;
    assert_true(peer_is_quiet(&stage.peer)); /* no notification */
    assert_false(job_complete(&stage.job.main, &cqe));
    peer_send(&stage.peer, &result, NULL);
    assert_int_equal(job_completion(&stage.job.main, ticket).status, TS_ERR_FAULT);
    assert_int_equal(stage.peer.endpoint->state, ENDPOINT_READY);
}

/* The last slice stands for success as soon as its header is out, so it was copied before. */
static void test_last_slice(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const struct frame read = {.type = FRAME_READ,
                               .open = sender.open,
                               .request = PEER_HANDLE(7),
                               .region = JOB_HANDLE(REGION),
                               .value = SLICE};
    uint8_t bytes[SLICE];

    (void)state;
    memset(bytes, 'f', SLICE);
    assert_int_equal(pwrite(file, bytes, SLICE, 0), SLICE);
    peer_send(&stage.peer, &read, NULL);
    vanish_half_way();
    assert_int_equal(peer_expect(&stage.peer, FRAME_DATA)->flags, FRAME_FLAG_LAST);
    assert_int_equal(stage.peer.frame.length, SLICE);
    assert_memory_equal(stage.peer.payload, bytes, SLICE);
    assert_true(peer_is_quiet(&stage.peer));
}

static void test_read_of_the_peer(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const struct frame read = {.type = FRAME_READ,
                               .open = sender.open,
                               .request = PEER_HANDLE(7),
                               .region = JOB_HANDLE(REGION),
                               .value = SIZE};

    (void)state;
    peer_send(&stage.peer, &read, NULL);
    vanish_half_way();
    expect_after_slices(FRAME_DATA, FRAME_RESULT);
    assert_int_equal(stage.peer.frame.request, PEER_HANDLE(7));
    assert_int_equal(stage.peer.frame.status, TS_ERR_FAULT);
    assert_true(peer_is_quiet(&stage.peer));
}

/* The others on the link are not touched. */
static void test_next_to_it(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    struct frame read = {.type = FRAME_READ,
                         .open = sender.open,
                         .request = PEER_HANDLE(7),
                         .region = JOB_HANDLE(REGION),
                         .value = SIZE};
    uint64_t got = 0;
    bool failed = false;

    (void)state;
    memset(stage.bytes, 'g', STAGE_MEMORY);
    peer_send(&stage.peer, &read, NULL);
    read.region = JOB_HANDLE(0);
    read.request = PEER_HANDLE(8);
    peer_send(&stage.peer, &read, NULL);
    vanish_half_way();
    while (got < SIZE || !failed) {
        host_until(peer_take(&stage.peer));
        if (stage.peer.frame.request == PEER_HANDLE(8)) {
            assert_int_equal(stage.peer.frame.type, FRAME_DATA);
            assert_int_equal(stage.peer.frame.offset, got);
            assert_int_equal(stage.peer.payload[0], 'g');
            assert_int_equal(stage.peer.payload[stage.peer.frame.length - 1], 'g');
            got += stage.peer.frame.length;
        } else if (stage.peer.frame.type == FRAME_RESULT) {
            failed = true;
        }
    }
}

/* Bytes that come in for a file that has gone are thrown away, to the last one. */
static void test_write_of_the_peer(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const uint8_t payload[8192] = {0};
    struct frame write = {.type = FRAME_WRITE,
                          .open = sender.open,
                          .request = PEER_HANDLE(9),
                          .region = JOB_HANDLE(REGION),
                          .length = sizeof(payload)};

    (void)state;
    peer_send(&stage.peer, &write, payload);
    assert_int_equal(ftruncate(file, 0), 0);
    write.offset += write.length;
    peer_send(&stage.peer, &write, payload);
    assert_int_equal(ftruncate(file, SIZE), 0); /* it is back: too late for this WRITE */
    write.offset += write.length;
    write.flags = FRAME_FLAG_LAST;
    peer_send(&stage.peer, &write, payload);
    peer_expect(&stage.peer, FRAME_RESULT);
    assert_int_equal(stage.peer.frame.status, TS_ERR_FAULT);
    write.offset = 0;
    write.request = PEER_HANDLE(10);
    peer_send(&stage.peer, &write, payload);
    assert_int_equal(peer_expect(&stage.peer, FRAME_RESULT)->status, TS_OK);
}

/* A bound notification that comes after such a WRITE carries what became of it here. */
static void test_notification_after_a_failed_write(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    struct frame write = {.type = FRAME_WRITE,
                          .flags = FRAME_FLAG_LAST,
                          .open = sender.open,
                          .request = PEER_HANDLE(9),
                          .region = JOB_HANDLE(REGION),
                          .length = 8};
    struct frame notify = {.type = FRAME_NOTIFY,
                           .flags = FRAME_FLAG_BOUND,
                           .open = sender.open,
                           .request = PEER_HANDLE(9),
                           .length = 5,
                           .value = 8};
    struct job_mail mail;

    (void)state;
    assert_int_equal(ftruncate(file, 0), 0);
    peer_send(&stage.peer, &write, "01234567");
    peer_send(&stage.peer, &notify, "a lie");
    write.request = notify.request = PEER_HANDLE(10);
    notify.flags |= FRAME_FLAG_ALWAYS;
    peer_send(&stage.peer, &write, "01234567");
    peer_send(&stage.peer, &notify, "truth");
    host_until(job_mail(&stage.job, &mail));
    assert_memory_equal(mail.msg, "truth", 5);
    assert_int_equal(mail.record.status, TS_ERR_FAULT);
    assert_int_equal(mail.record.bytes, 0);
    assert_false(job_mail(&stage.job, &mail));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_slice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_of_the_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_next_to_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_of_the_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_notification_after_a_failed_write, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
