/* A job that does not drain its mailbox stops only those who send to it: others on the same
 * endpoint flow on, and no packet ever meets a receiver without a buffer (RNR). */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/rdma/rdma_fixture.h"

#define NOTE   2000u /* bytes */
#define STREAM 400u  /* notifications to the job that drains */

#define PAIRS  4u /* of jobs, each with AHEAD of the largest under way: 17 packets each */
#define AHEAD  1u
#define ROUNDS 10u

static uint64_t rnr_sum(void)
{
    uint64_t sum = 0;

    for (unsigned side = 0; side < RDMA_SIDES; side++)
        sum += rdma_hw_count(side, "rcvd_rnr_err") + rdma_hw_count(side, "send_rnr_err") +
               rdma_hw_count(side, "retry_rnr_exceeded_err");
    return sum;
}

/* Numbered ones until no request is accepted any more and those accepted have settled. */
static uint32_t fill_up(struct party *party, tesup_remote_t remote, uint32_t *completed)
{
    uint8_t bytes[NOTE];
    struct tesup_request request = {
        .op = TESUP_OP_NOTIFY, .remote = remote, .name = bytes, .name_len = NOTE};
    uint64_t quiet = wait_now_ms() + 500;
    struct wait wait = wait_begin("the sender has to wait", 4 * WAIT_MS);
    struct tesup_completion done;
    uint32_t count = 0;

    memset(bytes, 5, sizeof(bytes));
    while (wait_now_ms() < quiet) {
        uint32_t accepted = 0;
        int code;

        memcpy(bytes, &count, sizeof(count));
        code = tesup_submit(party->channel, &request, 1, NULL, &accepted);
        if (code != TESUP_AGAIN)
            party_check(code, "submit");
        count += accepted;
        while (tesup_poll(party->channel, &done, 1) == 1) {
            party_check(done.status, "notification");
            (*completed)++;
            quiet = wait_now_ms() + 500;
        }
        if (accepted == 0)
            wait_step(&wait);
    }
    return count;
}

/* Everything that was accepted, in order, as soon as the job drains. */
static void drain_expect(struct party *from, struct party *to, uint32_t count, uint32_t completed)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tesup_notification note = party_next(to->channel);
        uint32_t number;

        assert_int_equal(note.name_len, NOTE);
        memcpy(&number, note.name, sizeof(number));
        assert_int_equal(number, i);
        party_check(tesup_notify_release(to->channel), "release");
    }
    for (; completed < count; completed++)
        party_check(party_complete(from->channel).status, "notification");
}

static void stream_expect(struct ends *ends)
{
    struct tesup_request request = ends_request(ends, TESUP_OP_WRITE, 4096, "stream");

    for (uint32_t i = 0; i < STREAM; i++) {
        struct tesup_notification note;

        party_submit(ends->left.channel, &request);
        note = party_next(ends->right.channel);
        assert_true(party_name_is(&note, "stream"));
        party_check(tesup_notify_release(ends->right.channel), "release");
        party_check(party_complete(ends->left.channel).status, "WRITE");
    }
}

static void only_its_senders_wait(void **state)
{
    struct party stuck_from, stuck_to;
    uint32_t count, completed = 0;
    uint64_t rnr = rnr_sum();
    struct ends ends;

    (void)state;
    ends_begin(&ends, 4096);
    party_attach(&stuck_from, rdma_site.left, NULL);
    party_attach(&stuck_to, rdma_site.right, NULL);
    count = fill_up(&stuck_from, party_open(&stuck_from, tesup_segment_name(stuck_to.session)),
                    &completed);
    assert_true(completed < count); /* it does wait */
    stream_expect(&ends);
    drain_expect(&stuck_from, &stuck_to, count, completed);
    assert_int_equal(rnr_sum(), rnr);
    ends_end(&ends);
    party_detach(&stuck_from);
    party_detach(&stuck_to);
}

static void largest_submit(const struct party *from, tesup_remote_t remote)
{
    static uint8_t bytes[TESUP_NOTIFY_MAX];
    struct tesup_request request = {
        .op = TESUP_OP_NOTIFY, .remote = remote, .name = bytes, .name_len = sizeof(bytes)};

    memset(bytes, 7, sizeof(bytes));
    party_submit(from->channel, &request);
}

static void largest_expect(const struct party *from, const struct party *to)
{
    struct tesup_notification note = party_next(to->channel);

    assert_int_equal(note.name_len, TESUP_NOTIFY_MAX);
    party_verify_byte(note.name, note.name_len, 7, "the largest there is");
    party_check(tesup_notify_release(to->channel), "release");
    party_check(party_complete(from->channel).status, "notification");
}

/* More packets under way than a peer has buffers for, again and again, both ways at once. */
static void no_receiver_is_ever_without_a_buffer(void **state)
{
    static struct ends ends[PAIRS];
    tesup_remote_t back[PAIRS];
    uint64_t rnr = rnr_sum();

    (void)state;
    for (unsigned i = 0; i < PAIRS; i++) {
        ends_begin(&ends[i], 4096);
        back[i] = party_open(&ends[i].right, tesup_segment_name(ends[i].left.session));
    }
    for (unsigned round = 0; round < ROUNDS + AHEAD; round++) {
        for (unsigned i = 0; i < PAIRS && round < ROUNDS; i++) {
            largest_submit(&ends[i].left, ends[i].there);
            largest_submit(&ends[i].right, back[i]);
        }
        for (unsigned i = 0; i < PAIRS && round >= AHEAD; i++) {
            largest_expect(&ends[i].left, &ends[i].right);
            largest_expect(&ends[i].right, &ends[i].left);
        }
    }
    assert_int_equal(rnr_sum(), rnr);
    for (unsigned i = 0; i < PAIRS; i++)
        ends_end(&ends[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_senders_wait),
        cmocka_unit_test(no_receiver_is_ever_without_a_buffer),
    };

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
