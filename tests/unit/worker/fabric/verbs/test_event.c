/* Asynchronous events: each is counted and has its reaction; none is waited for. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

static uint64_t events(void)
{
    return host_stat(&pair.a.worker.stats->rdma_events);
}

static void event(enum ibv_event_type type)
{
    fake_event(pair.device_a, type);
    host_turns(2);
}

static void expect_alive(void)
{
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    assert_false(pair.a.worker.stop);
    assert_int_equal(move(SQE_WRITE, 0, 1000), TS_OK);
}

/* A fresh process must open the device anew: exit code 3. */
static void expect_fatal(enum ibv_event_type type)
{
    event(type);
    assert_true(pair.a.worker.stop);
    assert_true(pair.a.worker.broken);
    assert_true(host_said(&pair.a, "this worker ends and is started again"));
    pair.a.worker.stop = pair.a.worker.broken = false; /* for an orderly end of the test */
}

static void test_fatal(void **state)
{
    (void)state;
    expect_fatal(IBV_EVENT_DEVICE_FATAL);
    expect_fatal(IBV_EVENT_CQ_ERR);
    expect_fatal(IBV_EVENT_SRQ_ERR);
    assert_int_equal(events(), 3);
}

/* That one alone: the link lives on with another in its place. */
static void queue_pair_is_replaced(uint32_t number, enum ibv_event_type type, const char *kind)
{
    fake_event_qp(number, type);
    host_until(host_stat(&pair.a.worker.stats->rdma_renewed) == 1);
    assert_true(host_said(&pair.a, kind));
    assert_int_equal(events(), 1);
    assert_int_equal(pair.device_a->qps, 2);
    expect_alive();
}

static void test_queue_pair_of_data(void **state)
{
    (void)state;
    queue_pair_is_replaced(
        qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL,
        "data QP 100 to b at 127.0.0.1:1: local work queue catastrophic error; it is");
}

static void test_queue_pair_of_notifications(void **state)
{
    (void)state;
    queue_pair_is_replaced(qp_number(user_link()->notify), IBV_EVENT_QP_REQ_ERR,
                           "notification QP 101");
}

static void test_access_error(void **state)
{
    (void)state;
    queue_pair_is_replaced(qp_number(user_link()->notify), IBV_EVENT_QP_ACCESS_ERR,
                           "notification QP 101");
}

/* One for an endpoint that ends in the same turn. */
static void test_other_endpoints_go_on(void **state)
{
    struct host_link more;

    (void)state;
    more = host_link_verbs(&pair.a, &pair.b);
    assert_int_equal(pair.device_a->qps, 4);
    link_on_lost(more.a->link, TS_ERR_UNREACHABLE, "the test ends it");
    fake_event_qp(qp_number(verbs_of(more.a->link)->notify), IBV_EVENT_QP_FATAL);
    host_turns(2);
    assert_int_equal(pair.device_a->qps, 2);
    expect_alive();
}

static void test_port_flaps(void **state)
{
    char text[PROTO_TEXT_MAX];
    struct endpoint *endpoint;

    (void)state;
    endpoint = host_endpoint(&pair.a, "third", 0x33, HOST_NOTIFY_MAX);
    pair.device_a->port[0].state = IBV_PORT_DOWN;
    event(IBV_EVENT_PORT_ERR);
    assert_true(host_said(&pair.a, "no new connections until it is active; those there try on"));
    assert_null(verbs_link_prepare(endpoint, true, text, sizeof(text)));
    expect_alive();
    pair.device_a->port[0].state = IBV_PORT_ACTIVE;
    pair.device_a->port[0].active_mtu = IBV_MTU_512;
    event(IBV_EVENT_PORT_ACTIVE);
    endpoint->offer = verbs_link_prepare(endpoint, true, text, sizeof(text));
    assert_non_null(endpoint->offer);
    assert_int_equal(verbs_link_offer(endpoint->offer)->mtu, 512); /* read again */
    assert_int_equal(events(), 2);
    expect_alive();
}

/* Of another port of the device. */
static void test_other_port(void **state)
{
    (void)state;
    nic_of(&pair.a)->port = 2;
    event(IBV_EVENT_PORT_ERR);
    nic_of(&pair.a)->port = 1;
    assert_false(nic_of(&pair.a)->port_down);
    assert_int_equal(events(), 1);
    expect_alive();
}

/* The address of a connection is gone: nobody waits for its retries. */
static void test_gid_is_lost(void **state)
{
    (void)state;
    fake_gid_set(pair.device_a, 1, IBV_GID_TYPE_ROCE_V2, "10.0.7.7");
    event(IBV_EVENT_GID_CHANGE);
    assert_true(host_said(&pair.a, "fake0 port 1 lost the address of this connection"));
    assert_null(pair.link.a->link);
}

/* The other side of the same: its own address is the one that the responder chose. */
static void test_gid_of_the_responder_is_lost(void **state)
{
    (void)state;
    fake_gid_set(pair.device_b, 1, IBV_GID_TYPE_ROCE_V2, "10.0.7.7");
    fake_event(pair.device_b, IBV_EVENT_GID_CHANGE);
    host_turns(2);
    assert_true(host_said(&pair.b, "fake1 port 1 lost the address of this connection"));
}

static void test_another_gid_changes(void **state)
{
    (void)state;
    fake_gid_set(pair.device_a, 0, IBV_GID_TYPE_ROCE_V2, "fe80::99");
    fake_gid_set(pair.device_a, 2, IBV_GID_TYPE_ROCE_V2, "10.0.7.8");
    event(IBV_EVENT_GID_CHANGE);
    assert_int_equal(nic_of(&pair.a)->gid_count, 3);
    expect_alive();
}

/* The second best address carries the connection, and the best one goes: that is not its end. */
static void test_gid_that_was_not_chosen(void **state)
{
    (void)state;
    fake_fail(pair.device_b, FAKE_MODIFY_QP, 2, 1, ENETUNREACH); /* INIT, INIT, and then RTR */
    pair_start(&pair);
    fake_gid_set(pair.device_a, 1, IBV_GID_TYPE_ROCE_V2, "10.0.7.7");
    event(IBV_EVENT_GID_CHANGE);
    expect_alive();
    fake_gid_set(pair.device_a, 0, IBV_GID_TYPE_ROCE_V2, "fe80::77");
    event(IBV_EVENT_GID_CHANGE);
    assert_null(pair.link.a->link);
}

static void test_events_without_a_reaction(void **state)
{
    (void)state;
    fake_event_qp(qp_number(user_link()->notify), IBV_EVENT_QP_LAST_WQE_REACHED);
    fake_event_qp(qp_number(user_link()->notify), IBV_EVENT_COMM_EST);
    host_turns(2);
    assert_int_equal(events(), 2);
    expect_alive();
}

/* A peer that sends beyond its credit is said before its endpoint ends by the count. */
static void test_receive_buffers_run_out(void **state)
{
    struct verbs_packet packet = {.generation = user_link()->generation - 1};

    (void)state;
    while (pair.device_a->srq_posted >= 16)
        assert_true(fake_send(qp_number(user_link()->notify), &packet, sizeof(packet)));
    host_turns(2);
    assert_int_equal(events(), 1);
    assert_true(host_said(&pair.a, "receive buffers run out: a peer sends beyond its credit"));
    expect_alive();
}

/* Several at once, two of them for one queue pair. */
static void test_burst(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++)
        fake_event(pair.device_a, IBV_EVENT_SM_CHANGE);
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_ACCESS_ERR);
    fake_event_qp(qp_number(user_link()->notify), IBV_EVENT_QP_FATAL);
    host_until(host_stat(&pair.a.worker.stats->rdma_renewed) == 2);
    assert_int_equal(events(), 23);
    expect_alive();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fatal),
        TEST(test_queue_pair_of_data),
        TEST(test_queue_pair_of_notifications),
        TEST(test_access_error),
        TEST(test_other_endpoints_go_on),
        TEST(test_port_flaps),
        TEST(test_other_port),
        TEST(test_gid_is_lost),
        TEST(test_gid_of_the_responder_is_lost),
        TEST(test_another_gid_changes),
        TEST_PREPARED(test_gid_that_was_not_chosen),
        TEST(test_events_without_a_reaction),
        TEST(test_receive_buffers_run_out),
        TEST(test_burst),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
