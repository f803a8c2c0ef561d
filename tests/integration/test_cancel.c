/* Cancel and deadline: one completion each, and after it no byte lands any more. */
#include "tests/harness/test.h"

#include <signal.h>
#include <string.h>

#include "tests/harness/wait.h"
#include "tests/integration/duo_fixture.h"

#define BULK     (64 * MIB)
#define QUEUED   4u
#define WATCH_MS 60u /* how long nothing may change after the completion */

static void bulk_begin(struct duo *duo, const struct site *site)
{
    duo_begin(duo, site, BULK);
    memset(duo->local.bytes, 0x11, BULK);
    memset(duo->remote.bytes, 0x22, BULK);
}

/* Fills where bytes would land and watches it: bytes on their way would show. */
static void landing_expect_quiet(uint8_t *bytes)
{
    memset(bytes, 0xcc, BULK);
    wait_sleep_ms(WATCH_MS);
    party_verify_byte(bytes, BULK, 0xcc, "after the completion");
}

static void no_more_completions(struct party *party)
{
    struct tesup_completion done;

    wait_sleep_ms(20);
    assert_int_equal(tesup_poll(party->channel, &done, 1), 0);
}

static void duo_expect_works(struct duo *duo)
{
    struct tesup_request request = duo->request;

    request.length = 4096;
    request.deadline_ms = 0;
    party_check(party_do(duo->left.channel, &request).status, "the next transfer");
}

/* ---- running and queued ---- */

static void cancel_all(struct duo *duo, uint32_t op, unsigned after_ms)
{
    uint64_t ticket[QUEUED];
    uint32_t cancelled = 0, seen = 0;

    duo->request.op = op;
    for (uint32_t i = 0; i < QUEUED; i++) {
        duo->request.cookie = i;
        ticket[i] = party_submit(duo->left.channel, &duo->request);
    }
    wait_sleep_ms(after_ms);
    for (uint32_t i = QUEUED; i-- > 0;) {
        int code = tesup_cancel(duo->left.channel, ticket[i]);
        assert_true(code == TESUP_OK || code == TESUP_ERR_GONE);
    }
    for (uint32_t i = 0; i < QUEUED; i++) {
        struct tesup_completion done = party_complete(duo->left.channel);
        assert_int_equal(done.ticket, ticket[done.cookie]);
        assert_int_equal(seen & 1u << done.cookie, 0); /* each of them once */
        seen |= 1u << done.cookie;
        if (done.status != TESUP_OK) {
            party_expect(done.status, TESUP_ERR_CANCELLED);
            cancelled++;
        }
    }
    assert_true(cancelled > 0);
    landing_expect_quiet(op == TESUP_OP_WRITE ? duo->remote.bytes : duo->local.bytes);
    no_more_completions(&duo->left);
    party_expect(tesup_cancel(duo->left.channel, ticket[0]), TESUP_ERR_GONE);
    duo_expect_works(duo);
}

static void cancel_of_running_and_queued(void **state)
{
    static const unsigned pauses[] = {0, 3};
    struct duo duo;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bulk_begin(&duo, &sites[i]);
        for (size_t j = 0; j < 2; j++) {
            cancel_all(&duo, TESUP_OP_WRITE, pauses[j]);
            cancel_all(&duo, TESUP_OP_READ, pauses[j]);
        }
        duo_end(&duo);
    }
}

static void deadline_all(struct duo *duo, uint32_t op)
{
    uint32_t late = 0;

    duo->request.op = op;
    duo->request.deadline_ms = 4;
    for (uint32_t i = 0; i < QUEUED; i++)
        party_submit(duo->left.channel, &duo->request);
    for (uint32_t i = 0; i < QUEUED; i++) {
        struct tesup_completion done = party_complete(duo->left.channel);
        if (done.status != TESUP_OK) {
            party_expect(done.status, TESUP_ERR_TIMEOUT);
            late++;
        }
    }
    assert_true(late > 0); /* nobody moves 256 MiB in 4 ms */
    landing_expect_quiet(op == TESUP_OP_WRITE ? duo->remote.bytes : duo->local.bytes);
    no_more_completions(&duo->left);
    duo_expect_works(duo);
}

static void deadline_of_running_and_queued(void **state)
{
    struct duo duo;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bulk_begin(&duo, &sites[i]);
        deadline_all(&duo, TESUP_OP_WRITE);
        deadline_all(&duo, TESUP_OP_READ);
        duo_end(&duo);
    }
}

/* ---- a peer that cannot be reached ---- */

/* Its supervisor is dead: requests wait for its return. */
static void waiting_for_a_dead_peer(void **state)
{
    struct daemon daemon;
    struct site site = {"dead peer", sites[SITE_TCP].left, &daemon};
    struct tesup_completion done;
    struct duo duo;

    (void)state;
    daemon_start(&daemon, "dead", "--fabric tcp");
    bulk_begin(&duo, &site);
    duo_expect_works(&duo);
    daemon_kill(&daemon);
    uint64_t ticket = party_submit(duo.left.channel, &duo.request);
    int code = tesup_cancel(duo.left.channel, ticket);
    assert_true(code == TESUP_OK || code == TESUP_ERR_GONE);
    done = party_complete(duo.left.channel);
    if (done.status != TESUP_ERR_UNREACHABLE && done.status != TESUP_ERR_UNCERTAIN)
        party_expect(done.status, TESUP_ERR_CANCELLED);
    duo.request.deadline_ms = 100;
    for (int i = 0; i < 3; i++) {
        uint64_t begin = wait_now_ms();
        party_submit(duo.left.channel, &duo.request);
        done = party_complete(duo.left.channel);
        if (done.status != TESUP_ERR_UNREACHABLE)
            party_expect(done.status, TESUP_ERR_TIMEOUT);
        assert_true(wait_now_ms() - begin < 3000);
    }
    no_more_completions(&duo.left);
    duo_end(&duo);
}

/* The peer's worker stands still: the bytes in the sockets stay where they are. */
static void stopped_peer_within_deadline(void **state)
{
    struct duo duo;
    struct tesup_completion done;
    pid_t worker[DAEMON_WORKERS];

    (void)state;
    bulk_begin(&duo, &sites[SITE_TCP]);
    assert_int_equal(daemon_workers(sites[SITE_TCP].right, worker), 1);
    kill(worker[0], SIGSTOP);
    duo.request.deadline_ms = 200;
    for (int i = 0; i < 2; i++)
        party_submit(duo.left.channel, &duo.request);
    wait_sleep_ms(400);
    kill(worker[0], SIGCONT);
    for (int i = 0; i < 2; i++) {
        done = party_complete(duo.left.channel);
        if (done.status != TESUP_ERR_UNCERTAIN) /* the connection had to be given up */
            party_expect(done.status, TESUP_ERR_TIMEOUT);
    }
    landing_expect_quiet(duo.remote.bytes);
    no_more_completions(&duo.left);
    duo.request.deadline_ms = 5000;
    duo.request.length = 4096;
    party_check(party_do(duo.left.channel, &duo.request).status, "after SIGCONT");
    duo_end(&duo);
}

/* ---- a notification that waits for credit ---- */

static void waiting_for_credit(void **state)
{
    static uint8_t message[TESUP_NOTIFY_MAX];
    struct party left, right;
    struct tesup_request request = {
        .op = TESUP_OP_NOTIFY, .msg = message, .msg_len = sizeof(message), .deadline_ms = 300};
    uint32_t count = 0, late = 0, arrived = 0, accepted;
    struct tesup_completion done;
    struct tesup_notification note;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        party_attach(&left, sites[i].left, NULL);
        party_attach(&right, sites[i].right, NULL);
        request.remote = party_open(&left, tesup_segment_name(right.session));
        count = late = arrived = 0;
        while (late == 0) {
            while (count < 64 &&
                   tesup_submit(left.channel, &request, 1, NULL, &accepted) == TESUP_OK)
                count++;
            done = party_complete(left.channel);
            count--;
            if (done.status == TESUP_OK) {
                arrived++;
                continue;
            }
            party_expect(done.status, TESUP_ERR_TIMEOUT);
            late++;
        }
        for (; count > 0; count--) {
            done = party_complete(left.channel);
            arrived += done.status == TESUP_OK;
        }
        /* None of those that timed out comes after all. */
        for (; arrived > 0; arrived--) {
            party_next(right.channel);
            party_check(tesup_notify_release(right.channel), "release");
        }
        wait_sleep_ms(50);
        party_expect(tesup_notify_peek(right.channel, &note), TESUP_AGAIN);
        party_detach(&left);
        party_detach(&right);
    }
}

static int test_teardown(void **state)
{
    pid_t worker[DAEMON_WORKERS];

    (void)state;
    if (daemon_workers(sites[SITE_TCP].right, worker) == 1)
        kill(worker[0], SIGCONT);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_of_running_and_queued),
        cmocka_unit_test(deadline_of_running_and_queued),
        cmocka_unit_test(waiting_for_a_dead_peer),
        cmocka_unit_test_teardown(stopped_peer_within_deadline, test_teardown),
        cmocka_unit_test(waiting_for_credit),
    };

    return cmocka_run_group_tests(tests, site_group_setup, site_group_teardown);
}
