/* Daemons that may lock 64 KiB only and lack the capability to lock more: what does not fit is
 * refused with the limit and the remedy, what does fit works, and no process dies of it. */
#include "tests/harness/test.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "tests/harness/job.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define LOCKED (64 * KIB)
#define SMALL  (8 * KIB)

static void text_expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static void refused_expect(const struct ends *ends)
{
    tesup_region_t region;
    void *address;

    party_expect(tesup_mem_alloc(ends->left.session, MIB, READ_WRITE, &address, &region),
                 TESUP_ERR_NO_MEMORY);
    text_expect(tesup_last_error(), "65536 bytes");
    text_expect(tesup_last_error(), "LimitMEMLOCK=infinity");
}

/* There is no room for receive buffers either: the endpoint carries data and says what it lacks. */
static void small_one_expect(struct ends *ends)
{
    struct counters_segment *counters = endpoints_open(rdma_site.left);
    struct tesup_request request = ends_request(ends, TESUP_OP_WRITE, SMALL, NULL);
    struct rdma_endpoint endpoint;

    party_fill(ends->local.bytes, SMALL, 1);
    party_check(party_do(ends->left.channel, &request).status, "WRITE");
    party_verify(ends->remote.bytes, SMALL, 1, "a small region");
    request = ends_request(ends, TESUP_OP_NOTIFY, 0, "no room");
    party_expect(party_do(ends->left.channel, &request).status, TESUP_ERR_LIMIT);
    endpoint = rdma_endpoint(counters);
    assert_string_equal(endpoint.state, "ready");
    assert_string_equal(endpoint.fabric, "verbs");
    assert_string_equal(endpoint.notify, "refused (no room here)");
    assert_true(status_worker_erred(rdma_site.left, "LimitMEMLOCK=infinity"));
    counters_unmap(counters);
}

static void limited_run(void *argument)
{
    const struct rlimit limit = {LOCKED, LOCKED};
    pid_t workers[RDMA_SIDES];
    struct ends ends;

    (void)argument;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0), 0); /* of what it executes */
    assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0), 0);
    rdma_setup(NULL);
    for (unsigned side = 0; side < RDMA_SIDES; side++)
        workers[side] = status_worker_ready(&rdma_daemon[side], 0);
    ends_begin(&ends, SMALL);
    refused_expect(&ends);
    small_one_expect(&ends);
    refused_expect(&ends);
    small_one_expect(&ends);
    ends_end(&ends);
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        assert_int_equal(status_worker_ready(&rdma_daemon[side], 0), workers[side]);
        daemon_stop(&rdma_daemon[side]);
    }
}

static void limit_and_remedy_are_named(void **state)
{
    struct job job;

    (void)state;
    job_start(&job, "limited", limited_run, NULL);
    job_expect_success(&job, 4 * WAIT_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(limit_and_remedy_are_named, rdma_teardown),
    };

    return cmocka_run_group_tests(tests, rdma_vm_setup, rdma_vm_teardown);
}
