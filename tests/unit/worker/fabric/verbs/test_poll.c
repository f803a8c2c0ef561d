/* Completions find their queue pair by slot and generation; what belongs to nobody any more is
 * counted and touches nothing. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

static uint64_t stale_of(const struct host *host)
{
    return host_stat(&host->worker.stats->stale_completions);
}

static void completion(uint64_t wr_id)
{
    const struct ibv_wc wc = {.wr_id = wr_id,
                              .status = IBV_WC_SUCCESS,
                              .opcode = IBV_WC_SEND,
                              .qp_num = qp_number(user_link()->notify)};

    fake_completion(wc.qp_num, &wc);
    host_turn(&pair.a);
}

static void test_unknown_completions(void **state)
{
    const struct verbs_qp *qp = user_link()->notify;
    uint32_t index = qp->slot << 16 | (qp->head & 0xffff);

    (void)state;
    completion(0);
    assert_int_equal(stale_of(&pair.a), 1);
    completion(verbs_wr_id((enum verbs_wr_kind)15, 0, 0));
    assert_int_equal(stale_of(&pair.a), 2);
    completion(verbs_wr_id(VERBS_WR_SEND, qp->generation + 1, index));
    assert_int_equal(stale_of(&pair.a), 3);
    completion(verbs_wr_id(VERBS_WR_SEND, 0, 0xffffu << 16)); /* no such slot */
    assert_int_equal(stale_of(&pair.a), 4);
    completion(verbs_wr_id(VERBS_WR_SEND, qp->generation, index)); /* it was not posted */
    assert_int_equal(stale_of(&pair.a), 5);
    completion(
        verbs_wr_id(VERBS_WR_SEND, qp->generation, qp->slot << 16 | ((qp->tail - 1) & 0xffff)));
    assert_int_equal(stale_of(&pair.a), 6); /* it came before */
    completion(verbs_wr_id(VERBS_WR_RECEIVE, 0, nic_of(&pair.a)->receive.total));
    assert_int_equal(stale_of(&pair.a), 7);
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    assert_int_equal(move(SQE_WRITE, 0, 1000), TS_OK);
}

/* A slot's next owner has another generation. */
static void test_slots(void **state)
{
    struct verbs_nic *nic = nic_of(&pair.a);
    char text[PROTO_TEXT_MAX];
    struct verbs_qp *qp;
    uint32_t slot, generation;
    int rc;

    (void)state;
    qp = verbs_qp_create(user_link(), false, &rc, text, sizeof(text));
    slot = qp->slot;
    generation = qp->generation;
    verbs_qp_destroy(qp);
    nic->slot_free = slot;
    qp = verbs_qp_create(user_link(), false, &rc, text, sizeof(text));
    assert_int_equal(qp->slot, slot);
    assert_int_equal(qp->generation, generation + 1);
    nic->slots[slot].generation = VERBS_GENERATION_MASK;
    verbs_qp_destroy(qp);
    assert_int_equal(nic->slots[slot].generation, 0); /* goes round within its 28 bits */
}

/* Free slots are spread: one is reused late. */
static void test_many_slots(void **state)
{
    enum { COUNT = 200 };
    struct verbs_nic *nic = nic_of(&pair.a);
    struct verbs_qp *qps[COUNT];
    char text[PROTO_TEXT_MAX];
    int rc;

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        qps[i] = verbs_qp_create(user_link(), true, &rc, text, sizeof(text));
        assert_non_null(qps[i]);
        for (unsigned j = 0; j < i; j++)
            assert_int_not_equal(qps[i]->slot, qps[j]->slot);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_ptr_equal(nic->slots[qps[i]->slot].qp, qps[i]);
        assert_ptr_equal(verbs_qp_find(nic, qp_number(qps[i])), qps[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t number = qp_number(qps[i]);

        verbs_qp_destroy(qps[i]);
        assert_null(verbs_qp_find(nic, number));
    }
}

/* Numbers of one bucket. */
static void test_numbers_that_collide(void **state)
{
    struct verbs_nic *nic = nic_of(&pair.a);
    struct verbs_qp *qps[3];
    char text[PROTO_TEXT_MAX];
    int rc;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        pair.device_a->next_number = 5000 + i * VERBS_NUMBERS;
        qps[i] = verbs_qp_create(user_link(), true, &rc, text, sizeof(text));
    }
    verbs_qp_destroy(qps[1]);
    assert_ptr_equal(verbs_qp_find(nic, 5000), qps[0]);
    assert_null(verbs_qp_find(nic, 5000 + VERBS_NUMBERS));
    assert_ptr_equal(verbs_qp_find(nic, 5000 + 2 * VERBS_NUMBERS), qps[2]);
    verbs_qp_destroy(qps[0]);
    verbs_qp_destroy(qps[2]);
}

static void ends_late(void)
{
    uint32_t number = qp_number(user_link()->notify), data = qp_number(user_link()->data[0]);

    /* The device is slow: what ends the link is seen long after the queue pairs are gone. */
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->silent = true;
    move_submit(SQE_WRITE, 0, 100);
    notify_submit("late", 4);
    host_turns(3);
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "the test cuts it");
    host_until(pair.link.a->link == NULL);
    assert_int_equal(pair.device_a->qps, 0);
    host_until(!has_links(&pair.b));
    /* Its numbers come again. */
    pair.device_a->next_number = data < number ? data : number;
    pair.device_b->next_number += 10;
}

/* The connection after it has the same numbers and the same slots; nothing of the old one is taken
 * for it. */
static void test_completions_of_a_dead_queue_pair(void **state)
{
    struct job_mail mail;
    struct host_link again;
    struct cqe cqe;

    (void)state;
    ends_late();
    while (job_complete(channel, &cqe))
        assert_true(cqe.status == TS_OK || cqe.status == TS_ERR_UNCERTAIN);
    nic_of(&pair.a)->slot_free = 0;
    pair.device_a->silent = false; /* seen in the first turn after the new ones are made */
    again = host_link_verbs(&pair.a, &pair.b);
    host_turns(4);
    assert_true(stale_of(&pair.a) >= 2);
    assert_int_equal(again.a->state, ENDPOINT_READY);
    host_until(job_mail(&pair.owner, &mail)); /* it had arrived */
}

static void test_packet_of_an_earlier_connection(void **state)
{
    struct verbs_packet packet = {.generation = user_link()->generation - 1, .sequence = 77};
    uint32_t posted = pair.device_a->srq_posted;

    (void)state;
    assert_true(fake_send(qp_number(user_link()->notify), &packet, sizeof(packet)));
    host_turns(2);
    assert_int_equal(stale_of(&pair.a), 1);
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    assert_int_equal(pair.device_a->srq_posted, posted); /* the buffer is back */
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
}

/* Received for a queue pair that is gone: the buffer goes back to the shared queue. */
static void test_packet_for_nobody(void **state)
{
    const struct verbs_nic *nic = nic_of(&pair.a);
    char text[PROTO_TEXT_MAX];
    uint32_t posted = pair.device_a->srq_posted;
    struct verbs_packet packet = {.generation = 0};
    struct verbs_path path = {.mtu = 1024, .qp = 77, .reads = 1};
    struct verbs_qp *qp;
    int rc;

    (void)state;
    qp = verbs_qp_create(user_link(), true, &rc, text, sizeof(text));
    assert_int_equal(verbs_qp_connect(qp, &path, text, sizeof(text)), TS_OK);
    assert_true(fake_send(qp_number(qp), &packet, sizeof(packet)));
    assert_int_equal(pair.device_a->srq_posted, posted - 1);
    verbs_qp_destroy(qp);
    host_turn(&pair.a);
    assert_int_equal(stale_of(&pair.a), 1);
    assert_int_equal(pair.device_a->srq_posted, posted);
    assert_int_equal(nic->receive.free_count, 0);
}

/* A buffer that cannot be posted again is kept, not lost. */
static void test_receive_buffer_refused_later(void **state)
{
    struct verbs_nic *nic = nic_of(&pair.b);
    struct job_mail mail;
    char text[PROTO_TEXT_MAX];

    (void)state;
    fake_fail(pair.device_b, FAKE_POST_RECEIVE, 0, 1, ENOMEM);
    notify_submit("x", 1);
    host_until(job_mail(&pair.owner, &mail));
    assert_true(host_said(&pair.b, "cannot post a receive buffer: Cannot allocate memory"));
    assert_int_equal(nic->receive.free_count, 1);
    assert_int_equal(verbs_window_reserve(nic, text, sizeof(text)), 64);
    assert_int_equal(nic->receive.free_count, 0);
    verbs_window_release(nic, 64);
    host_turns(2);
}

/* ---- without shared receive queues ---- */

static void test_no_srq(void **state)
{
    const struct verbs_nic *nic;
    struct job_mail mail;
    struct cqe cqe;

    (void)state;
    pair.device_a->attr.max_srq = pair.device_b->attr.max_srq = 0;
    pair_start(&pair);
    nic = nic_of(&pair.b);
    assert_null(nic->srq);
    assert_int_equal(nic->notify_cq.charged, 2 * VERBS_QP_DEPTH);
    for (uint8_t i = 0; i < 200; i++) { /* each buffer some times */
        notify_submit(&i, 1);
        host_until(job_mail(&pair.owner, &mail));
        assert_int_equal(mail.msg[0], i);
        host_until(job_complete(channel, &cqe));
        host_turns(2);
    }
    host_end_endpoints(&pair.a);
    host_until(pair.b.worker.endpoint_count == 2);
    host_until(nic->notify_cq.charged == 0);
    assert_int_equal(nic->receive.free_count, nic->receive.total); /* all came back */
    assert_int_equal(nic_of(&pair.a)->receive.free_count, nic_of(&pair.a)->receive.total);
}

/* Flushed receives that are seen after their queue pair's end do not give a buffer back twice. */
static void test_no_srq_late_flush(void **state)
{
    const struct verbs_nic *nic;
    uint32_t count = 0;

    (void)state;
    pair.device_a->attr.max_srq = pair.device_b->attr.max_srq = 0;
    pair_start(&pair);
    nic = nic_of(&pair.a);
    ends_late();
    pair.device_a->silent = false;
    host_turns(2);
    assert_true(stale_of(&pair.a) >= 64);
    assert_int_equal(nic->receive.free_count, nic->receive.total);
    for (struct verbs_buffer *buffer = nic->receive.free; buffer != NULL && count < 1000;
         buffer = buffer->next)
        count++;
    assert_int_equal(count, nic->receive.total);
}

static void test_no_srq_and_no_buffers(void **state)
{
    (void)state;
    pair.device_a->attr.max_srq = 0;
    fake_fail(pair.device_a, FAKE_POST_RECEIVE, 10, 1, ENOMEM);
    pair_start(&pair);
    /* Better no notification queue pair than one with fewer buffers than were promised. */
    assert_null(user_link()->notify);
    assert_string_equal(user_link()->notify_text, "refused (no room here)");
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
}

/* Nobody is starved: one call takes a bounded number from each queue. */
static void test_bounded_poll(void **state)
{
    const struct ibv_wc wc = {.wr_id = 0, .status = IBV_WC_SUCCESS};

    (void)state;
    for (unsigned i = 0; i < 150; i++)
        fake_completion(qp_number(user_link()->notify), &wc);
    assert_int_equal(verbs_poll_once(nic_of(&pair.a)), 128);
    assert_int_equal(verbs_poll_once(nic_of(&pair.a)), 22);
    nic_of(&pair.a)->polling = true; /* as if a completion's handler called */
    fake_completion(qp_number(user_link()->notify), &wc);
    assert_int_equal(verbs_poll_once(nic_of(&pair.a)), 0);
    nic_of(&pair.a)->polling = false;
    assert_int_equal(verbs_poll_once(nic_of(&pair.a)), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_unknown_completions),
        TEST(test_slots),
        TEST(test_many_slots),
        TEST(test_numbers_that_collide),
        TEST(test_completions_of_a_dead_queue_pair),
        TEST(test_packet_of_an_earlier_connection),
        TEST(test_packet_for_nobody),
        TEST(test_receive_buffer_refused_later),
        TEST_PREPARED(test_no_srq),
        TEST_PREPARED(test_no_srq_late_flush),
        TEST_PREPARED(test_no_srq_and_no_buffers),
        TEST(test_bounded_poll),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
