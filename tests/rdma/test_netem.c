/* Packets that are lost: a few of them cost time and nothing else; all of them are noticed, the
 * receiver is told, and the way is found again when they pass again. */
#include "tests/harness/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define ROUNDS  60u
#define PATH_MS 5000u /* until a path that carries nothing is seen as dead */
#define THREADS 8u

static struct ends ends;

static int test_setup(void **state)
{
    rdma_setup(state);
    ends_begin(&ends, MIB);
    return 0;
}

static void test_end(void)
{
    ends_end(&ends);
    daemon_stop(&rdma_daemon[RDMA_LEFT]);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
}

/* Leaves no disturbance behind for the next test. */
static int test_teardown(void **state)
{
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        rdma_disturb(side, "delay 0");
        rdma_disturb(side, NULL);
    }
    return rdma_teardown(state);
}

static struct tesup_request block(uint64_t number, uint64_t length)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, length, "block");

    request.cookie = number;
    party_fill(ends.local.bytes, length, number);
    return request;
}

static void block_expect(uint64_t number, uint64_t length)
{
    struct tesup_notification note = party_next(ends.right.channel);

    assert_true(party_name_is(&note, "block"));
    party_verify(ends.remote.bytes, length, number, "at the notification");
    party_check(tesup_notify_release(ends.right.channel), "release");
}

static void works(uint64_t number, uint64_t length)
{
    struct tesup_request request = block(number, length);

    party_check(party_do(ends.left.channel, &request).status, "WRITE");
    block_expect(number, length);
    request.op = TESUP_OP_READ;
    memset(ends.local.bytes, 0, length);
    party_check(party_do(ends.left.channel, &request).status, "READ");
    party_verify(ends.local.bytes, length, number, "what was read");
    block_expect(number, length);
}

/* Each disturbance in both directions; the counters prove that there was one. */
static void disturbed(const char *netem)
{
    uint64_t seen = rdma_hw_count(RDMA_LEFT, "completer_retry_err") +
                    rdma_hw_count(RDMA_RIGHT, "out_of_seq_request") +
                    rdma_hw_count(RDMA_RIGHT, "duplicate_request");

    works(1, 4096);
    rdma_disturb(RDMA_LEFT, netem);
    rdma_disturb(RDMA_RIGHT, netem);
    for (uint64_t i = 0; i < ROUNDS; i++)
        works(i, i % 10 == 9 ? MIB : 4096);
    assert_true(rdma_hw_count(RDMA_LEFT, "completer_retry_err") +
                    rdma_hw_count(RDMA_RIGHT, "out_of_seq_request") +
                    rdma_hw_count(RDMA_RIGHT, "duplicate_request") >
                seen);
    assert_int_equal(status_worker_count(rdma_site.left, "endpoint_lost"), 0);
    assert_int_equal(status_worker_count(rdma_site.right, "endpoint_lost"), 0);
    test_end();
}

static void some_are_lost(void **state)
{
    (void)state;
    disturbed("loss 1%");
}

static void some_come_twice(void **state)
{
    (void)state;
    disturbed("duplicate 5%");
}

/* ---- all of them ---- */

static void event_expect(const struct party *party, tesup_remote_t remote)
{
    struct tesup_notification note = party_next(party->channel);

    assert_int_equal(note.kind, TESUP_NOTIFICATION_EVENT);
    party_expect(note.status, TESUP_ERR_UNREACHABLE);
    assert_int_equal(note.remote, remote);
    party_check(tesup_notify_release(party->channel), "release");
}

/* The receiver waits for a block that will not come: it watches its sender. */
static void all_are_lost(void **state)
{
    tesup_remote_t back = party_open(&ends.right, tesup_segment_name(ends.left.session));
    struct tesup_request request = block(2, 4096);
    uint64_t began;
    int status;

    (void)state;
    works(1, 4096);
    party_check(tesup_segment_watch(ends.right.session, back), "watch");
    rdma_disturb(RDMA_LEFT, "loss 100%");
    began = wait_now_ms();
    status = party_do(ends.left.channel, &request).status;
    if (status != TESUP_ERR_UNCERTAIN)
        party_expect(status, TESUP_ERR_UNREACHABLE);
    assert_true(wait_now_ms() - began < PATH_MS);
    event_expect(&ends.right, back);
    rdma_disturb(RDMA_LEFT, NULL);
    works(3, 4096);
    test_end();
}

/* ---- nobody to connect to ---- */

struct caller {
    int code;
};

static void *caller_run(void *argument)
{
    struct caller *caller = argument;
    tesup_remote_t remote;
    struct party party;

    party_attach(&party, rdma_site.left, NULL);
    caller->code =
        tesup_segment_open(party.session, tesup_segment_name(ends.right.session), &remote);
    party_detach(&party);
    return NULL;
}

/* TCP says hello, RDMA carries nothing: eight threads are told so, each in bounded time. */
static void unreachable_for_many_threads(void **state)
{
    struct caller caller[THREADS];
    pthread_t thread[THREADS];
    uint64_t began;

    (void)state;
    rdma_setup(NULL);
    party_attach(&ends.right, rdma_site.right, NULL);
    rdma_disturb(RDMA_RIGHT, "loss 100%");
    began = wait_now_ms();
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, caller_run, &caller[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_not_equal(caller[i].code, TESUP_OK);
    assert_true(wait_now_ms() - began < WAIT_MS);
    rdma_disturb(RDMA_RIGHT, NULL);
    party_attach(&ends.left, rdma_site.left, NULL);
    (void)party_open(&ends.left, tesup_segment_name(ends.right.session));
    test_end();
}

#define ON(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(some_are_lost),
        ON(some_come_twice),
        ON(all_are_lost),
        cmocka_unit_test_teardown(unreachable_for_many_threads, test_teardown),
    };

    return cmocka_run_group_tests(tests, rdma_vm_setup, rdma_vm_teardown);
}
