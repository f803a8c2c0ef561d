/* A message whose descriptors the receiver may not open: said as such, with nothing left open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/wire.h"

static int pair[2];
static struct rlimit before;

static int test_setup(void **state)
{
    (void)state;
    getrlimit(RLIMIT_NOFILE, &before);
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int test_teardown(void **state)
{
    (void)state;
    setrlimit(RLIMIT_NOFILE, &before);
    close(pair[0]);
    close(pair[1]);
    return 0;
}

/* Leaves room for `room` more descriptors. */
static void files_limit(rlim_t room)
{
    int next = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
    struct rlimit limit = before;

    close(next);
    limit.rlim_cur = (rlim_t)next + room;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void channel_send(void)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_CHANNEL_ADD);
    message.header.id = 5;
    message.header.session = 6;
    message.fds[0] = message.fds[1] = message.fds[2] = pair[0];
    message.fd_count = 3;
    assert_int_equal(wire_send(pair[0], &message), TS_OK);
}

static void test_no_room(void **state)
{
    struct wire_message message;
    int next = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);

    (void)state;
    close(next);
    for (rlim_t room = 0; room < 3; room++) {
        channel_send();
        files_limit(room);
        assert_int_equal(wire_receive(pair[1], &message), TS_ERR_LIMIT);
        assert_int_equal(message.header.type, WIRE_CHANNEL_ADD);
        assert_int_equal(message.header.id, 5);
        assert_int_equal(message.header.session, 6);
        assert_int_equal(message.fd_count, 0);
        setrlimit(RLIMIT_NOFILE, &before);
        assert_int_equal(fcntl(pair[0], F_DUPFD_CLOEXEC, 0), next); /* nothing stayed open */
        close(next);
    }
}

static void test_room(void **state)
{
    struct wire_message message;

    (void)state;
    channel_send();
    files_limit(3);
    assert_int_equal(wire_receive(pair[1], &message), TS_OK);
    assert_int_equal(message.fd_count, 3);
    wire_message_close(&message);
}

/* Garbage is garbage, however many descriptors it brings. */
static void test_garbage_without_room(void **state)
{
    struct wire_message message;

    (void)state;
    wire_message_init(&message, WIRE_CHANNEL_ADD);
    message.header.magic ^= 1;
    message.fds[0] = pair[0];
    message.fd_count = 1;
    assert_int_equal(wire_send(pair[0], &message), TS_OK);
    files_limit(0);
    assert_int_equal(wire_receive(pair[1], &message), TS_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_room, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_room, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_garbage_without_room, test_setup, test_teardown),
    };

    return cmocka_run_group_tests_name("descriptors that cannot be taken", tests, NULL, NULL);
}
