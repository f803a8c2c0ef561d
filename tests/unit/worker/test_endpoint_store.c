/* The store of endpoints at its limit: who makes room, who does not, and what stays behind. */
#include "tests/harness/test.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/harness/worker/stage.h"

#define MANY      3 /* endpoints that nobody uses, besides the stage's own */
#define LINGER_MS 10000u

static struct stage stage;
static struct worker *const worker = &stage.host.worker;
static struct endpoint *idle[MANY];
static int sockets[MANY];

static int setup(void **state)
{
    static const char *const names[MANY] = {"first", "second", "third"};

    (void)state;
    stage_begin(&stage);
    stage_open(&stage, 0, "there", 1000);
    for (uint8_t i = 0; i < MANY; i++) {
        int pair[2];

        host_stream_pair(pair);
        sockets[i] = pair[0];
        idle[i] = host_endpoint_tcp(&stage.host, names[i], (uint8_t)(1 + i), pair[1]);
        idle[i]->unused_since = 1000 + i;
    }
    worker->config.endpoint_max = worker->endpoint_count;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        close(sockets[i]);
    stage_end(&stage);
    return 0;
}

static struct endpoint *reach(void)
{
    char text[PROTO_TEXT_MAX] = "";
    struct endpoint *endpoint = endpoint_reach(worker, "127.0.0.1:1", text, sizeof(text));

    if (endpoint == NULL)
        assert_non_null(strstr(text, "peer.endpoint_max"));
    return endpoint;
}

static bool is_there(const char *name)
{
    list_each (node, following, &worker->endpoints) {
        if (strcmp(list_entry(node, struct endpoint, link_node)->peer_name, name) == 0)
            return true;
    }
    return false;
}

static uint64_t evicted(void)
{
    return host_stat(&worker->stats->endpoint_evicted);
}

/* The one that was used last stays longest, whatever the order of their making. */
static void test_the_longest_unused_one_goes_first(void **state)
{
    struct endpoint *made[MANY];

    (void)state;
    idle[2]->unused_since = 1;
    made[0] = reach();
    assert_non_null(made[0]);
    host_turn(&stage.host);
    assert_false(is_there("third"));
    assert_true(is_there("first"));
    made[1] = reach();
    host_turn(&stage.host);
    assert_false(is_there("first"));
    assert_true(is_there("second"));
    assert_int_equal(evicted(), 2);
    assert_int_equal(worker->endpoint_count, worker->config.endpoint_max);
    endpoint_free(made[0]);
    endpoint_free(made[1]);
}

/* What the peer reads is a goodbye, not the end of a connection that broke. */
static void test_the_peer_is_told(void **state)
{
    struct endpoint *made = reach();
    struct frame frame;

    (void)state;
    host_turn(&stage.host);
    assert_int_equal(recv(sockets[0], &frame, sizeof(frame), MSG_DONTWAIT), sizeof(frame));
    assert_int_equal(frame.type, FRAME_BYE);
    assert_int_equal(recv(sockets[0], &frame, sizeof(frame), MSG_DONTWAIT), 0);
    assert_int_equal(host_stat(&worker->stats->endpoint_lost), 0);
    endpoint_free(made);
}

/* All of one turn find a place of their own, or a refusal. */
static void test_busy_ones_stay(void **state)
{
    struct endpoint *made[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        made[i] = reach();
        assert_non_null(made[i]);
    }
    assert_null(reach()); /* the stage's is in use, and the worker's own */
    host_turn(&stage.host);
    assert_null(reach()); /* those that are on their way are, too */
    assert_int_equal(evicted(), MANY);
    assert_int_equal(stage.peer.endpoint->state, ENDPOINT_READY);
    for (int i = 0; i < MANY; i++)
        endpoint_free(made[i]);
}

/* The peer uses it, though nobody here does. */
static void test_what_the_peer_uses_stays(void **state)
{
    struct frame open = {.type = FRAME_OPEN, .request = 1, .length = sizeof(struct frame_open)};
    struct frame_open ask = {.uid = JOB_UID, .segment = STAGE_SEGMENT, .sender = "127.0.0.1:1/x"};
    struct endpoint *made;

    (void)state;
    for (int i = 0; i < MANY; i += 2) {
        assert_int_equal(send(sockets[i], &open, sizeof(open), 0), sizeof(open));
        assert_int_equal(send(sockets[i], &ask, sizeof(ask), 0), sizeof(ask));
        host_until(idle[i]->inbounds.used == 1);
    }
    made = reach();
    assert_non_null(made);
    assert_null(reach());
    host_turn(&stage.host);
    assert_false(is_there("second"));
    endpoint_free(made);
}

/* Its connection breaks in the turn in which it is evicted. */
static void test_lost_while_evicted(void **state)
{
    struct endpoint *made;

    (void)state;
    shutdown(sockets[0], SHUT_RDWR);
    made = reach();
    assert_non_null(made);
    host_turn(&stage.host);
    host_turn(&stage.host);
    assert_false(is_there("first"));
    assert_int_equal(host_stat(&worker->stats->endpoint_lost), 0);
    endpoint_free(made);
}

/* Nobody comes: they go by themselves, each after its own time. */
static void test_reclaimed_without_a_newcomer(void **state)
{
    (void)state;
    worker->config.endpoint_max = 2 * worker->endpoint_count; /* no need to hurry */
    for (int i = 0; i < MANY; i++)
        endpoint_on_unused(idle[i]);
    host_skip(&stage.host, LINGER_MS / 2);
    assert_true(is_there("first"));
    endpoint_on_unused(idle[2]);
    host_skip(&stage.host, LINGER_MS / 2 + 1);
    assert_int_equal(idle[0]->state, ENDPOINT_DRAINING);
    assert_int_equal(idle[1]->state, ENDPOINT_DRAINING);
    assert_int_equal(idle[2]->state, ENDPOINT_READY);
    assert_int_equal(evicted(), 0);
}

static void test_a_lingering_one_is_found(void **state)
{
    (void)state;
    assert_ptr_equal(endpoint_find_peer(worker, idle[1]->peer_id, NULL), idle[1]);
    assert_null(endpoint_find_peer(worker, idle[1]->peer_id, idle[1]));
}

#define ON(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(test_the_longest_unused_one_goes_first),
        ON(test_the_peer_is_told),
        ON(test_busy_ones_stay),
        ON(test_what_the_peer_uses_stays),
        ON(test_lost_while_evicted),
        ON(test_reclaimed_without_a_newcomer),
        ON(test_a_lingering_one_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
