/* A device that neither completes nor fails what it has: its link ends before anybody's patience
 * does.  One that is only slow is no such device. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include "shm/clock.h"

#define PACKET_NS (UINT64_C(4096) << 10)

static struct verbs_qp *qp;

static void stall_setup(void)
{
    pair.config_a.rdma.timeout = 10;
    pair.config_a.rdma.retries = 3;
    pair_start(&pair);
    qp = user_link()->data[0];
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->held = true;
}

static void submit(uint64_t length)
{
    move_submit(SQE_WRITE, 0, length);
    host_turn(&pair.a);
}

/* A look at queue pairs whose next completion is awaited for so long already. */
static void look(uint64_t waited_ns)
{
    qp->stall.since_ns = clock_now() - waited_ns;
    nic_of(&pair.a)->looked_ns = 0;
    host_turn(&pair.a);
}

static void expect_alive(void)
{
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    assert_int_equal(qp->stall.tail, qp->tail);
}

static void expect_ended(void)
{
    assert_true(host_said(&pair.a, "the device neither completes nor fails its work requests"));
    assert_null(pair.link.a->link);
}

static void test_it_forgets(void **state)
{
    (void)state;
    stall_setup();
    submit(100);
    look(0);
    expect_alive();
    look(verbs_stall_limit_ns(qp) + 1);
    expect_ended();
}

static void test_it_goes_on(void **state)
{
    (void)state;
    stall_setup();
    for (unsigned i = 0; i < 3; i++)
        submit(100);
    look(0);
    for (unsigned i = 0; i < 2; i++) {
        fake_step(pair.device_a, 1);
        host_turn(&pair.a);
        look(verbs_stall_limit_ns(qp) + 1); /* for this one, not for the next */
        expect_alive();
    }
    look(verbs_stall_limit_ns(qp) + 1);
    expect_ended();
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    stall_setup();
    look(CLOCK_NS_PER_S * 3600);
    expect_alive();
    submit(100);
    look(0);
    expect_alive();
}

/* What is awaited, not all that there is: up to the next one that is signalled. */
static void test_limit(void **state)
{
    const uint64_t shortest = PACKET_NS * 8 + CLOCK_NS_PER_S;

    (void)state;
    stall_setup();
    assert_int_equal(verbs_stall_limit_ns(qp), shortest);
    submit(VERBS_SLICE * 3 + 100);
    assert_int_equal(verbs_stall_limit_ns(qp), shortest + PACKET_NS * (VERBS_SLICE >> 16));
    nic_of(&pair.a)->port_down = true; /* nothing is slow then */
    assert_int_equal(verbs_stall_limit_ns(qp), shortest);
    nic_of(&pair.a)->port_down = false;
    look(shortest + 1);
    expect_alive();
    fake_step(pair.device_a, 3);
    host_turn(&pair.a);
    assert_int_equal(verbs_stall_limit_ns(qp), shortest);
    look(0);
    look(shortest + 1);
    expect_ended();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_PREPARED(test_it_forgets),
        TEST_PREPARED(test_it_goes_on),
        TEST_PREPARED(test_nothing_to_do),
        TEST_PREPARED(test_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
