/* Workers that die or stop, addresses that go, cables that are cut: each request ends, the sender
 * learns it in time, and everything works again by the same handles when the cause is gone. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define FAIL_MS    2500u /* a dead peer worker is seen within 2 s of sending */
#define STOPPED_MS 3000u
#define FLAP_MS    300u
#define PATH_MS    8000u /* a dead path: 1.9 s of retries, more on a device that is emulated */
#define BURST      16u
#define WAITING    100u /* notifications: more than a peer has buffers for */

static struct ends ends;
static uint64_t round_number;

static int test_setup(void **state)
{
    rdma_setup(state);
    ends_begin(&ends, 4 * MIB);
    return 0;
}

static void test_end(void)
{
    ends_end(&ends);
    daemon_stop(&rdma_daemon[RDMA_LEFT]);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
}

/* ---- steps ---- */

/* A block with its number as content and notification; its status. */
static int block_try(uint64_t number, uint64_t length)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, length, NULL);

    request.name = &number;
    request.name_len = sizeof(number);
    request.cookie = number;
    party_fill(ends.local.bytes, length, number);
    return party_do(ends.left.channel, &request).status;
}

/* Notifications up to the one with this number: none twice, none out of order, and the data of the
 * last one is there. */
static void block_expect(uint64_t number, uint64_t length)
{
    uint64_t last = 0, got = 0;

    while (got != number) {
        struct tesup_notification note = party_next(ends.right.channel);

        assert_int_equal(note.name_len, sizeof(got));
        memcpy(&got, note.name, sizeof(got));
        assert_true(got > last && got <= number);
        last = got;
        party_check(tesup_notify_release(ends.right.channel), "release");
    }
    party_verify(ends.remote.bytes, length, number, "at its notification");
}

static void works(void)
{
    static const uint64_t lengths[] = {4096, 3 * MIB};

    for (int i = 0; i < 2; i++) {
        uint64_t number = ++round_number;

        party_check(block_try(number, lengths[i]), "a block while all is well");
        block_expect(number, lengths[i]);
    }
}

/* Tries on until it works, every failure being one of those that say what is unknown. */
static void works_again(const char *what)
{
    struct wait wait = wait_begin(what, WAIT_MS);

    for (;;) {
        uint64_t number = ++round_number;
        int status = block_try(number, 4096);

        if (status == TESUP_OK) {
            block_expect(number, 4096);
            break;
        }
        if (status != TESUP_ERR_UNCERTAIN)
            party_expect(status, TESUP_ERR_UNREACHABLE);
        wait_step(&wait);
    }
    works();
}

static void burst_submit(void)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, MIB, NULL);

    for (unsigned i = 0; i < BURST; i++)
        party_submit(ends.left.channel, &request);
}

/* All of them end within the time; how many did not end well. */
static unsigned burst_expect(unsigned ms)
{
    uint64_t until = wait_now_ms() + ms;
    unsigned failed = 0;

    for (unsigned i = 0; i < BURST; i++) {
        struct tesup_completion done = party_complete(ends.left.channel);

        if (wait_now_ms() > until)
            fail_msg("completion %u came more than %u ms after its cause", i, ms);
        if (done.status == TESUP_OK)
            continue;
        if (done.status != TESUP_ERR_UNCERTAIN)
            party_expect(done.status, TESUP_ERR_UNREACHABLE);
        failed++;
    }
    return failed;
}

/* ---- workers ---- */

static void worker_killed(const struct daemon *victim, const struct daemon *other)
{
    pid_t pid = status_worker_ready(victim, 0), stays = status_worker_ready(other, 0);

    for (int i = 0; i < 3; i++) {
        works();
        burst_submit();
        assert_int_equal(kill(pid, SIGKILL), 0);
        burst_expect(WAIT_MS);
        pid = status_worker_ready(victim, pid);
        works_again("blocks after a worker was replaced");
    }
    assert_int_equal(status_worker_ready(other, 0), stays);
    assert_int_equal(rdma_objects(pid).qps, 2);
    assert_int_equal(rdma_objects(stays).qps, 2); /* none of the dead connections */
    test_end();
}

static void sender_is_replaced(void **state)
{
    (void)state;
    worker_killed(rdma_site.left, rdma_site.right);
}

static void receiver_is_replaced(void **state)
{
    (void)state;
    worker_killed(rdma_site.right, rdma_site.left);
}

/* Seen by the end of its connection, not by retries or a deadline; what was not posted yet goes
 * over the next connection. */
static void dead_receiver_is_seen_at_once(void **state)
{
    struct counters_segment *counters = endpoints_open(rdma_site.left);
    const _Atomic uint64_t *posted = &counters->worker[0].stats.rdma_work_requests;
    pid_t pid = status_worker_ready(rdma_site.right, 0);
    struct tesup_completion done;
    unsigned ended = 0;
    uint64_t began;

    (void)state;
    works();
    assert_int_equal(kill(rdma_site.right->pid, SIGSTOP), 0); /* starts no other one */
    began = atomic_peek(posted);
    burst_submit();
    wait_word(posted, began + 2, "requests are on their way");
    assert_int_equal(kill(pid, SIGKILL), 0);
    began = wait_now_ms();
    do {
        done = party_complete(ends.left.channel);
        ended++;
    } while (done.status == TESUP_OK);
    assert_true(wait_now_ms() - began < FAIL_MS);
    party_expect(done.status, TESUP_ERR_UNCERTAIN);
    assert_int_equal(kill(rdma_site.right->pid, SIGCONT), 0);
    for (; ended < BURST; ended++) {
        done = party_complete(ends.left.channel);
        if (done.status != TESUP_OK)
            party_expect(done.status, TESUP_ERR_UNCERTAIN);
    }
    works_again("blocks with the next worker");
    counters_unmap(counters);
    test_end();
}

/* Its device goes on without it: bytes land, notifications wait for buffers, nothing is lost. */
static void stopped_receiver_catches_up(void **state)
{
    pid_t pid = status_worker_ready(rdma_site.right, 0);
    uint64_t first, until;

    (void)state;
    works();
    first = round_number + 1;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    for (unsigned i = 0; i < WAITING; i++) {
        uint64_t number = ++round_number;
        struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 4096, NULL);

        request.name = &number;
        request.name_len = sizeof(number);
        party_submit(ends.left.channel, &request);
    }
    for (until = wait_now_ms() + STOPPED_MS; wait_now_ms() < until;) {
        struct tesup_notification note;

        party_expect(tesup_notify_peek(ends.right.channel, &note), TESUP_AGAIN);
        wait_sleep_ms(20);
    }
    assert_int_equal(kill(pid, SIGCONT), 0);
    for (uint64_t number = first; number <= round_number; number++) {
        struct tesup_notification note = party_next(ends.right.channel);

        assert_memory_equal(note.name, &number, sizeof(number));
        party_check(tesup_notify_release(ends.right.channel), "release");
        party_check(party_complete(ends.left.channel).status, "WRITE");
    }
    assert_int_equal(status_worker_ready(rdma_site.right, 0), pid);
    works();
    test_end();
}

/* More than a receiver has buffers for, which is stopped and then dies: nobody waits for ever. What
 * was handed to the dead connection is lost, nothing comes twice or out of order. */
static void waiting_ones_do_not_wait_for_a_dead_receiver(void **state)
{
    static const uint8_t filler[2000];
    pid_t pid = status_worker_ready(rdma_site.right, 0);
    struct tesup_completion done;
    unsigned accepted = 0, ended = 0;
    uint32_t one = 1;

    (void)state;
    works();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    while (one == 1 && accepted < WAITING) {
        uint64_t number = round_number + 1;
        struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                        .remote = ends.there,
                                        .name = &number,
                                        .name_len = sizeof(number),
                                        .msg = filler,
                                        .msg_len = sizeof(filler)};
        int code = tesup_submit(ends.left.channel, &request, 1, NULL, &one);

        if (code != TESUP_AGAIN)
            party_check(code, "submit");
        accepted += one;
        round_number += one;
        if (accepted == 1 && ended == 0) { /* handed to the connection, at least one */
            party_check(party_complete(ends.left.channel).status, "the first one");
            ended++;
        }
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    for (; ended < accepted; ended++) {
        done = party_complete(ends.left.channel);
        if (done.status != TESUP_OK)
            party_expect(done.status, TESUP_ERR_UNCERTAIN);
    }
    works_again("blocks with the next worker");
    test_end();
}

/* ---- the path ---- */

/* Too short for the retries to notice. */
static void short_flap_costs_nothing(void **state)
{
    (void)state;
    works();
    burst_submit();
    rdma_cable_cut(RDMA_RIGHT);
    wait_sleep_ms(FLAP_MS);
    rdma_cable_join(RDMA_RIGHT);
    assert_int_equal(burst_expect(WAIT_MS), 0);
    works();
    assert_int_equal(status_worker_count(rdma_site.left, "endpoint_lost"), 0);
    test_end();
}

static void cut_cable_is_seen_and_its_return(void **state)
{
    (void)state;
    works();
    burst_submit();
    rdma_cable_cut(RDMA_RIGHT);
    assert_true(burst_expect(PATH_MS) > 0);
    rdma_cable_join(RDMA_RIGHT);
    works_again("blocks over a cable that is whole again");
    assert_int_equal(rdma_objects(status_worker_ready(rdma_site.left, 0)).qps, 2);
    assert_int_equal(rdma_objects(status_worker_ready(rdma_site.right, 0)).qps, 2);
    test_end();
}

static void lost_address_is_seen_and_its_return(void **state)
{
    (void)state;
    works();
    rdma_address_drop(RDMA_RIGHT);
    status_worker_wait(rdma_site.right, "endpoint_lost", 1);
    rdma_address_give(RDMA_RIGHT);
    works_again("blocks to an address that came back");
    test_end();
}

#define ON(test) cmocka_unit_test_setup_teardown(test, test_setup, rdma_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(sender_is_replaced),
        ON(receiver_is_replaced),
        ON(dead_receiver_is_seen_at_once),
        ON(stopped_receiver_catches_up),
        ON(waiting_ones_do_not_wait_for_a_dead_receiver),
        ON(short_flap_costs_nothing),
        ON(cut_cable_is_seen_and_its_return),
        ON(lost_address_is_seen_and_its_return),
    };

    return cmocka_run_group_tests(tests, rdma_vm_setup, rdma_vm_teardown);
}
