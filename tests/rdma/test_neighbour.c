/* A peer that answers by TCP and whose RDMA neighbour is absent: the kernel asks for its MAC
 * address for a second, and only those who want that peer wait. */
#include "tests/harness/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define ASKED_MS 900u /* the kernel's second, nearly */
#define GAP_MS   400u /* between two transfers of others: much less than that */

static struct ends ends;

struct caller {
    atomic_bool called;
    uint64_t took_ms;
    int code;
    char text[256];
};

static void *caller_run(void *argument)
{
    struct caller *caller = argument;
    uint64_t began = wait_now_ms();
    tesup_remote_t remote;

    caller->code =
        tesup_segment_open(ends.left.session, tesup_segment_name(ends.right.session), &remote);
    snprintf(caller->text, sizeof(caller->text), "%s", tesup_last_error());
    caller->took_ms = wait_now_ms() - began;
    atomic_store(&caller->called, true);
    return NULL;
}

/* Transfers within the worker that looks for the way; the longest time between two of them. */
static uint64_t others_gap_ms(struct caller *caller, const struct party *party)
{
    struct party_region region;
    struct tesup_request request = {.op = TESUP_OP_WRITE, .length = 64 * KIB};
    uint64_t last, longest = 0;

    party_region_create(party, PARTY_MEMORY_ALLOC, 128 * KIB, READ_WRITE, &region);
    request.remote = party_open(party, tesup_segment_name(party->session));
    request.local_region = request.remote_region = region.handle;
    request.remote_offset = 64 * KIB;
    for (last = wait_now_ms(); !atomic_load(&caller->called);) {
        uint64_t now;

        party_check(party_do(party->channel, &request).status, "WRITE");
        now = wait_now_ms();
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    party_region_free(party, &region);
    return longest;
}

static void absent_one_holds_nobody_up(unsigned side)
{
    struct caller caller = {.code = TESUP_OK};
    struct party other;
    pthread_t thread;
    uint64_t gap;

    rdma_setup(NULL);
    party_attach(&ends.left, rdma_site.left, NULL);
    party_attach(&ends.right, rdma_site.right, NULL);
    party_attach(&other, side == RDMA_LEFT ? rdma_site.left : rdma_site.right, NULL);
    rdma_disturb(1 - side, "loss 100%"); /* of the answers */
    rdma_neighbour_drop(side);
    assert_int_equal(pthread_create(&thread, NULL, caller_run, &caller), 0);
    gap = others_gap_ms(&caller, &other);
    pthread_join(thread, NULL);
    printf("opening took %llu ms, others waited %llu ms at most\n",
           (unsigned long long)caller.took_ms, (unsigned long long)gap);
    assert_int_not_equal(caller.code, TESUP_OK);
    if (strstr(caller.text, "no way with GID") == NULL)
        fail_msg("'%s' does not say that there is no way", caller.text);
    assert_true(caller.took_ms >= ASKED_MS);
    assert_true(gap < GAP_MS);
    rdma_disturb(1 - side, NULL);
    rdma_neighbour_give(side);
    (void)party_open(&ends.left, tesup_segment_name(ends.right.session));
    party_detach(&other);
    ends_end(&ends);
    daemon_stop(&rdma_daemon[RDMA_LEFT]);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
}

static void absent_for_the_caller(void **state)
{
    (void)state;
    absent_one_holds_nobody_up(RDMA_LEFT);
}

static void absent_for_the_called(void **state)
{
    (void)state;
    absent_one_holds_nobody_up(RDMA_RIGHT);
}

static int test_teardown(void **state)
{
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        rdma_disturb(side, "delay 0");
        rdma_disturb(side, NULL);
        rdma_neighbour_give(side);
    }
    return rdma_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(absent_for_the_caller, test_teardown),
        cmocka_unit_test_teardown(absent_for_the_called, test_teardown),
    };

    return cmocka_run_group_tests(tests, rdma_vm_setup, rdma_vm_teardown);
}
