/* Keys to each other's memory: asked for once, checked by the owner, given back before the memory
 * goes; and what a peer may say wrong about them. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include "shm/segment.h"
#include "worker/fabric/verbs/mr.h"

static void test_asked_for_once(void **state)
{
    uint64_t tickets[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        tickets[i] = move_submit(SQE_WRITE, 0, 100);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(job_completion(channel, tickets[i]).status, TS_OK);
    assert_int_equal(user_link()->imports.table.used, 1);
    assert_int_equal(job_region_of(&pair.owner, 0)->references, 1); /* the export */
    assert_int_equal(move(SQE_READ, 5, 100), TS_OK);
    assert_int_equal(user_link()->imports.table.used, 1);
}

static void test_rights_and_ranges(void **state)
{
    struct sqe sqe = pair_move(SQE_READ, 0, 8);
    static const struct {
        enum sqe_op op;
        unsigned region;
        uint64_t offset;
        int status;
    } cases[] = {
        {SQE_READ, 1, 0, TS_OK},
        {SQE_WRITE, 1, 0, TS_ERR_DENIED},
        {SQE_WRITE, 2, 0, TS_OK},
        {SQE_READ, 2, 0, TS_ERR_DENIED},
        {SQE_READ, 3, 0, TS_ERR_DENIED},
        {SQE_READ, 1, 4088, TS_OK},
        {SQE_READ, 1, 4089, TS_ERR_INVALID},
        {SQE_READ, 1, UINT64_MAX - 3, TS_ERR_INVALID},
        {SQE_READ, 9, 0, TS_ERR_NOT_FOUND},
    };

    (void)state;
    job_memory(&pair.owner, 1, 4096, REGION_ACCESS_READ);
    job_memory(&pair.owner, 2, 4096, REGION_ACCESS_WRITE);
    job_memory(&pair.owner, 3, 4096, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sqe.op = (uint8_t)cases[i].op;
        sqe.remote_region = JOB_HANDLE(cases[i].region);
        sqe.remote_offset = cases[i].offset;
        assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status,
                         cases[i].status);
        assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    }
}

static void test_cancel_while_it_waits(void **state)
{
    uint64_t first, second;

    (void)state;
    first = move_submit(SQE_WRITE, 0, 100);
    second = move_submit(SQE_WRITE, 0, 100);
    host_turn(&pair.a); /* the owner has no turn */
    job_cancel(channel, first);
    host_turn(&pair.a);
    assert_int_equal(job_completion(channel, first).status, TS_ERR_CANCELLED);
    assert_int_equal(job_completion(channel, second).status, TS_OK);
}

static void test_user_leaves_while_it_waits(void **state)
{
    const struct job_shape again = {.handle = 3, .segment = "user"};

    (void)state;
    move_submit(SQE_WRITE, 0, 100);
    host_turn(&pair.a);
    job_detach(&pair.user);
    host_turns(4);
    job_attach(&pair.user, &pair.a, &again);
    assert_int_equal(user_link()->imports.table.used, 1); /* kept for the next one */
}

static void test_revoke_of_idle_memory(void **state)
{
    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    host_turn(&pair.b);
    assert_null(host_answer(&pair.b, 42)); /* the peer still has its key */
    assert_int_equal(pair.device_b->pinned > PAIR_MEMORY, 1);
    host_until(host_answer(&pair.b, 42) != NULL);
    assert_int_equal(user_link()->imports.table.used, 0);
    assert_true(pair.device_b->pinned < PAIR_MEMORY);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_ERR_GONE);
}

static void test_region_ends_while_it_is_asked_for(void **state)
{
    uint64_t ticket = move_submit(SQE_WRITE, 0, 100);

    (void)state;
    host_turn(&pair.a);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    assert_int_equal(job_completion(channel, ticket).status, TS_ERR_GONE);
    assert_int_equal(host_answer(&pair.b, 42)->status, TS_OK);
    assert_int_equal(user_link()->imports.table.used, 0);
}

/* A peer that keeps its key longer than the connect timeout loses the endpoint instead. */
static void test_peer_that_does_not_let_go(void **state)
{
    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    host_turn(&pair.b);
    assert_null(host_answer(&pair.b, 42));
    host_skip(&pair.b, HOST_CONNECT_MS + 1); /* the peer has no turn */
    assert_non_null(host_answer(&pair.b, 42));
    assert_false(has_links(&pair.b));
    assert_true(host_said(&pair.b, "the peer did not let go of an unregistered region"));
    host_turns(2);
}

/* Two regions: the first one's answer does not stop the clock of the second. */
static void test_patience_is_for_all(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, 8);

    (void)state;
    job_memory(&pair.owner, 1, 4096, REGION_ACCESS_MASK);
    sqe.remote_region = JOB_HANDLE(1);
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    pair.device_a->held = true;
    move_submit(SQE_WRITE, 0, 100); /* holds the first one's key */
    host_turn(&pair.a);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(0), 42), TS_OK);
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(1), 43), TS_OK);
    host_turn(&pair.b);
    host_turns(2);
    fake_step(pair.device_a, 0);
    pair.device_a->held = true;
    assert_null(host_answer(&pair.b, 42));
    host_skip(&pair.b, HOST_CONNECT_MS + 1);
    assert_non_null(host_answer(&pair.b, 42));
    assert_false(has_links(&pair.b));
    fake_release(pair.device_a);
    host_turns(4);
}

/* ---- what a peer may say wrong ---- */

static struct frame_keys keys;

/* An EXPORTED that a test spoils, for the import that a waits for. */
static void exported(uint32_t request, int status, uint32_t keys_count, uint32_t length)
{
    struct {
        struct verbs_packet head;
        struct frame frame;
        struct frame_keys keys;
        uint32_t key[8];
    } packet = {.head = {.generation = user_link()->generation,
                         .sequence = user_link()->stream.sequence_in},
                .frame = {.type = FRAME_EXPORTED, .status = (int16_t)status, .request = request},
                .keys = keys};

    packet.frame.length =
        length > 0 ? length : (uint32_t)(sizeof(keys) + keys_count * sizeof(uint32_t));
    if (status != TS_OK)
        packet.frame.length = 0;
    packet.head.length = (uint32_t)sizeof(packet.frame) + packet.frame.length;
    assert_true(fake_send(qp_number(user_link()->notify), &packet,
                          (uint32_t)sizeof(packet.head) + packet.head.length));
    host_turn(&pair.a);
}

static uint32_t import_pending(void)
{
    struct verbs_import *import;
    uint32_t cursor = 0;

    keys = (struct frame_keys){.base = 4096,
                               .iova = 4096,
                               .length = 4096,
                               .access = REGION_ACCESS_MASK,
                               .region = JOB_HANDLE(0)};
    move_submit(SQE_WRITE, 0, 100);
    host_turn(&pair.a); /* the owner has no turn */
    import = table_next(&user_link()->imports.table, &cursor);
    assert_non_null(import);
    return import->import.handle;
}

static void expect_protocol_error(void)
{
    assert_null(pair.link.a->link);
    assert_true(host_said(&pair.a, "the peer sent a broken frame"));
    pair_end(&pair);
    pair_begin(&pair, PAIR_VERBS);
}

static void test_forged_keys(void **state)
{
    uint32_t import;

    (void)state;
    import = import_pending();
    exported(import, TS_OK, 0, sizeof(keys) - 1);
    expect_protocol_error();
    import = import_pending();
    exported(import, TS_OK, 0, 0); /* no key */
    expect_protocol_error();
    import = import_pending();
    exported(import, TS_OK, 2, 0); /* one too many */
    expect_protocol_error();
    import = import_pending();
    keys.length = 0;
    exported(import, TS_OK, 1, 0);
    expect_protocol_error();
    import = import_pending();
    keys.iova = UINT64_MAX - 100;
    exported(import, TS_OK, 1, 0);
    expect_protocol_error();
    import = import_pending();
    keys.base = UINT64_MAX - 100;
    exported(import, TS_OK, 1, 0);
    expect_protocol_error();
    import = import_pending();
    keys.length = (FRAME_KEYS_MAX + UINT64_C(1)) << VERBS_PIECE_SHIFT;
    exported(import, TS_OK, 1, 0);
    expect_protocol_error();
    import = import_pending();
    exported(import + 1, TS_OK, 1, 0); /* nobody asked */
    expect_protocol_error();
}

/* A key that is good for nothing costs the endpoint, and no byte of anybody. */
static void test_key_that_is_a_lie(void **state)
{
    struct cqe cqe;

    (void)state;
    exported(import_pending(), TS_OK, 1, 0);
    host_turns(4);
    host_until(job_complete(channel, &cqe));
    assert_int_equal(cqe.status, TS_ERR_UNCERTAIN);
    assert_null(pair.link.a->link);
    assert_int_equal(host_stat(&pair.a.worker.stats->rdma_errors), 1);
    host_until(!has_links(&pair.b));
}

static void test_answered_twice(void **state)
{
    (void)state;
    assert_int_equal(move(SQE_WRITE, 0, 100), TS_OK);
    keys = (struct frame_keys){.base = 4096, .iova = 4096, .length = 4096};
    exported(table_next(&user_link()->imports.table, &(uint32_t){0}) != NULL ? JOB_HANDLE(0) : 0,
             TS_OK, 1, 0);
    expect_protocol_error();
}

/* An answer for a question that was given up is late, not wrong. */
static void test_late_answer(void **state)
{
    uint32_t import = import_pending();
    struct cqe cqe;

    (void)state;
    exported(import, TS_ERR_NOT_FOUND, 0, 0);
    host_until(job_complete(channel, &cqe));
    assert_int_equal(cqe.status, TS_ERR_NOT_FOUND);
    assert_int_equal(user_link()->imports.table.used, 0);
    exported(import, TS_ERR_NOT_FOUND, 0, 0);
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "its sequence is forged");
    host_turns(4);
}

static int revoke(uint32_t request)
{
    const struct frame frame = {.type = FRAME_REVOKE, .request = request};

    return verbs_key_on_revoke(user_link(), &frame);
}

static void test_revoke_out_of_place(void **state)
{
    uint32_t import = import_pending();

    (void)state;
    assert_int_equal(revoke(import), TS_ERR_PROTOCOL); /* it has no key yet */
    assert_int_equal(revoke(import + 1), TS_ERR_PROTOCOL);
    host_turns(8);
    pair.device_a->held = true;
    move_submit(SQE_WRITE, 0, 100);
    host_turn(&pair.a);
    assert_int_equal(revoke(import), TS_OK);
    assert_int_equal(revoke(import), TS_ERR_PROTOCOL); /* twice */
    link_on_lost(pair.link.a->link, TS_ERR_UNREACHABLE, "its owner knows of no revoke");
    fake_release(pair.device_a);
    host_turns(4);
}

/* By address: within a region's range, whichever region that is. */
static void test_by_address(void **state)
{
    struct proto_region ask = {.kind = REGION_KIND_SHARED,
                               .access = REGION_ACCESS_MASK,
                               .base = 0x7f0000000000,
                               .length = 4096};
    struct sqe sqe = pair_move(SQE_WRITE, 0, 8);

    (void)state;
    job_region(&pair.owner, 1, &ask, segment_create("by address", 4096));
    sqe.flags = SQE_FLAG_REMOTE_ADDR;
    sqe.remote_region = 0;
    sqe.remote_offset = ask.base + 4088;
    assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    assert_int_equal(user_link()->imports.table.used, 1);
    sqe.remote_offset++;
    assert_int_not_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    sqe.remote_offset = ask.base - 1;
    assert_int_not_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    assert_int_equal(pair.link.a->state, ENDPOINT_READY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_asked_for_once),
        TEST(test_rights_and_ranges),
        TEST(test_cancel_while_it_waits),
        TEST(test_user_leaves_while_it_waits),
        TEST(test_revoke_of_idle_memory),
        TEST(test_region_ends_while_it_is_asked_for),
        TEST(test_peer_that_does_not_let_go),
        TEST(test_patience_is_for_all),
        TEST(test_forged_keys),
        TEST(test_key_that_is_a_lie),
        TEST(test_answered_twice),
        TEST(test_late_answer),
        TEST(test_revoke_out_of_place),
        TEST(test_by_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
