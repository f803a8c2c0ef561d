/* The way to a peer is looked for beside the loop, and nothing of it outlives the device. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include "tests/harness/wait.h"

static struct handshake_verbs peer;
static struct verbs_way_result result;
static unsigned answers;
static int owner;

static void on_found(void *whose, const struct verbs_way_result *found)
{
    assert_ptr_equal(whose, &owner);
    result = *found;
    answers++;
}

static struct verbs_way *look(uint32_t only)
{
    return verbs_way_find(&pair.a.worker, &peer, only, on_found, &owner);
}

/* Two pairs of GIDs, of IPv4 and link-local. */
static int setup_peer(void **state)
{
    setup(state);
    peer = *verbs_link_offer(&owner_link()->link);
    peer.gid_count = 2;
    for (unsigned i = 0; i < peer.gid_count; i++) {
        memcpy(peer.gid[i], nic_of(&pair.b)->gid[i].gid.raw, sizeof(peer.gid[i]));
        peer.gid_type[i] = nic_of(&pair.b)->gid[i].type;
    }
    answers = 0;
    result = (struct verbs_way_result){.status = TS_ERR_INVALID};
    return 0;
}

static int teardown_peer(void **state)
{
    assert_int_equal(pair.device_a->ahs, 0);
    return teardown(state);
}

static void expect_found(uint32_t only, int status, uint32_t passed)
{
    unsigned before = answers;

    assert_non_null(look(only));
    assert_int_equal(answers, before); /* not from inside the call */
    host_until(answers == before + 1);
    assert_int_equal(result.status, status);
    assert_int_equal(result.passed, passed);
    assert_int_equal(nic_of(&pair.a)->way_count, 0);
}

static void test_found(void **state)
{
    (void)state;
    expect_found(VERBS_WAY_ANY, TS_OK, 0);
    assert_string_equal(result.text, "");
    assert_int_equal(pair.device_a->ahs_made, 1);
}

static void test_the_next_one(void **state)
{
    (void)state;
    fake_fail(pair.device_a, FAKE_CREATE_AH, 0, 1, ENETUNREACH);
    expect_found(VERBS_WAY_ANY, TS_OK, 1);
    assert_string_equal(result.text, "fake0 port 1: no way with GID 1: 10.0.0.1 (RoCE v2): "
                                     "Network is unreachable");
    fake_fail(pair.device_a, FAKE_CREATE_AH, 0, 1, ENETUNREACH);
    peer.gid_pairs = 1; /* the peer was there before: the other one is the first */
    expect_found(VERBS_WAY_ANY, TS_OK, 1);
    assert_non_null(strstr(result.text, "fe80::1"));
}

static void test_none(void **state)
{
    (void)state;
    fake_fail(pair.device_a, FAKE_CREATE_AH, 0, 2, ETIMEDOUT);
    expect_found(VERBS_WAY_ANY, TS_ERR_UNREACHABLE, 0);
    assert_non_null(strstr(result.text, "10.0.0.1 (RoCE v2): Connection timed out; 0: fe80::1 "
                                        "(RoCE v2): Connection timed out"));
}

/* As with rdma.max of a cgroup: the queue pairs may have room, or say so themselves. */
static void test_no_room_to_ask(void **state)
{
    (void)state;
    fake_fail(pair.device_a, FAKE_CREATE_AH, 0, 1, EAGAIN);
    expect_found(VERBS_WAY_ANY, TS_OK, 0);
    assert_int_equal(pair.device_a->ahs_made, 0);
}

static void test_only_one(void **state)
{
    (void)state;
    expect_found(1, TS_OK, 0);
    fake_fail(pair.device_a, FAKE_CREATE_AH, 0, 1, ETIMEDOUT);
    expect_found(1, TS_ERR_UNREACHABLE, 0);
    assert_null(strstr(result.text, "10.0.0.1"));
    assert_null(look(7)); /* there is no such GID: whoever connects to it will say so */
}

/* Subnets of InfiniBand have no neighbours to ask, and strangers' GIDs no pair. */
static void test_nothing_to_ask(void **state)
{
    (void)state;
    nic_of(&pair.a)->port_attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    assert_null(look(VERBS_WAY_ANY));
    nic_of(&pair.a)->port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    peer.gid_type[0] = peer.gid_type[1] = IBV_GID_TYPE_ROCE_V1;
    assert_null(look(VERBS_WAY_ANY));
    assert_int_equal(pair.device_a->ahs_made, 0);
}

static void threads_wait(unsigned threads)
{
    struct wait wait = wait_begin("threads at the gate", WAIT_MS);

    while (fake_gate_waiting() < threads)
        wait_step(&wait);
}

/* A neighbour that does not answer: everybody else's bytes go on. */
static void test_the_loop_goes_on(void **state)
{
    (void)state;
    fake_gate(true);
    assert_non_null(look(VERBS_WAY_ANY));
    threads_wait(1);
    assert_int_equal(move(SQE_WRITE, 0, 100000), TS_OK);
    assert_int_equal(answers, 0);
    fake_gate(false);
    host_until(answers == 1);
}

static void test_forgotten(void **state)
{
    struct verbs_way *way;

    (void)state;
    fake_gate(true);
    fake_fail(pair.device_a, FAKE_CREATE_AH, 0, 1, ETIMEDOUT);
    way = look(VERBS_WAY_ANY);
    threads_wait(1);
    verbs_way_forget(way);
    fake_gate(false);
    host_until(nic_of(&pair.a)->way_count == 0);
    assert_int_equal(answers, 0);
    assert_int_equal(pair.device_a->ahs_made, 0); /* the second pair was not tried any more */
}

static void test_at_once(void **state)
{
    (void)state;
    fake_gate(true);
    for (unsigned i = 0; i < VERBS_WAYS_MAX; i++)
        assert_non_null(look(VERBS_WAY_ANY));
    assert_null(look(VERBS_WAY_ANY));
    fake_gate(false);
    host_until(answers == VERBS_WAYS_MAX);
    expect_found(VERBS_WAY_ANY, TS_OK, 0);
}

static void test_the_worker_ends(void **state)
{
    struct verbs_nic *nic = nic_of(&pair.a);

    (void)state;
    assert_non_null(look(VERBS_WAY_ANY));
    verbs_way_forget(look(VERBS_WAY_ANY));
    verbs_ways_close(nic);
    assert_int_equal(answers, 1);
    assert_int_equal(result.status, TS_ERR_GONE);
    assert_int_equal(nic->way_count, 0);
}

#define PEER(name) cmocka_unit_test_setup_teardown(name, setup_peer, teardown_peer)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEER(test_found),
        PEER(test_the_next_one),
        PEER(test_none),
        PEER(test_no_room_to_ask),
        PEER(test_only_one),
        PEER(test_nothing_to_ask),
        PEER(test_the_loop_goes_on),
        PEER(test_forgotten),
        PEER(test_at_once),
        PEER(test_the_worker_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
