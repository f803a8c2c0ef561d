/* Completion queues with admission: charged before, grown when needed, refused with the numbers,
 * refunded after. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

static struct host host;
static struct fake_device *device;
static char text[PROTO_TEXT_MAX];

static int setup_device(void **state)
{
    (void)state;
    fake_reset();
    device = fake_device_add("fake0");
    return 0;
}

static void start(void)
{
    struct proto_worker_config config = host_config_verbs("a", "fake0");

    host_start(&host, &config);
}

static int teardown_host(void **state)
{
    (void)state;
    host_stop(&host);
    return 0;
}

static int charge(uint32_t entries)
{
    struct verbs_nic *nic = nic_of(&host);

    return verbs_cq_charge(nic, &nic->notify_cq, entries, text, sizeof(text));
}

static void refund(uint32_t entries)
{
    struct verbs_nic *nic = nic_of(&host);

    verbs_cq_refund(nic, &nic->notify_cq, entries);
}

static void expect(uint32_t used, int capacity)
{
    const struct counters_worker_stats *stats = host.worker.stats;

    assert_int_equal(nic_of(&host)->notify_cq.charged, used);
    assert_int_equal(nic_of(&host)->notify_cq.cq->cqe, capacity);
    assert_int_equal(host_stat(&stats->notify_cq_used), used);
    assert_int_equal(host_stat(&stats->notify_cq_capacity), capacity);
}

static void test_grows_by_doubling(void **state)
{
    (void)state;
    start();
    expect(0, 256);
    assert_int_equal(charge(256), TS_OK);
    expect(256, 256);
    assert_int_equal(charge(1), TS_OK);
    expect(257, 512);
    assert_int_equal(charge(2000), TS_OK);
    expect(2257, 2257);
    refund(2257);
    expect(0, 2257);
}

static void test_limit_of_the_device(void **state)
{
    (void)state;
    device->attr.max_cqe = 300;
    start();
    assert_int_equal(charge(257), TS_OK);
    expect(257, 300); /* twice is more than there is */
    assert_int_equal(charge(44), TS_ERR_LIMIT);
    assert_string_equal(text, "fake0 port 1: the notification completion queue is full: 257 "
                              "entries in use, 44 more needed, the device allows 300");
    expect(257, 300);
    assert_int_equal(charge(43), TS_OK);
    refund(300);
}

static void test_small_device(void **state)
{
    (void)state;
    device->attr.max_cqe = 100;
    start();
    expect(0, 100);
    assert_int_equal(charge(101), TS_ERR_LIMIT);
    assert_int_equal(charge(100), TS_OK);
    refund(100);
}

/* A device that does not double may still give what is needed. */
static void test_doubling_is_refused(void **state)
{
    (void)state;
    start();
    fake_fail(device, FAKE_RESIZE_CQ, 0, 1, ENOMEM);
    assert_int_equal(charge(300), TS_OK);
    expect(300, 300);
    refund(300);
}

static void test_resize_is_refused(void **state)
{
    (void)state;
    start();
    assert_int_equal(charge(200), TS_OK);
    fake_fail(device, FAKE_RESIZE_CQ, 0, 2, ENOSYS);
    assert_int_equal(charge(100), TS_ERR_LIMIT);
    assert_string_equal(text, "fake0 port 1: the notification completion queue cannot grow from "
                              "256 to 300 entries: Function not implemented");
    expect(200, 256);
    assert_int_equal(charge(56), TS_OK); /* what fits goes on */
    refund(256);
}

/* The other queue has numbers of its own. */
static void test_data_queue(void **state)
{
    struct verbs_nic *nic;

    (void)state;
    start();
    nic = nic_of(&host);
    assert_int_equal(verbs_cq_charge(nic, &nic->data_cq, 500, text, sizeof(text)), TS_OK);
    assert_int_equal(nic->data_cq.charged, 500);
    expect(0, 256);
    verbs_cq_refund(nic, &nic->data_cq, 500);
}

static void test_no_queue(void **state)
{
    struct worker worker = {.config = host_config_verbs("a", "fake0")};
    struct counters_worker_stats stats = {.turns = 0};

    (void)state;
    worker.stats = &stats;
    assert_int_equal(reactor_init(&worker.reactor), 0);
    for (unsigned skip = 0; skip < 2; skip++) {
        fake_fail(device, FAKE_CREATE_CQ, skip, 1, ENOMEM);
        assert_int_equal(verbs_open(&worker, text, sizeof(text)), TS_ERR_SYSTEM);
        assert_non_null(strstr(text, skip == 0 ? "no data completion queue of 256 entries"
                                               : "no notification completion queue"));
        assert_null(worker.verbs);
    }
    reactor_fini(&worker.reactor);
}

/* An endpoint's worst case is charged when its queue pairs are made, and refunded when they are
 * destroyed. */
static void test_charge_of_an_endpoint(void **state)
{
    struct verbs_nic *nic;

    (void)state;
    pair.config_a.rdma.data_qps = pair.config_b.rdma.data_qps = 3;
    pair_start(&pair);
    nic = nic_of(&pair.a);
    assert_int_equal(nic->data_cq.charged, 3 * VERBS_QP_DEPTH);
    assert_int_equal(nic->notify_cq.charged, VERBS_QP_DEPTH + nic->receive.total);
    host_end_endpoints(&pair.a);
    assert_int_equal(nic->data_cq.charged, 0);
    assert_int_equal(nic->notify_cq.charged, nic->receive.total); /* they stay posted */
    host_until(pair.b.worker.endpoint_count == 2);
}

/* The queue is armed once for each ring; what rang is read before, and only then. */
static void test_arming(void **state)
{
    struct verbs_nic *nic;

    (void)state;
    nic = nic_of(&pair.a);
    assert_false(verbs_arm(&pair.a.worker));
    assert_true(nic->data_cq.armed && nic->notify_cq.armed);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    (void)reactor_wait(&pair.a.worker.reactor, 0);
    assert_true(nic->rung);
    assert_true(nic->data_cq.armed && nic->notify_cq.armed);
    assert_int_equal(nic->data_cq.events + nic->notify_cq.events, 0);
    (void)verbs_arm(&pair.a.worker);
    assert_false(nic->rung);
    assert_true(nic->data_cq.events == 1 && nic->notify_cq.events == 1);
    assert_true(nic->data_cq.armed && nic->notify_cq.armed);
    assert_int_equal(reactor_wait(&pair.a.worker.reactor, 0), 0);
}

/* What came between the last poll and the arming rings nobody: it is looked for. */
static void test_completion_before_the_arming(void **state)
{
    (void)state;
    pair.device_a->silent = true;
    move_submit(SQE_WRITE, 0, 100);
    host_turns(4);
    pair.device_a->silent = false;
    assert_true(verbs_arm(&pair.a.worker));
    assert_false(verbs_arm(&pair.a.worker));
    host_turns(2);
}

#define TEST_HOST(name) cmocka_unit_test_setup_teardown(name, setup_device, teardown_host)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_HOST(test_grows_by_doubling),
        TEST_HOST(test_limit_of_the_device),
        TEST_HOST(test_small_device),
        TEST_HOST(test_doubling_is_refused),
        TEST_HOST(test_resize_is_refused),
        TEST_HOST(test_data_queue),
        cmocka_unit_test_setup(test_no_queue, setup_device),
        TEST_PREPARED(test_charge_of_an_endpoint),
        TEST(test_arming),
        TEST(test_completion_before_the_arming),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
