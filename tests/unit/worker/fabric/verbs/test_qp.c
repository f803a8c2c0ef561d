/* One queue pair: how it is set up, one doorbell for a list of which the last is signalled, and
 * what comes back retires in order. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include "worker/fabric/verbs/mr.h"

/* ---- set-up ---- */

static void test_attributes(void **state)
{
    const struct ibv_qp_attr *a, *b;

    (void)state;
    pair.device_a->port[0].active_mtu = IBV_MTU_4096;
    pair.device_b->port[0].active_mtu = IBV_MTU_2048;
    pair.device_b->attr.max_qp_rd_atom = 3;
    pair.config_a.rdma.timeout = 17;
    pair.config_a.rdma.retries = 5;
    pair.config_a.rdma.rnr_retries = 6;
    pair.config_a.rdma.traffic_class = 104;
    pair_start(&pair);
    a = fake_attr(qp_number(user_link()->notify));
    b = fake_attr(qp_number(owner_link()->notify));
    assert_int_equal(a->path_mtu, IBV_MTU_2048); /* the smaller of both ports */
    assert_int_equal(b->path_mtu, IBV_MTU_2048);
    assert_int_equal(a->dest_qp_num, qp_number(owner_link()->notify));
    assert_int_equal(b->dest_qp_num, qp_number(user_link()->notify));
    assert_int_equal(a->timeout, 17);
    assert_int_equal(a->retry_cnt, 5);
    assert_int_equal(a->rnr_retry, 6);
    assert_int_equal(a->ah_attr.grh.traffic_class, 104);
    assert_int_equal(a->max_rd_atomic, 3); /* no more than the other side takes */
    assert_int_equal(b->max_rd_atomic, 8); /* no more than the own side does */
    assert_int_equal(a->sq_psn, b->rq_psn);
    assert_int_equal(a->ah_attr.grh.sgid_index, 1); /* IPv4 before link-local */
    assert_memory_equal(&a->ah_attr.grh.dgid, &pair.device_b->gid[1].gid, 16);
    assert_int_equal(fake_attr(qp_number(user_link()->data[0]))->timeout, 17);
}

static void test_mtu_of_the_configuration(void **state)
{
    (void)state;
    pair.config_b.rdma.mtu = 256;
    pair_start(&pair);
    assert_int_equal(fake_attr(qp_number(user_link()->notify))->path_mtu, IBV_MTU_256);
    assert_int_equal(fake_attr(qp_number(owner_link()->data[0]))->path_mtu, IBV_MTU_256);
    assert_int_equal(move(SQE_WRITE, 0, 100000), TS_OK);
}

/* Within one InfiniBand subnet the LID is the address. */
static void test_infiniband(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fake_device *device = i == 0 ? pair.device_a : pair.device_b;

        device->port[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
        device->port[0].lid = (uint16_t)(40 + i);
        device->gid_count = 0;
        fake_gid_set(device, 0, IBV_GID_TYPE_IB, i == 0 ? "fe80::1" : "fe80::2");
    }
    pair_start(&pair);
    assert_int_equal(fake_attr(qp_number(user_link()->data[0]))->ah_attr.dlid, 41);
    assert_int_equal(fake_attr(qp_number(user_link()->data[0]))->ah_attr.is_global, 0);
    assert_int_equal(move(SQE_WRITE, 0, 100000), TS_OK);
}

/* Across subnets it is the GID, with the LID of the router. */
static void test_infiniband_over_a_router(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fake_device *device = i == 0 ? pair.device_a : pair.device_b;

        device->port[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
        device->port[0].lid = (uint16_t)(40 + i);
        device->gid_count = 0;
        fake_gid_set(device, 0, IBV_GID_TYPE_IB, i == 0 ? "2001:db8:1::1" : "2001:db8:2::1");
    }
    pair_start(&pair);
    assert_int_equal(fake_attr(qp_number(user_link()->data[0]))->ah_attr.is_global, 1);
    assert_int_equal(move(SQE_READ, 0, 100000), TS_OK);
}

/* ---- failures ---- */

static struct verbs_qp *create(int *rc, char *text)
{
    return verbs_qp_create(user_link(), true, rc, text, PROTO_TEXT_MAX);
}

static void test_no_queue_pair(void **state)
{
    struct verbs_nic *nic = nic_of(&pair.a);
    uint32_t charged = nic->notify_cq.charged;
    char text[PROTO_TEXT_MAX];
    struct verbs_qp *qp;
    int rc;

    (void)state;
    fake_fail(pair.device_a, FAKE_CREATE_QP, 0, 2, ENOMEM);
    assert_null(create(&rc, text));
    assert_int_equal(rc, TS_ERR_LIMIT);
    assert_string_equal(text, "fake0 port 1: no notification queue pair: Cannot allocate memory "
                              "(the device allows 4096 QPs of 1024 work requests; memlock; "
                              "rdma.max of its cgroup)");
    fake_fail(pair.device_a, FAKE_MODIFY_QP, 0, 1, EINVAL);
    assert_null(create(&rc, text));
    assert_int_equal(pair.device_a->qps, 2);
    assert_int_equal(nic->notify_cq.charged, charged);
    fake_fail(pair.device_a, FAKE_CREATE_QP, 0, 1, EINVAL); /* the wish for inline data */
    qp = create(&rc, text);
    assert_non_null(qp);
    assert_int_equal(nic->notify_cq.charged, charged + VERBS_QP_DEPTH);
    verbs_qp_destroy(qp);
    assert_int_equal(nic->notify_cq.charged, charged);
}

static void test_states_that_are_refused(void **state)
{
    struct verbs_path path = {.mtu = 1024, .qp = 77, .reads = 1};
    char text[PROTO_TEXT_MAX];
    struct verbs_qp *qp;
    int rc;

    (void)state;
    for (unsigned skip = 0; skip < 2; skip++) {
        qp = create(&rc, text);
        fake_fail(pair.device_a, FAKE_MODIFY_QP, skip, 1, ETIMEDOUT);
        assert_int_equal(verbs_qp_connect(qp, &path, text, sizeof(text)), TS_ERR_UNREACHABLE);
        assert_non_null(strstr(text, skip == 0 ? "cannot go to RTR with GID 1: 10.0.0.1 (RoCE v2)"
                                               : "cannot go to RTS with GID 1: 10.0.0.1"));
        assert_non_null(strstr(text, "Connection timed out"));
        verbs_qp_destroy(qp);
    }
}

/* ---- the send queue ---- */

/* Two transfers in one turn: one list, one doorbell, one completion. */
static void test_one_doorbell(void **state)
{
    const struct fake_device *device = pair.device_a;
    const struct fake_list *list;
    uint64_t tickets[3];
    unsigned posts, signalled;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK); /* the keys are there */
    host_turns(4);
    posts = device->posts;
    signalled = device->signalled;
    for (unsigned i = 0; i < 3; i++)
        tickets[i] = move_submit(SQE_WRITE, i * 4096, 4096);
    host_turn(&pair.a);
    list = fake_last_list(qp_number(user_link()->data[0]));
    assert_int_equal(list->count, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(list->flags[i] & IBV_SEND_SIGNALED, i == 2 ? IBV_SEND_SIGNALED : 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(job_completion(channel, tickets[i]).status, TS_OK);
    assert_int_equal(device->posts, posts + 1);
    assert_int_equal(device->signalled, signalled + 1);
}

static void test_inline(void **state)
{
    unsigned inlined = pair.device_a->inlined;
    uint8_t msg[HOST_NOTIFY_MAX] = {0};
    struct job_mail mail;

    (void)state;
    notify_submit(msg, 8);
    host_until(job_mail(&pair.owner, &mail));
    assert_int_equal(pair.device_a->inlined, inlined + 1);
    notify_submit(msg, 500);
    host_until(job_mail(&pair.owner, &mail));
    assert_int_equal(pair.device_a->inlined, inlined + 1);
    host_turns(2);
}

/* A device without inline data, whether it says so by 0 or by an error. */
static void test_no_inline(void **state)
{
    struct job_mail mail;

    (void)state;
    pair.device_a->inline_max = pair.device_b->inline_max = 0;
    pair.device_b->refuses_inline = true;
    pair_start(&pair);
    notify_submit("8 bytes.", 8);
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(mail.msg, "8 bytes.", 8);
    assert_int_equal(pair.device_a->inlined + pair.device_b->inlined, 0);
    host_turns(2);
}

/* What may be under way on one queue pair is bounded: the rest waits for completions. */
static void test_bounded_flight(void **state)
{
    struct verbs_qp *qp = user_link()->data[0];
    uint64_t tickets[16];

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->held = true;
    for (unsigned i = 0; i < 16; i++)
        tickets[i] = move_submit(SQE_WRITE, 0, VERBS_SLICE);
    host_turn(&pair.a);
    assert_int_equal(qp->flying, VERBS_FLIGHT);
    assert_int_equal(fake_pending(qp_number(qp)), VERBS_FLIGHT / VERBS_SLICE);
    fake_release(pair.device_a);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(job_completion(channel, tickets[i]).status, TS_OK);
    assert_int_equal(qp->head, qp->tail);
    assert_int_equal(qp->flying, 0);
}

/* ---- errors ---- */

/* The first error is said with all that there is to look at, its wake is not. */
static void test_error_is_explained(void **state)
{
    static const struct {
        enum ibv_wc_status cause;
        int status;
        const char *advice;
    } causes[] = {
        {IBV_WC_RETRY_EXC_ERR, TS_ERR_UNCERTAIN, "check the peer's host, its link"},
        {IBV_WC_RNR_RETRY_EXC_ERR, TS_ERR_UNCERTAIN, "check the peer's worker"},
        {IBV_WC_REM_ACCESS_ERR, TS_ERR_UNCERTAIN, "check the region at the peer"},
        {IBV_WC_LOC_PROT_ERR, TS_ERR_FAULT, "check the local region"},
        {IBV_WC_REM_OP_ERR, TS_ERR_PROTOCOL, "check the device's counters"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        uint64_t first, second;

        pair_begin(&pair, PAIR_VERBS);
        assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
        pair.device_a->held = true;
        first = move_submit(SQE_WRITE, 0, 100);
        second = move_submit(SQE_WRITE, 200, 100);
        host_turn(&pair.a);
        fake_break(qp_number(user_link()->data[0]), causes[i].cause);
        fake_release(pair.device_a);
        assert_int_equal(job_completion(channel, first).status, causes[i].status);
        assert_int_equal(job_completion(channel, second).status, TS_ERR_UNCERTAIN);
        assert_int_equal(host_stat(&pair.a.worker.stats->rdma_errors), 1);
        assert_int_equal(host_stat(&pair.a.worker.stats->stale_completions), 0);
        assert_true(host_said(&pair.a, "fake0 port 1, data QP"));
        assert_true(host_said(&pair.a, causes[i].advice));
        pair_end(&pair);
    }
}

static void test_post_is_refused(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    fake_fail(pair.device_a, FAKE_POST_SEND, 0, 1, ENOMEM);
    ticket = move_submit(SQE_WRITE, 0, 100);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    assert_true(host_said(&pair.a, "ibv_post_send: Cannot allocate memory; it is replaced"));
    host_until(host_stat(&pair.a.worker.stats->rdma_renewed) == 1);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_PREPARED(test_attributes),
        TEST_PREPARED(test_mtu_of_the_configuration),
        TEST_PREPARED(test_infiniband),
        TEST_PREPARED(test_infiniband_over_a_router),
        TEST(test_no_queue_pair),
        TEST(test_states_that_are_refused),
        TEST(test_one_doorbell),
        TEST(test_inline),
        TEST_PREPARED(test_no_inline),
        TEST(test_bounded_flight),
        cmocka_unit_test(test_error_is_explained),
        TEST(test_post_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
