/* Forty jobs on each host share one endpoint between the two workers: two queue pairs on either
 * side, whoever talks to whom. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define JOBS  40u
#define BLOCK 4096u

struct many {
    struct party left, right;
    struct party_region local, remote;
    tesup_remote_t there;
};

static void one_endpoint_expect(const struct daemon *daemon)
{
    struct counters_segment *counters = endpoints_open(daemon);
    struct endpoints found = endpoints_look(counters);
    struct rdma_endpoint endpoint = rdma_endpoint(counters);
    pid_t worker = status_worker_ready(daemon, 0);

    assert_int_equal(found.ready, 1);
    assert_int_equal(found.other, 0);
    assert_string_equal(endpoint.fabric, "verbs");
    assert_string_equal(endpoint.notify, "native");
    assert_int_equal(rdma_objects(worker).qps, 2);
    assert_int_equal(rdma_objects(worker).cqs, 2);
    counters_unmap(counters);
}

static void round_run(struct many *many, uint64_t number)
{
    for (unsigned i = 0; i < JOBS; i++) {
        struct tesup_request request = {.op = TESUP_OP_WRITE,
                                        .cookie = i,
                                        .remote = many[i].there,
                                        .local_region = many[i].local.handle,
                                        .remote_region = many[i].remote.handle,
                                        .length = BLOCK,
                                        .name = &i,
                                        .name_len = sizeof(i)};

        party_fill(many[i].local.bytes, BLOCK, number * JOBS + i);
        party_submit(many[i].left.channel, &request);
    }
    for (unsigned i = 0; i < JOBS; i++) {
        struct tesup_notification note = party_next(many[i].right.channel);

        assert_int_equal(note.name_len, sizeof(i));
        assert_memory_equal(note.name, &i, sizeof(i));
        party_verify(many[i].remote.bytes, BLOCK, number * JOBS + i, "one of many");
        party_check(tesup_notify_release(many[i].right.channel), "release");
        party_check(party_complete(many[i].left.channel).status, "one of many");
    }
}

static void forty_jobs_share_one_endpoint(void **state)
{
    static struct many many[JOBS];
    uint64_t pool;

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        party_attach(&many[i].left, rdma_site.left, NULL);
        party_attach(&many[i].right, rdma_site.right, NULL);
        party_region_create(&many[i].left, PARTY_MEMORY_ALLOC, BLOCK, READ_WRITE, &many[i].local);
        party_region_create(&many[i].right, PARTY_MEMORY_ALLOC, BLOCK, READ_WRITE, &many[i].remote);
        many[i].there = party_open(&many[i].left, tesup_segment_name(many[i].right.session));
    }
    round_run(many, 0);
    pool = status_worker_count(rdma_site.right, "rdma_pool_bytes");
    for (uint64_t number = 1; number < 10; number++)
        round_run(many, number);
    one_endpoint_expect(rdma_site.left);
    one_endpoint_expect(rdma_site.right);
    assert_int_equal(status_worker_count(rdma_site.right, "rdma_pool_bytes"), pool);
    assert_int_equal(status_worker_count(rdma_site.left, "sessions"), JOBS);
    for (unsigned i = 0; i < JOBS; i++) {
        party_detach(&many[i].left);
        party_detach(&many[i].right);
    }
}

/* Of one file, however often it is registered: one registration with the device, the next time it
 * costs none. */
static void shared_memory_is_registered_once(void **state)
{
    struct party_region first, again[4];
    struct party party[5];
    pid_t worker = status_worker_ready(rdma_site.left, 0);
    unsigned before, once;

    (void)state;
    party_attach(&party[0], rdma_site.left, NULL);
    before = rdma_objects(worker).mrs;
    party_region_create(&party[0], PARTY_MEMORY_MEMFD, MIB, READ_WRITE, &first);
    once = rdma_objects(worker).mrs;
    assert_int_equal(once, before + 1);
    for (unsigned i = 0; i < 4; i++) {
        again[i] = first;
        party_attach(&party[i + 1], rdma_site.left, NULL);
        party_check(tesup_mem_register_fd(party[i + 1].session, first.fd, 0, MIB, first.bytes,
                                          READ_WRITE, &again[i].handle),
                    "the same file");
    }
    assert_int_equal(rdma_objects(worker).mrs, once);
    party_region_free(&party[0], &first);
    assert_int_equal(rdma_objects(worker).mrs, once); /* the others have it still */
    for (unsigned i = 0; i < 5; i++)
        party_detach(&party[i]);
    for (struct wait wait = wait_begin("the registration goes with its last user", WAIT_MS);
         rdma_objects(worker).mrs != before;)
        wait_step(&wait);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forty_jobs_share_one_endpoint),
        cmocka_unit_test(shared_memory_is_registered_once),
    };

    return cmocka_run_group_tests(tests, rdma_group_setup, rdma_group_teardown);
}
