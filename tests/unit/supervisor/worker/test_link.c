/* The link to a worker: nothing blocks, nothing is lost or overtaken, a stopped worker is noticed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/list.h"
#include "supervisor/worker/link.h"

static struct loop loop;
static struct worker_link wire;
static int worker; /* the other end */
static unsigned received, drained, broken;
static struct timer turn;

static void on_received(struct worker_link *from, struct wire_message *message)
{
    assert_ptr_equal(from, &wire);
    assert_int_equal(message->header.type, WIRE_WORKER_READY);
    received++;
}

static void on_drained(struct worker_link *from)
{
    assert_null(from->first);
    drained++;
}

static void on_broken(struct worker_link *from, const char *why)
{
    assert_non_null(why);
    worker_link_close(from); /* as its owner does */
    broken++;
}

static int link_open(void **state)
{
    int ends[2];

    (void)state;
    received = drained = broken = 0;
    wire = (struct worker_link){
        .fd = -1, .received = on_received, .drained = on_drained, .broken = on_broken};
    if (loop_init(&loop) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    worker = ends[1];
    return worker_link_open(&wire, &loop, ends[0]);
}

static int link_close(void **state)
{
    (void)state;
    worker_link_close(&wire);
    close(worker);
    loop_fini(&loop);
    return 0;
}

static void turn_over(struct timer *timer)
{
    (void)timer;
    loop.stop = true;
}

static void link_run(unsigned ms)
{
    loop.stop = false;
    turn.fire = turn_over;
    loop_timer_set(&loop, &turn, ms);
    assert_int_equal(loop_run(&loop), 0);
}

static unsigned descriptors_open(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void peer_send(uint32_t id, int fd)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_PEER_SOCKET);
    message.header.id = id;
    message.fds[0] = fd;
    message.fd_count = 1;
    worker_link_send(&wire, &message);
}

/* Sends until some wait in the queue. */
static uint32_t queue_fill(int fd, unsigned waiting)
{
    uint32_t count = 0;

    while (wire.queued < waiting)
        peer_send(count++, fd);
    return count;
}

static void a_worker_that_reads_costs_no_queue(void **state)
{
    struct wire_message message;
    int fd = eventfd(0, EFD_CLOEXEC);

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        peer_send(i, fd);
        assert_int_equal(wire.queued, 0);
        assert_int_equal(wire_receive(worker, &message), TS_OK);
        assert_int_equal(message.header.id, i);
        wire_message_close(&message);
    }
    close(fd);
}

static void a_slow_worker_gets_all_in_order(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    unsigned before = descriptors_open();
    uint32_t sent = queue_fill(fd, 500), got = 0;
    struct wire_message message;

    (void)state;
    close(fd); /* the queue has duplicates */
    while (got < sent) {
        int rc = wire_receive(worker, &message);

        if (rc == TS_AGAIN) {
            link_run(1);
            continue;
        }
        assert_int_equal(rc, TS_OK);
        assert_int_equal(message.header.id, got++);
        assert_int_equal(message.fd_count, 1);
        wire_message_close(&message);
    }
    assert_int_equal(wire.queued, 0);
    assert_int_equal(drained, 1);
    assert_int_equal(broken, 0);
    assert_int_equal(descriptors_open(), before - 1);
}

static void closing_drops_the_queue_and_its_descriptors(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    unsigned before = descriptors_open();

    (void)state;
    queue_fill(fd, 100);
    assert_int_equal(descriptors_open(), before + 100);
    worker_link_close(&wire);
    assert_int_equal(descriptors_open(), before - 1);
    peer_send(0, fd); /* to nobody: no harm */
    close(fd);
}

static void too_many_waiting_messages_break_it(void **state)
{
    struct wire_message message;

    (void)state;
    wire_message_init(&message, WIRE_SESSION_DEL);
    while (wire.queued < WORKER_LINK_QUEUE_MAX)
        worker_link_send(&wire, &message);
    worker_link_send(&wire, &message);
    assert_int_equal(broken, 0); /* never from inside a send */
    link_run(5);
    assert_int_equal(broken, 1);
}

static void a_stopped_worker_breaks_it_in_time(void **state)
{
    (void)state;
    queue_fill(worker, 1);
    link_run(5);
    assert_int_equal(broken, 0);
    wire.progress_ns -= (WORKER_LINK_STUCK_MS + 1) * CLOCK_NS_PER_MS; /* as if so long ago */
    loop_timer_set(&loop, &wire.timer, 0);
    link_run(5);
    assert_int_equal(broken, 1);
}

static void words_of_the_worker_arrive(void **state)
{
    struct wire_message message;

    (void)state;
    wire_message_init(&message, WIRE_WORKER_READY);
    assert_int_equal(wire_send(worker, &message), TS_OK);
    assert_int_equal(wire_send(worker, &message), TS_OK);
    link_run(5);
    assert_int_equal(received, 2);
    assert_int_equal(send(worker, "nonsense", 8, 0), 8);
    link_run(5);
    assert_int_equal(broken, 1);
}

static void the_end_of_the_worker_is_no_news_here(void **state)
{
    (void)state;
    shutdown(worker, SHUT_RDWR);
    link_run(5);
    peer_send(1, worker);
    link_run(5);
    assert_int_equal(broken, 0);
    assert_int_equal(wire.queued, 0);
}

#define LINK_TEST(function) cmocka_unit_test_setup_teardown(function, link_open, link_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINK_TEST(a_worker_that_reads_costs_no_queue),
        LINK_TEST(a_slow_worker_gets_all_in_order),
        LINK_TEST(closing_drops_the_queue_and_its_descriptors),
        LINK_TEST(too_many_waiting_messages_break_it),
        LINK_TEST(a_stopped_worker_breaks_it_in_time),
        LINK_TEST(words_of_the_worker_arrive),
        LINK_TEST(the_end_of_the_worker_is_no_news_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
