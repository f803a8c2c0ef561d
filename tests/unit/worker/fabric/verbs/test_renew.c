/* A queue pair that fails is replaced while its link lives on: nothing is lost, nothing comes
 * twice, the other queue pairs do not notice; and where that cannot be, the whole link ends. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

static struct job_mail mail;

static uint64_t renewed(const struct host *host)
{
    return host_stat(&host->worker.stats->rdma_renewed);
}

/* Both sides have another one, of the same kind and number of them, and both were told of it. */
static void expect_renewed(uint64_t times)
{
    host_until(renewed(&pair.a) == times && renewed(&pair.b) == times);
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    assert_int_equal(pair.device_a->qps, 1 + user_link()->data_count);
    assert_int_equal(pair.device_b->qps, 1 + owner_link()->data_count);
    assert_int_equal(nic_of(&pair.a)->notify_cq.charged % VERBS_QP_DEPTH, 0);
}

static void expect_lost(void)
{
    host_until(pair.link.a->link == NULL);
    assert_int_equal(renewed(&pair.a), 0);
}

static void notify_expect(const void *msg, uint32_t size)
{
    host_until(job_mail(&pair.owner, &mail));
    assert_int_equal(mail.record.msg_len, size);
    assert_memory_equal(mail.msg, msg, size);
}

/* Without a turn of the peer. */
static void turn_until_fresh(const struct verbs_qp *qp)
{
    const uint64_t until = host_deadline();

    while (qp->renewal.state != RENEW_FRESH) {
        host_require(clock_now() < until, "a queue pair that failed is replaced");
        host_turn(&pair.a);
    }
}

static void pauses_forget(struct verbs_link *link)
{
    link->notify->renewal.pause_until = 0;
    for (uint32_t i = 0; i < link->data_count; i++)
        link->data[i]->renewal.pause_until = 0;
}

/* ---- a data queue pair ---- */

/* The transfer on it fails, as do those behind it; later ones and notifications go on. */
static void test_data(void **state)
{
    uint32_t before, notify;
    uint64_t first, second, word;
    struct cqe cqe;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    before = qp_number(user_link()->data[0]);
    notify = qp_number(user_link()->notify);
    pair.device_a->held = true;
    first = move_submit(SQE_WRITE, 0, 100);
    second = move_submit(SQE_READ, 200, 100);
    host_turn(&pair.a);
    fake_break(before, IBV_WC_LOC_PROT_ERR);
    fake_release(pair.device_a);
    assert_int_equal(job_completion(channel, first).status, TS_ERR_FAULT);
    cqe = job_completion(channel, second);
    assert_int_equal(cqe.status, TS_ERR_UNCERTAIN);
    assert_int_equal(cqe.bytes, 0);
    expect_renewed(1);
    assert_int_not_equal(qp_number(user_link()->data[0]), before);
    assert_int_equal(qp_number(user_link()->notify), notify);
    word = notify_submit("word", 4);
    notify_expect("word", 4);
    assert_int_equal(job_completion(channel, word).status, TS_OK);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    assert_int_equal(move(SQE_READ, 0, 100), TS_OK);
}

/* While it is replaced, notifications do not wait, transfers do, and none is lost. */
static void test_notifications_meanwhile(void **state)
{
    uint64_t transfer, word;
    struct cqe cqe;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    turn_until_fresh(user_link()->data[0]);
    transfer = move_submit(SQE_WRITE, 0, 100);
    word = notify_submit("meanwhile", 9);
    for (unsigned i = 0; i < 3; i++)
        host_turn(&pair.a);
    assert_int_equal(job_completion(channel, word).status, TS_OK);
    assert_false(job_complete(channel, &cqe));
    notify_expect("meanwhile", 9);
    assert_int_equal(job_completion(channel, transfer).status, TS_OK);
    expect_renewed(1);
}

/* One of several: the others carry a transfer to its end, also one that had a slice on it. */
static void test_one_of_several(void **state)
{
    uint64_t broken, good;

    (void)state;
    pair.config_a.rdma.data_qps = pair.config_b.rdma.data_qps = 4;
    pair_start(&pair);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->held = true;
    broken = move_submit(SQE_WRITE, 0, 6 * VERBS_SLICE);
    host_turn(&pair.a);
    fake_break(qp_number(user_link()->data[2]), IBV_WC_REM_ACCESS_ERR);
    fake_release(pair.device_a);
    assert_int_equal(job_completion(channel, broken).status, TS_ERR_UNCERTAIN);
    good = move_submit(SQE_WRITE, 0, 6 * VERBS_SLICE);
    assert_int_equal(job_completion(channel, good).status, TS_OK);
    expect_renewed(1);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(user_link()->data[i]->renewal.epoch, i == 2);
}

/* A failed transfer ends when nothing of it can land any more: not before the peer's old queue pair
 * is gone, too. */
static void test_end_of_a_failed_transfer(void **state)
{
    uint64_t ticket;
    struct cqe cqe;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    fake_break(qp_number(user_link()->data[0]), IBV_WC_LOC_QP_OP_ERR);
    ticket = move_submit(SQE_WRITE, 0, 100);
    turn_until_fresh(user_link()->data[0]);
    assert_false(job_complete(channel, &cqe));
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    expect_renewed(1);
}

/* A device that never flushes: its queue pair is destroyed in any case. */
static void test_nothing_comes_back(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->held = true;
    ticket = move_submit(SQE_WRITE, 0, 100);
    host_turn(&pair.a);
    pair.device_a->silent = true;
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    host_turns(3);
    assert_int_equal(user_link()->data[0]->renewal.state, RENEW_DRAINING);
    host_skip(&pair.a, 200);
    assert_int_equal(user_link()->data[0]->renewal.state, RENEW_FRESH);
    pair.device_a->silent = false;
    fake_release(pair.device_a);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    expect_renewed(1);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
}

/* ---- the notification queue pair ---- */

/* Some arrived and were answered, some arrived and were not, some never left. */
static void test_notifications(void **state)
{
    for (unsigned arrived = 0; arrived <= 3; arrived++) {
        uint64_t tickets[6], moved;
        uint32_t notify;

        (void)state;
        pair_begin(&pair, PAIR_VERBS);
        assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
        host_turns(4);
        notify = qp_number(user_link()->notify);
        pair.device_a->held = true;
        for (uint8_t i = 0; i < 6; i++) {
            tickets[i] = notify_submit(&i, 1);
            host_turn(&pair.a); /* a packet each */
        }
        fake_step(pair.device_a, arrived);
        if (arrived == 2) /* they were received before it fails; else after */
            host_turn(&pair.b);
        fake_break(notify, IBV_WC_LOC_QP_OP_ERR);
        fake_release(pair.device_a);
        moved = move_submit(SQE_WRITE, 0, 100);
        for (uint8_t i = 0; i < 6; i++)
            notify_expect(&i, 1);
        for (uint8_t i = 0; i < 6; i++)
            assert_int_equal(job_completion(channel, tickets[i]).status, TS_OK);
        assert_int_equal(job_completion(channel, moved).status, TS_OK);
        expect_renewed(1);
        assert_int_not_equal(qp_number(user_link()->notify), notify);
        assert_int_equal(user_link()->data[0]->renewal.epoch, 0);
        host_turns(4);
        assert_false(job_mail(&pair.owner, &mail));
        assert_int_equal(nic_of(&pair.a)->send.free_count, nic_of(&pair.a)->send.total);
        pair_end(&pair);
    }
}

/* They arrived, and their answers did not: they are not sent again. */
static void test_answers_are_lost(void **state)
{
    unsigned packets;

    (void)state;
    host_turns(4);
    pair.device_a->silent = true;
    for (uint8_t i = 0; i < 3; i++) {
        notify_submit(&i, 1);
        host_turn(&pair.a);
    }
    fake_event_qp(qp_number(user_link()->notify), IBV_EVENT_QP_FATAL);
    host_turn(&pair.a);
    packets = pair.device_b->packets;
    for (uint8_t i = 0; i < 3; i++)
        notify_expect(&i, 1);
    host_skip(&pair.a, 200);
    pair.device_a->silent = false;
    expect_renewed(1);
    notify_submit("next", 4);
    notify_expect("next", 4);
    assert_int_equal(pair.device_b->packets, packets + 1);
}

/* A frame that spans packets, some of which arrived. */
static void test_within_a_frame(void **state)
{
    static uint8_t msg[20000];
    uint64_t ticket;

    (void)state;
    pair.config_a.notify_max = pair.config_b.notify_max = sizeof(msg);
    pair_start(&pair);
    pair_fill(msg, sizeof(msg), 9);
    host_turns(4);
    pair.device_a->held = true;
    ticket = notify_submit(msg, sizeof(msg));
    host_turn(&pair.a);
    fake_step(pair.device_a, 2);
    host_turn(&pair.b);
    assert_true(owner_link()->stream.in_frame);
    fake_break(qp_number(user_link()->notify), IBV_WC_LOC_QP_OP_ERR);
    fake_release(pair.device_a);
    notify_expect(msg, sizeof(msg));
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    expect_renewed(1);
}

/* Each device without a shared receive queue: the new one has its buffers, and the window is the
 * same. */
static void test_without_a_shared_queue(void **state)
{
    (void)state;
    pair.device_a->attr.max_srq = pair.device_b->attr.max_srq = 0;
    pair_start(&pair);
    for (unsigned round = 1; round <= 3; round++) {
        fake_event_qp(qp_number(owner_link()->notify), IBV_EVENT_QP_FATAL);
        expect_renewed(round);
        pauses_forget(user_link());
        pauses_forget(owner_link());
        for (uint8_t i = 0; i < 100; i++) {
            uint64_t ticket = notify_submit(&i, 1);

            notify_expect(&i, 1);
            assert_int_equal(job_completion(channel, ticket).status, TS_OK);
        }
    }
}

/* Both sides notice it at the same time, and each one's word crosses the other's. */
static void test_both_notice(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct verbs_link *a = user_link(), *b = owner_link();
        uint64_t word;

        fake_event_qp(qp_number(kind == 0 ? a->notify : a->data[0]), IBV_EVENT_QP_FATAL);
        fake_event_qp(qp_number(kind == 0 ? b->notify : b->data[0]), IBV_EVENT_QP_FATAL);
        expect_renewed(kind + 1);
        assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
        word = notify_submit("both", 4);
        notify_expect("both", 4);
        assert_int_equal(job_completion(channel, word).status, TS_OK);
    }
}

/* ---- where the whole link ends ---- */

/* The bytes of a transfer and its notification are on it together. */
static void test_fused(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, 100);
    const struct job_note note = {.msg = "bound", .msg_len = 5};
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    sqe.flags |= SQE_FLAG_NOTIFY;
    fake_break(qp_number(user_link()->notify), IBV_WC_REM_ACCESS_ERR);
    ticket = job_submit(channel, &sqe, &note);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    expect_lost();
}

static void test_fails_again(void **state)
{
    (void)state;
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    expect_renewed(1);
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    host_until(pair.link.a->link == NULL);
    assert_int_equal(renewed(&pair.a), 1);
}

static void test_dead_path(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->lost = true;
    ticket = move_submit(SQE_WRITE, 0, 100);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    expect_lost();
}

static void test_old_peer(void **state)
{
    (void)state;
    user_link()->peer_renews = false;
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    expect_lost();
}

static void test_no_queue_pair_left(void **state)
{
    (void)state;
    fake_fail(pair.device_a, FAKE_CREATE_QP, 0, 2, ENOMEM);
    fake_event_qp(qp_number(user_link()->notify), IBV_EVENT_QP_FATAL);
    expect_lost();
    assert_true(host_said(&pair.a, "no notification queue pair: Cannot allocate memory"));
}

static void test_no_way_to_connect(void **state)
{
    (void)state;
    fake_fail(pair.device_a, FAKE_MODIFY_QP, 2, 1, ENETUNREACH); /* ERR, INIT, and then RTR */
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    expect_lost();
}

static void test_peer_says_nothing(void **state)
{
    (void)state;
    fake_event_qp(qp_number(user_link()->data[0]), IBV_EVENT_QP_FATAL);
    turn_until_fresh(user_link()->data[0]);
    host_skip(&pair.a, HOST_CONNECT_MS);
    expect_lost();
    assert_true(host_said(&pair.a, "the peer did not replace a queue pair in time"));
}

/* ---- words that no honest peer says ---- */

static void forge_in(enum verbs_renew_state at, const struct frame *frame)
{
    pair_begin(&pair, PAIR_VERBS);
    if (at != RENEW_LIVE) {
        fake_event_qp(qp_number(user_link()->notify), IBV_EVENT_QP_FATAL);
        turn_until_fresh(user_link()->notify);
    }
    assert_int_equal(verbs_on_frame(&user_link()->link, frame, NULL), TS_ERR_PROTOCOL);
    link_on_lost(pair.link.a->link, TS_ERR_PROTOCOL, "the test ends it");
    host_turns(2);
    pair_end(&pair);
}

static void test_forged(void **state)
{
    const uint32_t notify = VERBS_RENEW_NOTIFY;
    const struct frame live[] = {
        {.type = FRAME_BROKEN, .open = 1},
        {.type = FRAME_BROKEN, .open = 0, .offset = 1},
        {.type = FRAME_BROKEN, .open = notify, .offset = UINT64_MAX},
        {.type = FRAME_RENEW, .open = notify, .request = 5},
        {.type = FRAME_RENEW, .open = notify, .request = 5, .offset = 1},
        {.type = FRAME_RENEWED, .open = notify},
        {.type = FRAME_RENEWED, .open = 0, .offset = 1},
    };
    const struct frame fresh[] = {
        {.type = FRAME_BROKEN, .open = notify, .offset = 1},
        {.type = FRAME_RENEW, .open = notify, .request = 5, .offset = 2},
        {.type = FRAME_RENEW, .open = notify, .request = 0, .offset = 1},
        {.type = FRAME_RENEW, .open = notify, .request = 1 << 24, .offset = 1},
        {.type = FRAME_RENEW, .open = notify, .request = 5, .region = 1 << 24, .offset = 1},
        {.type = FRAME_RENEW, .open = notify, .request = 5, .value = UINT64_MAX, .offset = 1},
        {.type = FRAME_RENEW, .open = notify, .request = 5, .value = 70000, .offset = 1},
        {.type = FRAME_RENEWED, .open = notify, .offset = 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
        forge_in(RENEW_LIVE, &live[i]);
    for (size_t i = 0; i < sizeof(fresh) / sizeof(fresh[0]); i++)
        forge_in(RENEW_FRESH, &fresh[i]);
}

/* A packet of the queue pair of before, that comes late. */
static void test_late_packet(void **state)
{
    struct verbs_packet packet;
    uint64_t stale;

    (void)state;
    fake_event_qp(qp_number(user_link()->notify), IBV_EVENT_QP_FATAL);
    expect_renewed(1);
    stale = host_stat(&pair.a.worker.stats->stale_completions);
    packet = (struct verbs_packet){.generation = user_link()->generation,
                                   .sequence = user_link()->stream.sequence_in};
    assert_true(fake_send(qp_number(user_link()->notify), &packet, sizeof(packet)));
    host_turns(2);
    assert_int_equal(host_stat(&pair.a.worker.stats->stale_completions), stale + 1);
    notify_submit("on", 2);
    notify_expect("on", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_data),
        TEST(test_notifications_meanwhile),
        TEST_PREPARED(test_one_of_several),
        TEST(test_end_of_a_failed_transfer),
        TEST(test_nothing_comes_back),
        cmocka_unit_test(test_notifications),
        TEST(test_answers_are_lost),
        TEST_PREPARED(test_within_a_frame),
        TEST_PREPARED(test_without_a_shared_queue),
        TEST(test_both_notice),
        TEST(test_fused),
        TEST(test_fails_again),
        TEST(test_dead_path),
        TEST(test_old_peer),
        TEST(test_no_queue_pair_left),
        TEST(test_no_way_to_connect),
        TEST(test_peer_says_nothing),
        cmocka_unit_test(test_forged),
        TEST(test_late_packet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
