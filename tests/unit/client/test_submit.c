/* What a request becomes in the rings, what is refused, and how room comes and goes. */
#include "tests/unit/client/attached_fixture.h"

#define REMOTE ((1u << 14) | 5u)
#define REGION ((1u << 14) | 7u)

/* Every counter of every ring wraps around early in the test. */
static int setup_wrapping(void **state)
{
    (void)state;
    attached_begin(UINT64_MAX - 99);
    return 0;
}

static int submit(const struct tesup_request *request)
{
    uint32_t accepted = 77;
    int rc = tesup_submit(channel, request, 1, NULL, &accepted);

    assert_int_equal(accepted, rc == TESUP_OK);
    return rc;
}

static struct tesup_completion poll_one(void)
{
    struct tesup_completion completion = {0};

    assert_int_equal(tesup_poll(channel, &completion, 1), 1);
    return completion;
}

static void test_write_becomes_descriptor(void **state)
{
    const struct tesup_request request = {.op = TESUP_OP_WRITE,
                                          .cookie = 0x1122334455667788,
                                          .remote = REMOTE,
                                          .local_region = REGION,
                                          .local_offset = 4096,
                                          .remote_region = 0xabcdef,
                                          .remote_offset = 1 << 20,
                                          .length = 65536,
                                          .deadline_ms = 250};
    struct tesup_completion completion;
    struct sqe sqe;

    (void)state;
    assert_int_equal(submit(&request), TESUP_OK);
    sqe = fake_serve(worker, TS_OK);
    assert_int_equal(sqe.op, SQE_WRITE);
    assert_int_equal(sqe.flags, 0);
    assert_int_equal(sqe.cookie, request.cookie);
    assert_int_equal(sqe.remote, REMOTE);
    assert_int_equal(sqe.local_region, REGION);
    assert_int_equal(sqe.local_offset, 4096);
    assert_int_equal(sqe.remote_region, 0xabcdef);
    assert_int_equal(sqe.remote_offset, 1 << 20);
    assert_int_equal(sqe.length, 65536);
    assert_int_equal(sqe.deadline_ms, 250);
    completion = poll_one();
    assert_int_equal(completion.cookie, request.cookie);
    assert_int_equal(completion.status, TESUP_OK);
    assert_int_equal(completion.bytes, 65536);
    assert_int_equal(completion.op, TESUP_OP_WRITE);
    assert_int_equal(tesup_poll(channel, &completion, 1), 0);
}

static void test_address_needs_no_region(void **state)
{
    struct tesup_request request = {.op = TESUP_OP_READ,
                                    .flags = TESUP_REMOTE_ADDR,
                                    .remote = REMOTE,
                                    .local_region = REGION,
                                    .remote_region = 99,
                                    .remote_offset = 0x7f0000000000,
                                    .length = 1};
    struct sqe sqe;

    (void)state;
    assert_int_equal(submit(&request), TESUP_OK);
    sqe = fake_serve(worker, TS_OK);
    assert_int_equal(sqe.flags, SQE_FLAG_REMOTE_ADDR);
    assert_int_equal(sqe.remote_region, 0);
    poll_one();
}

static void check_record(const struct sqe *sqe, const char *name, const char *msg)
{
    struct notify_record record;
    const uint8_t *body;
    size_t name_len = strlen(name), msg_len = strlen(msg);

    assert_true((sqe->flags & SQE_FLAG_NOTIFY) != 0);
    assert_int_equal(ring_record_at(&worker->ntx, sqe->notify_pos, sqe->notify_len, &record, &body),
                     TS_OK);
    assert_int_equal(record.from_len, 0);
    assert_int_equal(record.name_len, name_len);
    assert_int_equal(record.msg_len, msg_len);
    assert_memory_equal(body, name, name_len);
    assert_memory_equal(body + name_len, msg, msg_len);
    for (size_t i = sizeof(record) + name_len + msg_len; i < record.size; i++)
        assert_int_equal(body[i - sizeof(record)], 0);
    ring_record_consume(&worker->ntx, &record);
    ring_consumer_publish(&worker->ntx);
}

static void test_notification_travels_with_its_descriptor(void **state)
{
    struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                    .remote = REMOTE,
                                    .name = "block",
                                    .name_len = 5,
                                    .msg = "17",
                                    .msg_len = 2};
    struct sqe sqe;

    (void)state;
    assert_int_equal(submit(&request), TESUP_OK);
    assert_true(fake_take(worker, &sqe));
    assert_int_equal(sqe.op, SQE_NOTIFY);
    check_record(&sqe, "block", "17");
    request = (struct tesup_request){.op = TESUP_OP_NOTIFY, .remote = REMOTE};
    assert_int_equal(submit(&request), TESUP_OK);
    assert_true(fake_take(worker, &sqe));
    check_record(&sqe, "", "");
    request = (struct tesup_request){.op = TESUP_OP_WRITE,
                                     .flags = TESUP_NOTIFY_ALWAYS,
                                     .remote = REMOTE,
                                     .local_region = REGION,
                                     .remote_region = REGION};
    assert_int_equal(submit(&request), TESUP_OK);
    assert_true(fake_take(worker, &sqe));
    assert_int_equal(sqe.flags, SQE_FLAG_NOTIFY | SQE_FLAG_NOTIFY_ALWAYS);
    check_record(&sqe, "", "");
    request.flags = 0;
    request.msg = "done";
    request.msg_len = 4;
    assert_int_equal(submit(&request), TESUP_OK);
    assert_true(fake_take(worker, &sqe));
    assert_int_equal(sqe.flags, SQE_FLAG_NOTIFY);
    check_record(&sqe, "", "done");
}

static void test_nonsense_is_refused(void **state)
{
    const struct tesup_request good = {.op = TESUP_OP_WRITE,
                                       .remote = REMOTE,
                                       .local_region = REGION,
                                       .remote_region = REGION,
                                       .length = 16};
    struct tesup_request request;
    uint32_t accepted;

    (void)state;
#define REFUSED(field, value, words)                       \
    request = good;                                        \
    request.field = value;                                 \
    assert_int_equal(submit(&request), TESUP_ERR_INVALID); \
    assert_sentence(words)
    REFUSED(op, 4, "operation 4");
    REFUSED(op, UINT32_MAX, "unknown");
    REFUSED(flags, 1, "flag");
    REFUSED(remote, 0, "tesup_segment_open");
    REFUSED(local_region, 0, "local_region");
    REFUSED(remote_region, 0, "TESUP_REMOTE_ADDR");
    REFUSED(local_offset, UINT64_MAX - 14, "local_offset + length overflows");
    REFUSED(remote_offset, UINT64_MAX - 14, "remote_offset + length overflows");
    REFUSED(msg_len, 1, "NULL");
    REFUSED(name_len, 1, "NULL");
#undef REFUSED
    request = (struct tesup_request){.op = TESUP_OP_NOP, .name = "x"};
    assert_int_equal(submit(&request), TESUP_ERR_INVALID);
    assert_int_equal(tesup_submit(channel, NULL, 1, NULL, &accepted), TESUP_ERR_INVALID);
    assert_int_equal(tesup_submit(channel, &good, 1, NULL, NULL), TESUP_ERR_INVALID);
    assert_int_equal(tesup_submit(channel, NULL, 0, NULL, &accepted), TESUP_OK);
    assert_int_equal(atomic_peek(&worker->map.header->sq_words.tail), 0);
    assert_int_equal(atomic_peek(&worker->map.header->ntx_words.tail), 0);
}

static void test_batch_stops_at_the_first_bad_one(void **state)
{
    struct tesup_request requests[4] = {{.cookie = 10}, {.cookie = 11}, {.op = 99}, {.cookie = 13}};
    uint64_t tickets[4] = {0};
    uint32_t accepted = 0;

    (void)state;
    assert_int_equal(tesup_submit(channel, requests, 4, tickets, &accepted), TESUP_ERR_INVALID);
    assert_int_equal(accepted, 2);
    assert_int_equal(fake_serve(worker, TS_OK).cookie, 10);
    assert_int_equal(fake_serve(worker, TS_OK).cookie, 11);
    assert_int_equal(poll_one().ticket, tickets[0]);
    assert_int_equal(poll_one().ticket, tickets[1]);
}

static void test_limit_of_a_notification(void **state)
{
    static uint8_t bytes[LAYOUT_NOTIFY_NATIVE_MAX + 1];
    struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                    .remote = REMOTE,
                                    .name = bytes,
                                    .name_len = 28,
                                    .msg = bytes,
                                    .msg_len = LAYOUT_NOTIFY_NATIVE_MAX - 28};

    (void)state;
    assert_int_equal(submit(&request), TESUP_OK);
    fake_serve(worker, TS_OK);
    poll_one();
    request.msg_len++;
    assert_int_equal(submit(&request), TESUP_ERR_TOO_LONG);
    assert_sentence("65528");
    request.name_len = UINT32_MAX;
    request.msg_len = UINT32_MAX;
    assert_int_equal(submit(&request), TESUP_ERR_TOO_LONG);
}

static void test_full_ring_says_again(void **state)
{
    struct tesup_request requests[20] = {{0}};
    uint32_t accepted = 0;

    (void)state;
    assert_int_equal(tesup_submit(channel, requests, 20, NULL, &accepted), TESUP_AGAIN);
    assert_int_equal(accepted, 16);
    assert_int_equal(submit(&requests[0]), TESUP_AGAIN);
    fake_serve(worker, TS_OK);
    assert_int_equal(submit(&requests[0]), TESUP_AGAIN); /* completed, but not polled */
    poll_one();
    assert_int_equal(submit(&requests[0]), TESUP_OK);
    assert_int_equal(submit(&requests[0]), TESUP_AGAIN);
}

/* One segment that does not drain stops its own senders only. */
static void test_window_is_per_remote(void **state)
{
    static uint8_t bytes[LAYOUT_NOTIFY_NATIVE_MAX];
    struct tesup_request stuck = {
        .op = TESUP_OP_NOTIFY, .remote = REMOTE, .msg = bytes, .msg_len = sizeof(bytes)};
    struct tesup_request other = stuck;
    struct sqe sqe[8];
    int count = 0;

    (void)state;
    other.remote = REMOTE + 1;
    while (submit(&stuck) == TESUP_OK)
        assert_true(++count < 8);
    assert_int_equal(count, 3); /* 256 KiB */
    /* The worker keeps the payload elsewhere: ntx is empty, the window is what is full. */
    for (int i = 0; i < count; i++)
        sqe[i] = fake_take_whole(worker);
    assert_int_equal(submit(&stuck), TESUP_AGAIN);
    assert_int_equal(submit(&other), TESUP_OK);
    fake_push(worker, &(struct cqe){.slot = sqe[0].slot, .ticket = 0});
    poll_one();
    assert_int_equal(submit(&stuck), TESUP_OK);
    assert_int_equal(submit(&stuck), TESUP_AGAIN);
}

static void test_cancel_names_slot_and_ticket(void **state)
{
    struct tesup_request requests[3] = {{.cookie = 1}, {.cookie = 2}, {.cookie = 3}};
    uint64_t tickets[3];
    uint32_t accepted;
    struct sqe sqe[3], cancel;

    (void)state;
    assert_int_equal(tesup_submit(channel, requests, 3, tickets, &accepted), TESUP_OK);
    assert_int_equal(tesup_cancel(channel, tickets[1]), TESUP_OK);
    for (int i = 0; i < 3; i++)
        assert_true(fake_take(worker, &sqe[i]));
    assert_true(fake_take(worker, &cancel));
    assert_int_equal(cancel.op, SQE_CANCEL);
    assert_int_equal(cancel.slot, sqe[1].slot);
    assert_int_equal(cancel.local_offset, tickets[1]);
    fake_push(worker,
              &(struct cqe){.slot = sqe[1].slot, .ticket = tickets[1], .status = TS_ERR_CANCELLED});
    assert_int_equal(poll_one().status, TESUP_ERR_CANCELLED);
    assert_int_equal(tesup_cancel(channel, tickets[1]), TESUP_ERR_GONE);
    assert_int_equal(tesup_cancel(channel, 1234), TESUP_ERR_GONE);
    assert_sentence("1234");
}

static void test_cancels_fill_the_ring_too(void **state)
{
    struct tesup_request request = {.cookie = 1};
    uint64_t ticket;
    uint32_t accepted;
    int count = 0;

    (void)state;
    assert_int_equal(tesup_submit(channel, &request, 1, &ticket, &accepted), TESUP_OK);
    while (tesup_cancel(channel, ticket) == TESUP_OK)
        assert_true(++count < 20);
    assert_int_equal(count, 15);
    assert_int_equal(tesup_cancel(channel, ticket), TESUP_AGAIN);
    assert_int_equal(submit(&request), TESUP_AGAIN);
}

static void test_awake_worker_costs_no_system_call(void **state)
{
    struct tesup_request requests[8] = {{0}};
    struct pollfd bell = {.fd = worker->worker_bell.fd, .events = POLLIN};
    uint32_t accepted;
    uint64_t rung = 0;

    (void)state;
    assert_int_equal(tesup_submit(channel, requests, 8, NULL, &accepted), TESUP_OK);
    assert_int_equal(poll(&bell, 1, 0), 0);
    doorbell_arm(&worker->worker_bell);
    assert_int_equal(tesup_submit(channel, requests, 8, NULL, &accepted), TESUP_OK);
    assert_int_equal(read(bell.fd, &rung, sizeof(rung)), sizeof(rung));
    assert_int_equal(rung, 1); /* one wake-up for the batch */
}

/* Rounds of all kinds over counters that wrap, with slots completed out of order. */
static void test_many_rounds(void **state)
{
    static uint8_t bytes[5000];
    uint64_t cookie = 0, completed = 0;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct tesup_completion completions[16];
        struct cqe cqes[16];
        uint32_t count = (uint32_t)round % 16 + 1;

        for (uint32_t i = 0; i < count; i++) {
            struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                            .remote = REMOTE,
                                            .cookie = cookie++,
                                            .msg = bytes,
                                            .msg_len = (uint32_t)(round * 37) % sizeof(bytes)};
            assert_int_equal(submit(&request), TESUP_OK);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint64_t ticket = worker->sq.head;

            cqes[i] = (struct cqe){.slot = fake_take_whole(worker).slot, .ticket = ticket};
        }
        for (uint32_t i = count; i-- > 0;)
            fake_push(worker, &cqes[i]);
        assert_int_equal(tesup_poll(channel, completions, 16), count);
        for (uint32_t i = 0; i < count; i++)
            completed += completions[i].cookie;
    }
    assert_int_equal(completed, cookie * (cookie - 1) / 2); /* each cookie once */
}

/* ---- a worker that lies ---- */

static void lie(const struct cqe *cqe)
{
    struct tesup_request requests[2] = {{.cookie = 1}, {.cookie = 2}};
    struct tesup_completion completions[4];
    uint32_t accepted;

    assert_int_equal(tesup_submit(channel, requests, 2, NULL, &accepted), TESUP_OK);
    fake_push(worker, cqe);
    assert_int_equal(tesup_poll(channel, completions, 4), 2); /* each request ends, once */
    assert_int_equal(completions[0].status, TESUP_ERR_UNCERTAIN);
    assert_int_equal(completions[1].status, TESUP_ERR_UNCERTAIN);
    assert_int_equal(completions[0].cookie + completions[1].cookie, 3);
    assert_int_equal(tesup_poll(channel, completions, 4), TESUP_ERR_PROTOCOL);
    assert_sentence("tcp@node0");
    assert_int_equal(submit(&requests[0]), TESUP_ERR_PROTOCOL);
    assert_int_equal(tesup_wait(channel, 10), TESUP_ERR_PROTOCOL);
}

static void test_lie_about_slot(void **state)
{
    (void)state;
    lie(&(struct cqe){.slot = 16, .ticket = 0});
}

static void test_lie_about_free_slot(void **state)
{
    (void)state;
    lie(&(struct cqe){.slot = 9, .ticket = 0});
}

static void test_lie_about_ticket(void **state)
{
    (void)state;
    lie(&(struct cqe){.slot = 0, .ticket = 5});
}

static void test_lie_about_status(void **state)
{
    (void)state;
    lie(&(struct cqe){.slot = 0, .ticket = 0, .status = 2});
}

static void test_forged_cq_tail(void **state)
{
    struct tesup_completion completion;

    (void)state;
    atomic_publish(&worker->map.header->cq_words.tail, 17);
    assert_int_equal(tesup_poll(channel, &completion, 1), TESUP_ERR_PROTOCOL);
}

static void test_forged_sq_head(void **state)
{
    struct tesup_request requests[16] = {{0}};
    uint32_t accepted;

    (void)state;
    atomic_publish(&worker->map.header->sq_words.head, 1000);
    assert_int_equal(tesup_submit(channel, requests, 16, NULL, &accepted), TESUP_OK);
    for (int i = 0; i < 16; i++)
        fake_push(worker, &(struct cqe){.slot = (uint16_t)i, .ticket = (uint64_t)i});
    struct tesup_completion completions[16];
    assert_int_equal(tesup_poll(channel, completions, 16), 16);
    assert_int_equal(submit(&requests[0]), TESUP_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED_TEST(test_write_becomes_descriptor),
        ATTACHED_TEST(test_address_needs_no_region),
        ATTACHED_TEST(test_notification_travels_with_its_descriptor),
        ATTACHED_TEST(test_nonsense_is_refused),
        ATTACHED_TEST(test_batch_stops_at_the_first_bad_one),
        ATTACHED_TEST(test_limit_of_a_notification),
        ATTACHED_TEST(test_full_ring_says_again),
        ATTACHED_TEST(test_window_is_per_remote),
        ATTACHED_TEST(test_cancel_names_slot_and_ticket),
        ATTACHED_TEST(test_cancels_fill_the_ring_too),
        ATTACHED_TEST(test_awake_worker_costs_no_system_call),
        ATTACHED_TEST(test_many_rounds),
        cmocka_unit_test_setup_teardown(test_many_rounds, setup_wrapping, attached_teardown),
        ATTACHED_TEST(test_lie_about_slot),
        ATTACHED_TEST(test_lie_about_free_slot),
        ATTACHED_TEST(test_lie_about_ticket),
        ATTACHED_TEST(test_lie_about_status),
        ATTACHED_TEST(test_forged_cq_tail),
        ATTACHED_TEST(test_forged_sq_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
