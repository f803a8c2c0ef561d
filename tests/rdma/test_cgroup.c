/* The device has nothing left for this worker: its cgroup may have no more queue pairs and regions.
 * Who comes then is refused with the reason, who is there goes on, and when there is room again, so
 * do the others. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"
#include "tests/harness/rawverbs.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define GROUPS "/sys/fs/cgroup"
#define GROUP  GROUPS "/tesup-test"

static struct ends ends;
static struct rawverbs raw;
static pid_t worker;

static void group_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fail_msg("cannot write '%s' to %s", text, path);
    close(fd);
}

/* What was made before is not counted: so many objects more. */
static void worker_may_have(const char *objects)
{
    char limit[64];

    snprintf(limit, sizeof(limit), "rxe0 hca_handle=max hca_object=%s", objects);
    group_write(GROUP "/rdma.max", limit);
}

static void worker_moves(const char *group)
{
    char pid[16], path[128];

    snprintf(pid, sizeof(pid), "%d", (int)worker);
    snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    group_write(path, pid);
}

static void bystanders_work(void)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 4096, "bystander");
    struct tesup_notification note;

    party_check(party_do(ends.left.channel, &request).status, "a bystander's WRITE");
    note = party_next(ends.right.channel);
    assert_true(party_name_is(&note, "bystander"));
    party_check(tesup_notify_release(ends.right.channel), "release");
}

static int group_setup(void **state)
{
    if (rdma_group_setup(state) < 0)
        return -1;
    ends_begin(&ends, MIB);
    bystanders_work();
    worker = status_worker_ready(rdma_site.left, 0);
    group_write(GROUPS "/cgroup.subtree_control", "+rdma");
    assert_int_equal(mkdir(GROUP, 0755), 0);
    worker_moves(GROUP);
    return 0;
}

static int group_teardown(void **state)
{
    worker_moves(GROUPS);
    assert_int_equal(rmdir(GROUP), 0);
    ends_end(&ends);
    return rdma_group_teardown(state);
}

/* HELLO of one more peer; what it is answered. */
static int newcomer_asks(void)
{
    rawverbs_open(&raw, rdma_site.left);
    return rawpeer_ask(&raw.peer, strchr(tesup_segment_name(ends.left.session), '/') + 1);
}

static void newcomer_goes(void)
{
    rawverbs_close(&raw);
    for (struct wait wait = wait_begin("its end", WAIT_MS); rdma_objects(worker).qps != 2;)
        wait_step(&wait);
}

static void text_expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static void no_queue_pair_is_left(void **state)
{
    (void)state;
    worker_may_have("0");
    assert_int_equal(newcomer_asks(), TS_AGAIN); /* it may come back */
    text_expect(raw.peer.welcome.text, "no data queue pair");
    text_expect(raw.peer.welcome.text, "rdma.max");
    newcomer_goes();
    bystanders_work();
}

/* One for data and none for notifications: it moves bytes, and knows that it cannot notify. */
static void one_queue_pair_is_left(void **state)
{
    (void)state;
    worker_may_have("1");
    assert_int_equal(newcomer_asks(), TS_OK);
    assert_true(raw.peer.welcome.verbs.offered);
    assert_int_equal(raw.peer.welcome.verbs.data_qps, 1);
    assert_int_equal(raw.peer.welcome.verbs.notify_qp, 0);
    newcomer_goes();
    assert_true(status_worker_erred(rdma_site.left, "no notification queue pair"));
    bystanders_work();
}

static void no_region_is_left(void **state)
{
    struct party_region region;
    tesup_region_t handle;
    void *address;

    (void)state;
    worker_may_have("0");
    party_expect(tesup_mem_alloc(ends.left.session, MIB, READ_WRITE, &address, &handle),
                 TESUP_ERR_NO_MEMORY);
    text_expect(tesup_last_error(), "rxe0 port 1 cannot register 1048576 bytes");
    text_expect(tesup_last_error(), "rdma.max");
    bystanders_work();
    worker_may_have("max");
    assert_true(party_region_create(&ends.left, PARTY_MEMORY_ALLOC, MIB, READ_WRITE, &region));
    party_region_free(&ends.left, &region);
}

static void room_again(void **state)
{
    (void)state;
    worker_may_have("max");
    assert_int_equal(newcomer_asks(), TS_OK);
    assert_int_not_equal(raw.peer.welcome.verbs.notify_qp, 0);
    newcomer_goes();
    assert_int_equal(status_worker_ready(rdma_site.left, 0), worker);
    bystanders_work();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_queue_pair_is_left),
        cmocka_unit_test(one_queue_pair_is_left),
        cmocka_unit_test(no_region_is_left),
        cmocka_unit_test(room_again),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
