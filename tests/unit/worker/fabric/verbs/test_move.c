/* Transfers as work requests: slices, stripes, the fused WRITE and SEND, the fence behind a READ;
 * and ends after which no byte lands. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#define LARGE (16u * 1024u * 1024u) /* more than may be under way on one queue pair */

static struct job_mail mail;
static uint8_t *here, *there; /* LARGE, JOB_HANDLE(1) of both jobs */

static struct sqe large_move(enum sqe_op op, uint64_t length)
{
    struct sqe sqe = pair_move(op, 0, length);

    sqe.local_region = sqe.remote_region = JOB_HANDLE(1);
    return sqe;
}

static void large_begin(void)
{
    const struct sqe sqe = large_move(SQE_WRITE, 1);

    here = job_memory(&pair.user, 1, LARGE, REGION_ACCESS_MASK);
    there = job_memory(&pair.owner, 1, LARGE, REGION_ACCESS_MASK);
    assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    host_turns(4);
}

static const struct fake_list *list_of(const struct verbs_qp *qp)
{
    return fake_last_list(qp_number(qp));
}

/* ---- fused ---- */

static uint64_t fused_submit(enum sqe_op op, uint64_t length)
{
    const struct sqe sqe = pair_move(op, 0, length);
    const struct job_note note = {.msg = "block 17", .msg_len = 8};

    return job_submit(channel, &sqe, &note);
}

/* WRITE and SEND are one post of two, and only the SEND is signalled. */
static void test_write_and_send(void **state)
{
    unsigned posts;
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 1), TS_OK); /* the keys are there */
    host_turns(4);
    posts = pair.device_a->posts;
    memset(pair.here, 'x', 65536);
    ticket = fused_submit(SQE_WRITE, 65536);
    host_turn(&pair.a);
    assert_int_equal(pair.device_a->posts, posts + 1);
    assert_int_equal(list_of(user_link()->notify)->count, 2);
    assert_int_equal(list_of(user_link()->notify)->opcode[0], IBV_WR_RDMA_WRITE);
    assert_int_equal(list_of(user_link()->notify)->opcode[1], IBV_WR_SEND);
    assert_int_equal(list_of(user_link()->notify)->flags[0], 0);
    assert_int_equal(list_of(user_link()->notify)->flags[1] & ~(unsigned)IBV_SEND_INLINE,
                     IBV_SEND_SIGNALED);
    host_until(job_mail(&pair.owner, &mail));
    assert_int_equal(pair.there[65535], 'x');
    assert_memory_equal(mail.msg, "block 17", 8);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    assert_int_equal(pair.device_a->posts, posts + 1);
}

/* A SEND may overtake a READ's answer: it must not, so it is fenced. */
static void test_read_and_fenced_send(void **state)
{
    unsigned posts;
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 1), TS_OK);
    host_turns(4);
    posts = pair.device_a->posts;
    memset(pair.there, 'y', 4096);
    ticket = fused_submit(SQE_READ, 4096);
    host_turn(&pair.a);
    assert_int_equal(pair.device_a->posts, posts + 1);
    assert_int_equal(list_of(user_link()->notify)->count, 2);
    assert_int_equal(list_of(user_link()->notify)->opcode[0], IBV_WR_RDMA_READ);
    assert_int_equal(list_of(user_link()->notify)->opcode[1], IBV_WR_SEND);
    assert_int_not_equal(list_of(user_link()->notify)->flags[1] & IBV_SEND_FENCE, 0);
    host_until(job_mail(&pair.owner, &mail));
    assert_int_equal(pair.here[4095], 'y');
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    assert_int_equal(job_completion(channel, fused_submit(SQE_WRITE, 8)).status, TS_OK);
    assert_int_equal(pair.device_a->fenced, 1); /* and only then */
    host_until(job_mail(&pair.owner, &mail));
}

/* One byte more goes over the data QP; its notification follows the completion. */
static void test_too_large_to_fuse(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 1), TS_OK);
    host_turns(4);
    ticket = fused_submit(SQE_WRITE, 65537);
    host_turn(&pair.a);
    assert_int_equal(list_of(user_link()->data[0])->length[0], 65537);
    assert_false(job_mail(&pair.owner, &mail));
    host_until(job_mail(&pair.owner, &mail));
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
}

/* The WRITE fails: the SEND never arrives. */
static void test_failed_write_announces_nothing(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 1), TS_OK);
    host_turns(4);
    pair.device_a->held = true;
    ticket = fused_submit(SQE_WRITE, 100);
    host_turn(&pair.a);
    fake_break(qp_number(user_link()->notify), IBV_WC_REM_ACCESS_ERR);
    fake_release(pair.device_a);
    host_turns(10);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    assert_false(job_mail(&pair.owner, &mail));
}

/* A full send queue has room for both or for none. */
static void test_fused_wait_for_two_places(void **state)
{
    struct verbs_qp *qp = user_link()->notify;
    uint64_t tickets[16];

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 1), TS_OK);
    host_turns(4);
    pair.device_a->held = true;
    while (verbs_qp_room(qp) > 1) {
        verbs_stream_send(user_link(), &(struct frame){.type = FRAME_CREDIT, .request = 0}, NULL, 0,
                          NULL, 0);
        verbs_stream_flush(user_link());
        user_link()->stream.credits = 40; /* what holds it is the queue */
        verbs_qp_post(qp);
    }
    assert_int_equal(verbs_qp_room(qp), 1);
    tickets[0] = fused_submit(SQE_WRITE, 100);
    host_turn(&pair.a);
    assert_int_equal(verbs_qp_room(qp), 1);
    assert_non_null(job_request(channel, tickets[0]));
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "its frames are forged");
    pair.device_a->held = false;
    host_turns(4);
}

/* ---- slices and stripes ---- */

static void test_slices(void **state)
{
    const struct sqe sqe = large_move(SQE_WRITE, 3 * VERBS_SLICE + 5);
    uint64_t ticket;

    (void)state;
    large_begin();
    pair_fill(here, LARGE, 3);
    ticket = job_submit(channel, &sqe, NULL);
    host_turn(&pair.a);
    assert_int_equal(list_of(user_link()->data[0])->count, 4);
    assert_int_equal(list_of(user_link()->data[0])->length[0], VERBS_SLICE);
    assert_int_equal(list_of(user_link()->data[0])->length[3], 5);
    assert_int_equal(job_completion(channel, ticket).bytes, sqe.length);
    assert_memory_equal(there, here, sqe.length);
    assert_int_equal(there[sqe.length], 0);
}

static void test_stripes(void **state)
{
    const struct sqe sqe = large_move(SQE_READ, LARGE);
    uint64_t ticket;

    (void)state;
    pair.config_a.rdma.data_qps = pair.config_b.rdma.data_qps = 4;
    pair_start(&pair);
    large_begin();
    pair_fill(there, LARGE, 9);
    ticket = job_submit(channel, &sqe, NULL);
    host_turn(&pair.a);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(list_of(user_link()->data[i])->count, LARGE / VERBS_SLICE / 4);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
    assert_memory_equal(here, there, LARGE);
}

/* Two large ones take turns, so none waits for the whole of the other. */
static void test_turns(void **state)
{
    const struct sqe sqe = large_move(SQE_WRITE, LARGE);
    uint64_t tickets[2];

    (void)state;
    large_begin();
    pair.device_a->held = true;
    tickets[0] = job_submit(channel, &sqe, NULL);
    tickets[1] = job_submit(channel, &sqe, NULL);
    host_turn(&pair.a);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(
            ((struct verbs_move *)job_request(channel, tickets[i])->transfer.progress)->staged,
            VERBS_FLIGHT / 2);
    fake_release(pair.device_a);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(job_completion(channel, tickets[i]).status, TS_OK);
}

/* A small one beside a large one waits for what is under way, not for the rest. */
static void test_small_beside_large(void **state)
{
    const struct sqe sqe = large_move(SQE_WRITE, LARGE);
    uint64_t first, second;

    (void)state;
    large_begin();
    assert_int_equal(move(SQE_WRITE, 0, 1), TS_OK); /* the keys of both are there */
    pair.device_a->pace = 1;
    first = job_submit(channel, &sqe, NULL);
    host_turn(&pair.a);
    second = move_submit(SQE_WRITE, 0, 8);
    assert_int_equal(job_completion(channel, second).status, TS_OK);
    assert_true(job_request(channel, first)->transfer.moved < LARGE);
    assert_int_equal(job_completion(channel, first).status, TS_OK);
}

/* ---- ends ---- */

static uint64_t under_way(enum sqe_op op)
{
    const struct sqe sqe = large_move(op, LARGE);
    uint64_t ticket;

    memset(op == SQE_WRITE ? here : there, 'n', LARGE);
    memset(op == SQE_WRITE ? there : here, 'o', LARGE);
    pair.device_a->held = true;
    ticket = job_submit(channel, &sqe, NULL);
    host_turn(&pair.a);
    fake_step(pair.device_a, 2);
    assert_int_equal((op == SQE_WRITE ? there : here)[2 * VERBS_SLICE - 1], 'n');
    return ticket;
}

static void expect_untouched(uint8_t *bytes)
{
    memset(bytes, 'm', LARGE);
    fake_release(pair.device_a);
    host_turns(20);
    for (size_t i = 0; i < LARGE; i += 4096)
        assert_int_equal(bytes[i], 'm');
}

static void test_cancel(void **state)
{
    uint64_t ticket;
    struct cqe cqe;

    (void)state;
    large_begin();
    for (enum sqe_op op = SQE_READ; op <= SQE_WRITE; op++) {
        ticket = under_way(op);
        job_cancel(channel, ticket);
        host_turns(4);
        assert_false(job_complete(channel, &cqe)); /* bytes can still land */
        fake_release(pair.device_a);
        cqe = job_completion(channel, ticket);
        assert_int_equal(cqe.status, TS_ERR_CANCELLED);
        assert_int_equal((op == SQE_WRITE ? there : here)[VERBS_FLIGHT], 'o');
        expect_untouched(op == SQE_WRITE ? there : here);
        assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    }
}

/* All is posted already: it ends as it ends. */
static void test_cancel_too_late(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    pair.device_a->held = true;
    ticket = move_submit(SQE_WRITE, 0, 100);
    host_turn(&pair.a);
    job_cancel(channel, ticket);
    host_turn(&pair.a);
    fake_release(pair.device_a);
    assert_int_equal(job_completion(channel, ticket).status, TS_OK);
}

static void test_owner_takes_its_region_back(void **state)
{
    uint64_t ticket;

    (void)state;
    large_begin();
    ticket = under_way(SQE_WRITE);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(1), 42), TS_OK);
    host_turns(8);
    assert_null(host_answer(&pair.b, 42)); /* what is posted can still land */
    fake_release(pair.device_a);
    host_until(host_answer(&pair.b, 42) != NULL);
    expect_untouched(there);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
}

static void test_user_takes_its_region_back(void **state)
{
    uint64_t ticket;

    (void)state;
    large_begin();
    ticket = under_way(SQE_READ);
    assert_int_equal(region_delete(pair.user.session, JOB_HANDLE(1), 42), TS_OK);
    host_turns(8);
    assert_null(host_answer(&pair.a, 42));
    fake_release(pair.device_a);
    host_until(host_answer(&pair.a, 42) != NULL);
    expect_untouched(here);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
}

static void test_user_leaves(void **state)
{
    const struct job_shape again = {.handle = 3, .segment = "user"};

    (void)state;
    large_begin();
    under_way(SQE_READ);
    job_detach(&pair.user);
    host_turns(4);
    assert_int_equal(host_stat(&pair.a.worker.stats->regions), 1); /* held by what is posted */
    fake_release(pair.device_a);
    host_until(host_stat(&pair.a.worker.stats->regions) == 0);
    job_attach(&pair.user, &pair.a, &again);
}

static void test_owner_leaves(void **state)
{
    const struct job_shape again = {.handle = 3, .segment = "owner"};
    uint64_t ticket;

    (void)state;
    large_begin();
    ticket = under_way(SQE_WRITE);
    job_detach(&pair.owner);
    host_turns(4);
    fake_release(pair.device_a);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
    host_until(host_stat(&pair.b.worker.stats->regions) == 0);
    job_attach(&pair.owner, &pair.b, &again);
}

static void test_lost_link(void **state)
{
    uint64_t ticket;

    (void)state;
    large_begin();
    ticket = under_way(SQE_WRITE);
    link_on_lost(pair.link.b->link, TS_ERR_UNREACHABLE, "the test cuts it");
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_UNCERTAIN);
    expect_untouched(there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_write_and_send),
        TEST(test_read_and_fenced_send),
        TEST(test_too_large_to_fuse),
        TEST(test_failed_write_announces_nothing),
        TEST(test_fused_wait_for_two_places),
        TEST(test_slices),
        TEST_PREPARED(test_stripes),
        TEST(test_turns),
        TEST(test_small_beside_large),
        TEST(test_cancel),
        TEST(test_cancel_too_late),
        TEST(test_owner_takes_its_region_back),
        TEST(test_user_takes_its_region_back),
        TEST(test_user_leaves),
        TEST(test_owner_leaves),
        TEST(test_lost_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
