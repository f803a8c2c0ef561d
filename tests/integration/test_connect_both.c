/* Two workers connect to each other at the same instant, again and again: each time one endpoint is
 * left on either side, bytes flow both ways, and no attempt is left half done. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/atomics.h"
#include "shm/layout.h"
#include "tests/harness/endpoints.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define ROUNDS     50u
#define BLOCK      4096u
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

enum { LEFT, RIGHT, SIDES };

/* Each side counts the rounds in which it has come to a point. */
struct side {
    char name[LAYOUT_NAME_MAX];
    tesup_region_t region;
    _Atomic uint64_t attached, opened, moved, closed;
};

struct board {
    struct daemon daemon[SIDES];
    struct side side[SIDES];
    _Atomic uint64_t go;    /* the rounds that may begin */
    _Atomic uint64_t close; /* the rounds that may end */
};

static struct board *board;

/* As close together as two processes can be: no sleep between the word and the call. */
static void instant_wait(const _Atomic uint64_t *word, uint64_t value)
{
    uint64_t until = wait_now_ms() + 2 * WAIT_MS;

    while (atomic_observe(word) < value) /* pairs with the atomic_publish of the test */
        if (wait_now_ms() > until)
            fail_msg("too late: the test's word for round %llu", (unsigned long long)value);
}

/* A block to the other side, whose content tells the round, and its notification. */
static void block_send(const struct party *party, tesup_remote_t remote, tesup_region_t local,
                       uint8_t *bytes, const struct side *other, uint64_t round)
{
    const struct tesup_request request = {.op = TESUP_OP_WRITE,
                                          .remote = remote,
                                          .local_region = local,
                                          .remote_region = other->region,
                                          .length = BLOCK,
                                          .name = "round",
                                          .name_len = 5};

    party_fill(bytes, BLOCK, round);
    party_check(party_do(party->channel, &request).status, "WRITE");
}

static void block_expect(const struct party *party, const uint8_t *bytes, uint64_t round)
{
    struct tesup_notification note = party_next(party->channel);

    assert_true(party_name_is(&note, "round"));
    assert_int_equal(note.status, TESUP_OK);
    party_check(tesup_notify_release(party->channel), "release");
    party_verify(bytes, BLOCK, round, "the other side's block");
}

static void side_run(int which)
{
    struct side *own = &board->side[which];
    const struct side *other = &board->side[!which];
    struct party_region out, in;
    struct party party;

    party_attach(&party, &board->daemon[which], NULL);
    party_region_create(&party, PARTY_MEMORY_ALLOC, BLOCK, TESUP_ACCESS_LOCAL, &out);
    party_region_create(&party, PARTY_MEMORY_ALLOC, BLOCK, READ_WRITE, &in);
    snprintf(own->name, sizeof(own->name), "%s", tesup_segment_name(party.session));
    own->region = in.handle;
    atomic_publish(&own->attached, 1);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        tesup_remote_t remote;

        instant_wait(&board->go, round);
        party_check(tesup_segment_open(party.session, other->name, &remote), "open");
        atomic_publish(&own->opened, round);
        block_send(&party, remote, out.handle, out.bytes, other, round);
        block_expect(&party, in.bytes, round);
        atomic_publish(&own->moved, round);
        instant_wait(&board->close, round);
        party_check(tesup_segment_close(party.session, remote), "close");
        atomic_publish(&own->closed, round);
    }
    party_detach(&party);
}

static void left_run(void *argument)
{
    (void)argument;
    side_run(LEFT);
}

static void right_run(void *argument)
{
    (void)argument;
    side_run(RIGHT);
}

static void round_run(uint64_t round, struct counters_segment *const seen[SIDES])
{
    char what[32];

    snprintf(what, sizeof(what), "round %llu", (unsigned long long)round);
    atomic_publish(&board->go, round);
    for (int i = 0; i < SIDES; i++)
        wait_word(&board->side[i].moved, round, "bytes of both sides");
    for (int i = 0; i < SIDES; i++)
        endpoints_wait(seen[i], 1, what);
    atomic_publish(&board->close, round);
    for (int i = 0; i < SIDES; i++)
        wait_word(&board->side[i].closed, round, "both sides close");
    for (int i = 0; i < SIDES; i++)
        endpoints_wait(seen[i], 0, what);
}

static void test_both(void **state)
{
    struct counters_segment *seen[SIDES];
    struct job jobs[SIDES];
    uint64_t duplicates = 0;
    char options[64];

    board = job_board_create(sizeof(*board));
    /* Half of them are taken by the worker's own and one more: the rest is not kept for later. */
    snprintf(options, sizeof(options), "--fabric %s --endpoint-max 3", (const char *)*state);
    daemon_start(&board->daemon[LEFT], "left", options);
    daemon_start(&board->daemon[RIGHT], "right", options);
    job_start(&jobs[LEFT], "left job", left_run, NULL);
    job_start(&jobs[RIGHT], "right job", right_run, NULL);
    for (int i = 0; i < SIDES; i++)
        wait_word(&board->side[i].attached, 1, "both jobs attach");
    for (int i = 0; i < SIDES; i++)
        seen[i] = endpoints_open(&board->daemon[i]);
    for (uint64_t round = 1; round <= ROUNDS; round++)
        round_run(round, seen);
    for (int i = 0; i < SIDES; i++) {
        job_expect_success(&jobs[i], WAIT_MS);
        const struct counters_worker_stats *stats = &seen[i]->worker[0].stats;

        duplicates += atomic_peek(&stats->endpoint_duplicate);
        assert_int_equal(atomic_peek(&stats->endpoint_lost), 0);
        assert_int_equal(atomic_peek(&stats->peer_protocol), 0);
        counters_unmap(seen[i]);
    }
    /* Else they never met, and this test tested nothing. */
    if (duplicates == 0)
        fail_msg("in %u rounds the two sides never connected at the same time", ROUNDS);
    print_message("%llu duplicates in %u rounds\n", (unsigned long long)duplicates, ROUNDS);
    daemon_stop(&board->daemon[LEFT]);
    daemon_stop(&board->daemon[RIGHT]);
    job_board_free(board, sizeof(*board));
}

#define ON(test, fabric)                                                                   \
    {                                                                                      \
#test " over " fabric, test, NULL, daemon_test_teardown, (void *)(uintptr_t)fabric \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(test_both, "tcp"),
        ON(test_both, "local"),
    };

    return cmocka_run_group_tests_name("connecting from both sides", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
