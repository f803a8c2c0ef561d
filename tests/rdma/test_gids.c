/* A port with more addresses than work: the best pair of GIDs leads nowhere, of which only the
 * retries of the first packet tell, and the endpoint comes up over the next pair. */
#include "tests/harness/test.h"

#include <string.h>

#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define DEAD  "10.1.0.1" /* on the left side, before the good one */
#define TABLE "150"

static struct ends ends;

/* GIDs of one kind stay in the order of the port's table, and that is the order of coming.  Packets
 * to the dead address leave, for somebody who is not there. */
static int test_setup(void **state)
{
    const char *here = rdma_netdev(RDMA_LEFT), *there = rdma_netdev(RDMA_RIGHT);

    rdma_address_drop(RDMA_LEFT);
    rdma_run("ip address add " DEAD "/32 dev %s", here);
    rdma_address_give(RDMA_LEFT);
    rdma_run("ip rule add pref 5 iif lo to " DEAD " lookup " TABLE);
    rdma_run("ip route add " DEAD " dev %s table " TABLE, there);
    rdma_run("ip neighbour replace " DEAD " lladdr 02:00:00:00:00:99 nud permanent dev %s", there);
    return rdma_setup(state);
}

static int test_teardown(void **state)
{
    rdma_run("ip rule del pref 5");
    rdma_run("ip route flush table " TABLE);
    rdma_run("ip address del " DEAD "/32 dev %s", rdma_netdev(RDMA_LEFT));
    return rdma_teardown(state);
}

static void next_pair_of_gids(void **state)
{
    struct tesup_notification note;
    struct counters_segment *counters;
    struct rdma_endpoint endpoint;
    struct tesup_request request;

    (void)state;
    ends_begin(&ends, MIB);
    counters = endpoints_open(rdma_site.left);
    request = ends_request(&ends, TESUP_OP_WRITE, MIB, "over the next one");
    party_fill(ends.local.bytes, MIB, 11);
    party_check(party_do(ends.left.channel, &request).status, "WRITE");
    note = party_next(ends.right.channel);
    assert_true(party_name_is(&note, "over the next one"));
    party_check(tesup_notify_release(ends.right.channel), "release");
    party_verify(ends.remote.bytes, MIB, 11, "over the second pair of GIDs");
    endpoint = rdma_endpoint(counters);
    assert_string_equal(endpoint.fabric, "verbs");
    assert_string_equal(endpoint.notify, "native");
    counters_unmap(counters);
    ends_end(&ends);
    assert_true(status_worker_count(rdma_site.left, "rdma_errors") > 0); /* the first was tried */
    daemon_stop(&rdma_daemon[RDMA_LEFT]);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(next_pair_of_gids, test_setup, test_teardown),
    };

    return cmocka_run_group_tests(tests, rdma_vm_setup, rdma_vm_teardown);
}
