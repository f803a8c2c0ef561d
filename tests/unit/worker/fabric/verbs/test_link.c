/* The life of a link: what both sides settle on, who is refused and why, and an end after which
 * nothing lands, whatever the device does. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include <unistd.h>

static struct job_mail mail;

/* ---- set-up ---- */

/* Two endpoints whose handshake is under way. */
static struct endpoint *first, *second;
static char text[PROTO_TEXT_MAX];

static struct endpoint *prepared(struct host *host, uint8_t id, bool initiator)
{
    struct endpoint *endpoint = host_endpoint(host, "third", id, HOST_NOTIFY_MAX);

    endpoint->offer = verbs_link_prepare(endpoint, initiator, text, sizeof(text));
    return endpoint;
}

static int setup_offers(void **state)
{
    setup(state);
    first = prepared(&pair.a, 0x11, true);
    second = prepared(&pair.b, 0x22, false);
    return 0;
}

static int answer(const struct handshake_verbs *offer)
{
    return verbs_link_answer(second->offer, offer, text, sizeof(text));
}

static int confirm(const struct handshake_verbs *offer)
{
    return verbs_link_confirm(first->offer, offer, text, sizeof(text));
}

static void test_offer(void **state)
{
    const struct handshake_verbs *offer = verbs_link_offer(first->offer);

    (void)state;
    assert_true(offer->offered);
    assert_int_equal(offer->gid_count, 2);
    assert_memory_equal(offer->gid[0], &pair.device_a->gid[1].gid, 16);
    assert_int_equal(offer->mtu, 1024);
    assert_int_equal(offer->data_qps, 1);
    assert_int_equal(offer->reads, 16);
    assert_int_equal(offer->window, 64);
    assert_int_not_equal(offer->notify_qp, offer->data_qp[0]);
    assert_true(offer->psn <= 0xffffff);
}

/* The responder says which pair of GIDs it took. */
static void test_answer(void **state)
{
    const struct handshake_verbs *mine = verbs_link_offer(second->offer);

    (void)state;
    assert_int_equal(answer(verbs_link_offer(first->offer)), TS_OK);
    assert_int_equal(mine->gid_count, 1);
    assert_int_equal(mine->gid_chosen, 0);
    assert_memory_equal(mine->gid[0], &pair.device_b->gid[1].gid, 16);
    assert_int_equal(confirm(mine), TS_OK);
    assert_int_equal(fake_state(qp_number(verbs_of(first->offer)->notify)), IBV_QPS_RTS);
}

/* The best pair of GIDs does not work (no route): the next one is taken. */
static void test_next_pair_of_gids(void **state)
{
    (void)state;
    fake_fail(pair.device_b, FAKE_MODIFY_QP, 0, 1, ENETUNREACH);
    assert_int_equal(answer(verbs_link_offer(first->offer)), TS_OK);
    assert_memory_equal(verbs_link_offer(second->offer)->gid[0], &pair.device_b->gid[0].gid, 16);
    assert_int_equal(verbs_link_offer(second->offer)->gid_chosen, 1);
}

/* The first pair failed half-way: queue pairs that are past INIT begin again, same numbers. */
static void test_next_pair_after_some_queues(void **state)
{
    uint32_t number = verbs_link_offer(second->offer)->data_qp[0];

    (void)state;
    fake_fail(pair.device_b, FAKE_MODIFY_QP, 3, 1, ENETUNREACH); /* the notification QP's RTS */
    assert_int_equal(answer(verbs_link_offer(first->offer)), TS_OK);
    assert_int_equal(verbs_link_offer(second->offer)->data_qp[0], number);
    assert_int_equal(verbs_link_offer(second->offer)->gid_chosen, 1);
    assert_int_equal(verbs_link_offer(second->offer)->gid_pairs, 2);
    assert_int_equal(fake_state(qp_number(verbs_of(second->offer)->notify)), IBV_QPS_RTS);
    assert_non_null(strstr(pair.b.worker.block->error[0].text, "by index: 1: Network is unreach"));
}

/* No link came up over the first pair, says the peer. */
static void test_pairs_that_were_tried(void **state)
{
    struct handshake_verbs offer = *verbs_link_offer(first->offer);

    (void)state;
    offer.gid_pairs = 1;
    assert_int_equal(answer(&offer), TS_OK);
    assert_int_equal(verbs_link_offer(second->offer)->gid_chosen, 1);
}

static void test_all_pairs_fail(void **state)
{
    struct handshake_verbs offer = *verbs_link_offer(first->offer);

    (void)state;
    offer.gid_count = 1;
    fake_fail(pair.device_b, FAKE_MODIFY_QP, 0, 1, ENETUNREACH);
    assert_int_equal(answer(&offer), TS_ERR_UNREACHABLE);
    assert_non_null(strstr(text, "by index of our GID: 1: Network is unreachable"));
    fake_fail(pair.device_b, FAKE_MODIFY_QP, 0, 2, ENETUNREACH); /* and no way back */
    assert_int_equal(answer(verbs_link_offer(first->offer)), TS_ERR_UNREACHABLE);
    assert_non_null(strstr(text, "cannot be reset"));
}

static void test_no_pair_of_gids(void **state)
{
    struct handshake_verbs offer = *verbs_link_offer(first->offer);

    (void)state;
    offer.gid_type[0] = offer.gid_type[1] = IBV_GID_TYPE_ROCE_V1;
    assert_int_equal(answer(&offer), TS_ERR_UNREACHABLE);
    assert_string_equal(text, "fake1 port 1 and the peer have no GIDs of one kind; here: 1: "
                              "10.0.0.2 (RoCE v2) 0: fe80::2 (RoCE v2)");
}

static void test_gids_changed_meanwhile(void **state)
{
    (void)state;
    assert_int_equal(answer(verbs_link_offer(first->offer)), TS_OK);
    fake_gid_set(pair.device_a, 1, IBV_GID_TYPE_ROCE_V2, "10.9.9.9");
    assert_int_equal(verbs_gids_read(nic_of(&pair.a), text, sizeof(text)), TS_OK);
    assert_int_equal(confirm(verbs_link_offer(second->offer)), TS_ERR_UNREACHABLE);
    assert_string_equal(text, "fake0 port 1: its GIDs changed during the handshake");
}

static void test_answers_that_were_not_asked_for(void **state)
{
    struct handshake_verbs offer;

    (void)state;
    assert_int_equal(answer(verbs_link_offer(first->offer)), TS_OK);
    offer = *verbs_link_offer(second->offer);
    offer.data_qps = 2;
    assert_int_equal(confirm(&offer), TS_ERR_PROTOCOL);
    offer = *verbs_link_offer(second->offer);
    offer.gid_count = 2;
    assert_int_equal(confirm(&offer), TS_ERR_PROTOCOL);
    offer = *verbs_link_offer(second->offer);
    offer.gid_chosen = 7;
    assert_int_equal(confirm(&offer), TS_ERR_UNREACHABLE);
}

static void test_smaller_number_of_stripes(void **state)
{
    (void)state;
    pair.config_a.rdma.data_qps = 4;
    pair.config_b.rdma.data_qps = 2;
    pair_start(&pair);
    assert_int_equal(user_link()->data_count, 2);
    assert_int_equal(pair.device_a->qps, 3);
    assert_int_equal(nic_of(&pair.a)->data_cq.charged, 2 * VERBS_QP_DEPTH);
    assert_int_equal(move(SQE_WRITE, 0, 4 * 1024 * 1024), TS_OK);
}

static void test_port_is_down(void **state)
{
    struct endpoint *endpoint;

    (void)state;
    nic_of(&pair.a)->port_down = true;
    endpoint = prepared(&pair.a, 0x11, true);
    assert_null(endpoint->offer);
    assert_string_equal(text, "fake0 port 1 is down");
}

/* ---- notifications with and without a queue pair ---- */

static void expect_notification_by_tcp(const char *shown)
{
    const struct job_note note = {.msg = "bound", .msg_len = 5};
    const struct sqe sqe = pair_move(SQE_WRITE, 0, 1000);
    uint64_t ticket;

    assert_null(user_link()->notify);
    assert_string_equal(user_link()->link.notify_text, shown);
    memset(pair.here, 'x', 1000);
    ticket = job_submit(channel, &sqe, &note);
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(mail.msg, "bound", 5);
    assert_int_equal(pair.there[999], 'x');
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    assert_int_equal(pair.device_b->packets, 0);
}

static void test_native_is_off_here(void **state)
{
    (void)state;
    pair.config_a.notify_native = 0;
    pair.config_b.notify_oob = 1;
    pair_start(&pair);
    expect_notification_by_tcp("tcp (native is off)");
}

static void test_native_is_off_there(void **state)
{
    (void)state;
    pair.config_b.notify_native = 0;
    pair.config_a.notify_oob = 1;
    pair_start(&pair);
    expect_notification_by_tcp("tcp (no notification QP there)");
}

static void expect_refused(int status)
{
    uint64_t ticket = notify_submit("n", 1);

    assert_int_equal(job_completion(channel, ticket).status, status);
    assert_int_equal(move(SQE_WRITE, 0, 100000), TS_OK); /* data goes on */
    assert_false(job_mail(&pair.owner, &mail));
}

static void test_native_is_off_there_and_no_fallback(void **state)
{
    (void)state;
    pair.config_b.notify_native = 0;
    pair_start(&pair);
    assert_string_equal(user_link()->notify_text, "refused (no notification QP there)");
    expect_refused(TS_ERR_UNSUPPORTED);
    assert_int_equal(nic_of(&pair.a)->window_reserved, 0);
}

/* The device has no room for one more: that endpoint says so, the others do not notice. */
static void test_no_room_here(void **state)
{
    struct host_link more;

    (void)state;
    pair.device_a->attr.max_cqe = 256;
    pair_start(&pair); /* 128 receives and 64 sends: one more endpoint fits */
    more = host_link_verbs(&pair.a, &pair.b);
    assert_non_null(verbs_of(more.a->link)->notify);
    assert_int_equal(nic_of(&pair.a)->notify_cq.charged, 256);
    first = prepared(&pair.a, 0x33, true);
    assert_non_null(first->offer);
    assert_null(verbs_of(first->offer)->notify);
    assert_string_equal(verbs_of(first->offer)->notify_text, "refused (no room here)");
    assert_int_equal(first->offer->notify_status, TS_ERR_LIMIT);
    assert_true(host_said(&pair.a, "no notification queue pair for 127.0.0.1:1: fake0 port 1: the "
                                   "notification completion queue is full: 256 entries in use"));
    assert_int_equal(job_completion(channel, notify_submit("on", 2)).status, TS_OK);
    host_until(job_mail(&pair.owner, &mail));
    assert_int_equal(move(SQE_READ, 0, 100000), TS_OK);
}

static void test_no_room_for_data(void **state)
{
    (void)state;
    pair.device_a->attr.max_cqe = 200;
    pair.config_a.rdma.data_qps = pair.config_b.rdma.data_qps = 2;
    pair_start(&pair);
    first = prepared(&pair.a, 0x33, true);
    assert_null(first->offer);
    assert_non_null(strstr(text, "the data completion queue is full: 192 entries in use, 64 more"));
    assert_int_equal(nic_of(&pair.a)->data_cq.charged, 128); /* the first of its two is gone */
    assert_int_equal(move(SQE_READ, 0, 100000), TS_OK);
}

/* ---- the end ---- */

static struct cqe completion_of(uint64_t ticket)
{
    struct cqe cqe;

    do
        host_until(job_complete(channel, &cqe));
    while (cqe.ticket != ticket);
    return cqe;
}

static void expect_nothing_left(void)
{
    const struct verbs_nic *nic = nic_of(&pair.a);

    assert_int_equal(pair.device_a->qps, 0);
    assert_int_equal(nic->data_cq.charged, 0);
    assert_int_equal(nic->notify_cq.charged, nic->receive.total);
    assert_int_equal(nic->send.free_count, nic->send.total);
    assert_int_equal(nic->window_reserved, 0);
    assert_int_equal(pair.device_a->srq_posted, nic->receive.total);
    assert_true(list_empty(&nic->links));
}

static void ends_under_load(bool cleans, bool silent)
{
    uint64_t tickets[4];
    struct cqe cqe;

    pair.device_a->cleans = pair.device_b->cleans = cleans;
    pair_start(&pair);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    memset(pair.here, 'n', PAIR_MEMORY);
    pair.device_a->held = true;
    pair.device_a->silent = silent;
    tickets[0] = move_submit(SQE_WRITE, 0, 3 * 1024 * 1024);
    tickets[1] = move_submit(SQE_READ, 0, 1000);
    tickets[2] = move_submit(SQE_WRITE, 0, 1000);
    tickets[3] = notify_submit("n", 1);
    host_turn(&pair.a);
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "the test cuts it");
    host_turn(&pair.a);
    assert_null(pair.link.a->link);
    expect_nothing_left();
    for (unsigned i = 0; i < 4; i++) {
        host_until(job_complete(channel, &cqe));
        assert_int_equal(cqe.status, cqe.ticket == tickets[3] ? TS_OK : TS_ERR_UNCERTAIN);
    }
    memset(pair.there, 'o', 3000);
    pair.device_a->silent = false;
    fake_release(pair.device_a);
    host_turns(3);
    assert_int_equal(pair.there[0], 'o');
    host_until(!has_links(&pair.b));
}

/* Completions are outstanding: they are counted in before the queue pairs go. */
static void test_end_under_load(void **state)
{
    (void)state;
    ends_under_load(false, false);
    assert_int_equal(host_stat(&pair.a.worker.stats->stale_completions), 0);
}

static void test_end_under_load_of_a_device_that_cleans(void **state)
{
    (void)state;
    ends_under_load(true, false);
}

/* None is ever seen: the end comes all the same. */
static void test_end_of_a_device_that_says_nothing(void **state)
{
    (void)state;
    ends_under_load(true, true);
}

/* What the peer had sent before is delivered, behind however much others have in the queue. */
static void test_last_words(void **state)
{
    const struct ibv_wc wc = {.wr_id = 0, .status = IBV_WC_SUCCESS};

    (void)state;
    for (unsigned i = 0; i < 128; i++)
        fake_completion(qp_number(owner_link()->notify), &wc); /* of somebody else */
    notify_submit("farewell", 8);
    host_turn(&pair.a);
    link_on_lost(pair.link.b->link, TS_ERR_UNREACHABLE, "the test cuts it");
    (void)endpoint_reap(&pair.b.worker);
    assert_false(has_links(&pair.b));
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(mail.msg, "farewell", 8);
    host_turns(2);
}

/* The peer's TCP connection is the sign of its life. */
static void test_peer_is_gone(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->held = true;
    ticket = move_submit(SQE_WRITE, 0, 1000);
    host_turn(&pair.a);
    assert_int_equal(pair.link.a->shown->data_queue[0].own, qp_number(user_link()->data[0]));
    assert_int_equal(pair.link.a->shown->data_queue[0].peer, qp_number(owner_link()->data[0]));
    assert_int_equal(pair.link.a->shown->notify_queue.own, qp_number(user_link()->notify));
    link_on_lost(pair.link.b->link, TS_ERR_UNREACHABLE, "its worker dies");
    host_turn(&pair.b);
    assert_int_equal(completion_of(ticket).status, TS_ERR_UNCERTAIN);
    expect_nothing_left();
    assert_int_equal(pair.link.a->shown->data_queues, 0); /* status shows none that is gone */
    assert_int_equal(pair.link.a->shown->notify_queue.own, 0);
}

/* Not yet posted: goes over the next connection. */
static void test_waiting_transfer_outlives_the_link(void **state)
{
    struct host_link again;
    uint64_t ticket;

    (void)state;
    ticket = move_submit(SQE_WRITE, 0, 1000); /* asks for the keys */
    host_turn(&pair.a);
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "the test cuts it");
    host_turns(2);
    assert_non_null(job_request(channel, ticket));
    host_until(!has_links(&pair.b));
    again = host_link_verbs(&pair.a, &pair.b);
    endpoint_hand_over(pair.link.a, again.a);
    assert_int_equal(completion_of(ticket).status, TS_OK);
}

/* BYE is answered before the queue pairs go. */
static void test_drained(void **state)
{
    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    notify_submit("before", 6);
    endpoint_handle(pair.link.a, ENDPOINT_EVENT_DUPLICATE, TS_OK, "the test drains it");
    host_until(job_mail(&pair.owner, &mail));
    assert_memory_equal(mail.msg, "before", 6);
    host_until(pair.device_a->qps == 0 || pair.link.a->state != ENDPOINT_READY);
}

#define TEST_OFFERS(name) cmocka_unit_test_setup_teardown(name, setup_offers, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OFFERS(test_offer),
        TEST_OFFERS(test_answer),
        TEST_OFFERS(test_next_pair_of_gids),
        TEST_OFFERS(test_next_pair_after_some_queues),
        TEST_OFFERS(test_pairs_that_were_tried),
        TEST_OFFERS(test_all_pairs_fail),
        TEST_OFFERS(test_no_pair_of_gids),
        TEST_OFFERS(test_gids_changed_meanwhile),
        TEST_OFFERS(test_answers_that_were_not_asked_for),
        TEST_PREPARED(test_smaller_number_of_stripes),
        TEST(test_port_is_down),
        TEST_PREPARED(test_native_is_off_here),
        TEST_PREPARED(test_native_is_off_there),
        TEST_PREPARED(test_native_is_off_there_and_no_fallback),
        TEST_PREPARED(test_no_room_here),
        TEST_PREPARED(test_no_room_for_data),
        TEST_PREPARED(test_end_under_load),
        TEST_PREPARED(test_end_under_load_of_a_device_that_cleans),
        TEST_PREPARED(test_end_of_a_device_that_says_nothing),
        TEST(test_last_words),
        TEST(test_peer_is_gone),
        TEST(test_waiting_transfer_outlives_the_link),
        TEST(test_drained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
