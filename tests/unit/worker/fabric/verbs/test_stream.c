/* Frames in packets: credits, frames that span packets, and packets that no honest peer sends. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include <stdlib.h>

#define MESSAGE_MAX 65528u

static struct job_mail mail;

/* ---- out ---- */

static void test_several_frames_in_a_packet(void **state)
{
    unsigned packets = pair.device_b->packets;
    struct cqe cqe;

    (void)state;
    for (uint8_t i = 0; i < 10; i++)
        notify_submit(&i, 1);
    for (uint8_t i = 0; i < 10; i++) {
        host_until(job_mail(&pair.owner, &mail));
        assert_int_equal(mail.msg[0], i);
        host_until(job_complete(channel, &cqe));
        assert_int_equal(cqe.status, TS_OK);
    }
    assert_int_equal(pair.device_b->packets, packets + 1);
    host_turns(2);
}

/* Around the ends of packets, and the largest there is: 17 packets. */
static void test_sizes(void **state)
{
    static uint8_t msg[MESSAGE_MAX];
    static const uint32_t ends[] = {3, VERBS_PACKET_ROOM - sizeof(struct frame),
                                    2 * VERBS_PACKET_ROOM - sizeof(struct frame), MESSAGE_MAX - 3};
    unsigned packets = 0;
    struct cqe cqe;

    (void)state;
    pair.config_a.notify_max = pair.config_b.notify_max = MESSAGE_MAX;
    pair_start(&pair);
    pair_fill(msg, sizeof(msg), 5);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        for (uint32_t size = ends[i] - 3; size <= ends[i] + 3; size++) {
            packets = pair.device_b->packets;
            notify_submit(msg, size);
            host_until(job_mail(&pair.owner, &mail));
            assert_int_equal(mail.record.msg_len, size);
            assert_memory_equal(mail.msg, msg, size);
            host_until(job_complete(channel, &cqe));
            assert_int_equal(cqe.status, TS_OK);
        }
    assert_int_equal(pair.device_b->packets - packets, 17);
    host_turns(4);
}

/* Others between the parts of a long one would be lost: they wait behind it. */
static void test_short_behind_long(void **state)
{
    static uint8_t msg[MESSAGE_MAX];
    struct cqe cqe;

    (void)state;
    pair.config_a.notify_max = pair.config_b.notify_max = MESSAGE_MAX;
    pair_start(&pair);
    for (unsigned i = 0; i < 6; i++) {
        msg[0] = (uint8_t)i;
        notify_submit(msg, i % 2 == 0 ? 30000 : 10);
    }
    for (unsigned i = 0; i < 6; i++) {
        host_until(job_mail(&pair.owner, &mail));
        assert_int_equal(mail.msg[0], i);
        assert_int_equal(mail.record.msg_len, i % 2 == 0 ? 30000 : 10);
        host_until(job_complete(channel, &cqe));
    }
    host_turns(4);
}

/* ---- credit ---- */

/* One packet for each turn of a, none of b. Returns how many went out. */
static unsigned flood(unsigned turns)
{
    unsigned before = pair.device_b->packets;

    for (unsigned i = 0; i < turns; i++) {
        struct frame frame = {.type = FRAME_CREDIT, .request = 0};

        assert_int_equal(user_link()->link.ops->send(&user_link()->link, &frame, NULL, 0, NULL, 0),
                         TS_OK);
        host_turn(&pair.a);
    }
    return pair.device_b->packets - before;
}

/* The receiver does not look: the sender stops one short of the window, with nothing lost. */
static void test_last_credit_is_kept(void **state)
{
    struct verbs_stream *stream = &user_link()->stream;
    uint32_t credits = stream->credits, sent;

    (void)state;
    stream->owed = 0;
    sent = flood(100);
    assert_int_equal(sent, credits - 1);
    assert_int_equal(stream->credits, 1);
    assert_false(list_empty(&stream->queue));
    assert_true(host_stat(&pair.a.worker.stats->rdma_no_credit) > 0);
    /* It goes for a packet that gives credit back, and for no other. */
    stream->owed = 1;
    link_wake(&user_link()->link);
    host_turn(&pair.a);
    assert_int_equal(stream->credits, 0);
    assert_int_equal(stream->owed, 0);
    stream->owed = 5;
    link_wake(&user_link()->link);
    host_turn(&pair.a);
    assert_int_equal(stream->credits, 0); /* and without any, nothing goes */
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "its counts are forged");
    host_turns(2);
}

/* Nothing goes the other way, so credit goes back by itself, when half of the window is owed. */
static void test_credit_comes_back(void **state)
{
    struct verbs_stream *stream = &user_link()->stream;
    struct cqe cqe;

    (void)state;
    while (owner_link()->stream.owed < 31) {
        notify_submit("n", 1);
        host_turn(&pair.a);
        host_turn(&pair.b);
        while (job_complete(channel, &cqe))
            assert_int_equal(cqe.status, TS_OK);
        while (job_mail(&pair.owner, &mail))
            continue;
    }
    assert_true(stream->credits <= 64 - 31);
    notify_submit("n", 1);
    host_turns(4);
    assert_true(stream->credits >= 62);
    while (job_mail(&pair.owner, &mail))
        continue;
    host_turns(2);
}

/* Thousands of notifications both ways through the smallest window there is. */
static void test_smallest_window(void **state)
{
    static uint8_t msg[HOST_NOTIFY_MAX];
    const struct sqe back = {.op = SQE_NOTIFY, .remote = JOB_HANDLE(1)};
    const struct job_note note = {.msg = msg, .msg_len = sizeof(msg)};
    unsigned sent[2] = {0}, got[2] = {0};
    const uint64_t until = host_deadline();
    struct cqe cqe;

    (void)state;
    pair.device_a->attr.max_srq_wr = pair.device_b->attr.max_srq_wr = 64;
    pair_start(&pair);
    user_link()->stream.window = owner_link()->stream.window = 6; /* as for the 33rd endpoint */
    user_link()->stream.peer_window = owner_link()->stream.peer_window = 6;
    user_link()->stream.credits = owner_link()->stream.credits = 6;
    user_link()->stream.owed = owner_link()->stream.owed = 0;
    nic_of(&pair.a)->window_reserved = nic_of(&pair.b)->window_reserved = 6;
    job_open(&pair.owner, 1, pair.link.b, "user", 101);
    host_until(host_answer(&pair.b, 101) != NULL);
    while (got[0] < 3000 || got[1] < 3000) {
        struct job *const jobs[] = {&pair.user, &pair.owner};

        for (unsigned i = 0; i < 2; i++) {
            while (job_complete(&jobs[i]->main, &cqe))
                sent[i] += cqe.status == TS_OK;
            for (unsigned n = 0; n < 4 && sent[i] < 3000; n++) {
                unsigned slot = 0;

                while (slot < 8 && jobs[i]->main.busy[slot])
                    slot++;
                if (slot == 8)
                    break;
                if (i == 0)
                    notify_submit(msg, sizeof(msg));
                else
                    job_submit(&pair.owner.main, &back, &note);
            }
            while (job_mail(jobs[1 - i], &mail))
                got[i]++;
        }
        host_turn_before(until, "two sides that are out of credit wait for each other");
    }
    assert_true(user_link()->stream.credits <= 6 && owner_link()->stream.credits <= 6);
    host_until(job_complete(channel, &cqe) || !channel->busy[0]);
    host_turns(20);
    while (job_complete(channel, &cqe) || job_complete(&pair.owner.main, &cqe))
        host_turns(1);
    while (job_mail(&pair.owner, &mail) || job_mail(&pair.user, &mail))
        host_turns(2);
}

/* Who asks for more than we can answer gets no more credit until its answers are through. */
static void test_answers_are_bounded(void **state)
{
    struct verbs_stream *stream = &user_link()->stream;

    (void)state;
    stream->owed = 40;
    stream->answer_bytes = 8u * 1024 * 1024;
    notify_submit("n", 1);
    host_turn(&pair.a);
    assert_int_equal(stream->owed, 40); /* kept back */
    stream->credits = 1; /* but for one with the last packet: else both sides would wait */
    notify_submit("n", 1);
    host_turn(&pair.a);
    assert_int_equal(stream->credits, 0);
    assert_int_equal(stream->owed, 39);
    stream->credits = 3;
    stream->answer_bytes = 0;
    notify_submit("n", 1);
    host_turn(&pair.a);
    assert_int_equal(stream->owed, 0);
    link_on_lost(pair.link.b->link, TS_ERR_UNREACHABLE, "its peer's counts are forged");
    host_turns(4);
}

/* A peer that asks on and on, and takes no answer. */
static void test_too_many_answers(void **state)
{
    const struct frame answer = {.type = FRAME_REVOKED, .request = 1};

    (void)state;
    user_link()->stream.credits = 0;
    while (pair.link.a->lost_status == TS_OK) {
        assert_true(user_link()->stream.answer_bytes <= 17u * 1024 * 1024);
        assert_int_equal(user_link()->link.ops->send(&user_link()->link, &answer, NULL, 0, NULL, 0),
                         TS_OK);
    }
    assert_int_equal(pair.link.a->lost_status, TS_ERR_PROTOCOL);
    host_turn(&pair.a);
    assert_true(host_said(&pair.a, "the peer asks on and does not take its answers"));
}

/* ---- in: what no honest peer sends ---- */

struct forged {
    struct verbs_packet head;
    uint8_t body[VERBS_PACKET_ROOM];
};

static struct forged forged;

/* A packet as it should be; what a test makes wrong comes after. */
static void forge(uint32_t length)
{
    memset(&forged, 0, sizeof(forged));
    forged.head = (struct verbs_packet){.generation = user_link()->generation,
                                        .sequence = user_link()->stream.sequence_in,
                                        .length = length};
}

static void forged_send(uint32_t size)
{
    assert_true(fake_send(qp_number(user_link()->notify), &forged, size));
    host_turn(&pair.a);
}

static void expect_ended(const char *why)
{
    char sentence[COUNTERS_TEXT];

    snprintf(sentence, sizeof(sentence), "the peer sent %s", why);
    assert_true(host_said(&pair.a, sentence));
    assert_null(pair.link.a->link);
    assert_int_equal(host_stat(&pair.a.worker.stats->peer_protocol), 1);
    assert_false(pair.a.worker.stop);
}

static void test_empty_packet(void **state)
{
    (void)state;
    forge(0);
    forged_send(sizeof(struct verbs_packet));
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
}

static void test_too_short(void **state)
{
    (void)state;
    forge(0);
    forged_send(sizeof(struct verbs_packet) - 1);
    expect_ended("a packet of the wrong length");
}

static void test_wrong_length(void **state)
{
    (void)state;
    for (int off = -1; off <= 1; off += 2) {
        forge((uint32_t)(sizeof(struct frame) + (unsigned)off));
        forged_send(sizeof(struct verbs_packet) + sizeof(struct frame));
        expect_ended("a packet of the wrong length");
        pair_end(&pair);
        pair_begin(&pair, PAIR_VERBS);
    }
    forge(UINT32_MAX - 10);
    forged_send(sizeof(struct verbs_packet) + sizeof(struct frame));
    expect_ended("a packet of the wrong length");
}

static void test_out_of_order(void **state)
{
    (void)state;
    forge(0);
    forged.head.sequence++;
    forged_send(sizeof(struct verbs_packet));
    expect_ended("a packet out of order");
}

static void test_too_much_credit(void **state)
{
    (void)state;
    forge(0);
    forged.head.credits =
        (uint16_t)(user_link()->stream.peer_window - user_link()->stream.credits + 1);
    forged_send(sizeof(struct verbs_packet));
    expect_ended("more credit than there are buffers");
}

static void test_all_credit_at_once(void **state)
{
    (void)state;
    flood(3);
    forge(0);
    forged.head.credits = (uint16_t)(user_link()->stream.peer_window - user_link()->stream.credits);
    forged_send(sizeof(struct verbs_packet));
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "its counts are forged");
    host_turns(2);
}

/* More packets than buffers were promised: it is noticed before the pool is empty. */
static void test_beyond_its_credit(void **state)
{
    uint32_t owed = user_link()->stream.owed;

    (void)state;
    user_link()->stream.answer_bytes = 8u * 1024 * 1024; /* no credit goes back */
    for (; owed < user_link()->stream.window; owed++) {
        forge(0);
        forged_send(sizeof(struct verbs_packet));
        assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    }
    forge(0);
    forged_send(sizeof(struct verbs_packet));
    expect_ended("more packets than it had credit for");
}

static void frame_forge(const struct frame *frame, uint32_t length)
{
    forge(length);
    memcpy(forged.body, frame, sizeof(*frame));
}

static void test_broken_frames(void **state)
{
    static const struct frame frames[] = {
        {.type = FRAME_NONE},
        {.type = FRAME_TYPE_COUNT},
        {.type = FRAME_WRITE, .length = 8}, /* bytes have their own way here */
        {.type = FRAME_DATA, .length = 8},
        {.type = FRAME_NOTIFY, .length = UINT32_MAX},
        {.type = FRAME_CREDIT, .length = 1},
        {.type = FRAME_READY}, /* the initiator's word */
        {.type = FRAME_NOTIFY, .open = 12345},
        {.type = FRAME_EXPORTED, .request = 99},
        {.type = FRAME_REVOKED, .request = 99},
        {.type = FRAME_EXPORT, .open = 12345},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        uint32_t length = sizeof(struct frame);

        if (frames[i].length > 0 && frames[i].length < 100)
            length += frames[i].length;
        frame_forge(&frames[i], length);
        forged_send((uint32_t)sizeof(struct verbs_packet) + length);
        expect_ended("a broken frame");
        pair_end(&pair);
        pair_begin(&pair, PAIR_VERBS);
    }
}

/* A header never spans packets. */
static void test_half_a_header(void **state)
{
    const struct frame frame = {.type = FRAME_CREDIT};

    (void)state;
    frame_forge(&frame, sizeof(frame) - 1);
    forged_send(sizeof(struct verbs_packet) + sizeof(frame) - 1);
    expect_ended("a broken frame");
}

/* A frame whose rest never comes dies with its link. */
static void test_unfinished_frame(void **state)
{
    const struct frame frame = {
        .type = FRAME_OPENED, .request = pair.remote->wire, .length = 200, .status = TS_ERR_GONE};

    (void)state;
    frame_forge(&frame, sizeof(frame) + 100);
    forged_send(sizeof(struct verbs_packet) + sizeof(frame) + 100);
    assert_true(user_link()->stream.in_frame);
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    forge(50);
    forged_send(sizeof(struct verbs_packet) + 50);
    assert_true(user_link()->stream.in_frame);
}

/* Larger than any buffer: the device refuses it, the link ends, the worker goes on. */
static void test_larger_than_a_buffer(void **state)
{
    static uint8_t bytes[VERBS_BUFFER_SIZE + 1];

    (void)state;
    assert_false(fake_send(qp_number(user_link()->notify), bytes, sizeof(bytes)));
    host_turns(2);
    assert_null(pair.link.a->link);
    assert_int_equal(pair.device_a->srq_posted, nic_of(&pair.a)->receive.total);
}

/* ---- more than the send pool has ---- */

static void test_no_send_buffer(void **state)
{
    struct verbs_nic *nic = nic_of(&pair.a);
    uint32_t limit = nic->send.limit;

    (void)state;
    nic->send.limit = nic->send.total;
    pair.device_a->held = true;
    while (nic->send.free != NULL) {
        notify_submit("n", 1);
        host_turn(&pair.a);
        if (!list_empty(&user_link()->stream.queue))
            break;
        while (job_complete(channel, &(struct cqe){.status = 0}))
            continue;
    }
    notify_submit("last", 4);
    host_turn(&pair.a);
    fake_release(pair.device_a);
    do
        host_until(job_mail(&pair.owner, &mail));
    while (mail.record.msg_len != 4);
    nic->send.limit = limit;
    host_turns(4);
    while (job_complete(channel, &(struct cqe){.status = 0}))
        continue;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_several_frames_in_a_packet),
        TEST_PREPARED(test_sizes),
        TEST_PREPARED(test_short_behind_long),
        TEST(test_last_credit_is_kept),
        TEST(test_credit_comes_back),
        TEST_PREPARED(test_smallest_window),
        TEST(test_answers_are_bounded),
        TEST(test_too_many_answers),
        TEST(test_empty_packet),
        TEST(test_too_short),
        TEST(test_wrong_length),
        TEST(test_out_of_order),
        TEST(test_too_much_credit),
        TEST(test_all_credit_at_once),
        TEST(test_beyond_its_credit),
        TEST(test_broken_frames),
        TEST(test_half_a_header),
        TEST(test_unfinished_frame),
        TEST(test_larger_than_a_buffer),
        TEST(test_no_send_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
