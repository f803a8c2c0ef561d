/* Private memory: registered by the job itself, on a device that it is lent, and given back by
 * number, whatever the job says of it. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include <sys/mman.h>
#include <unistd.h>

#include "shm/uverbs.h"
#include "worker/fabric/verbs/mr.h"

#define SIZE 8192u
#define MINE 1u /* index of the private region */

static struct region *region; /* of the owner, private */
static uint8_t *bytes;        /* what it is of */
static unsigned mrs;          /* that are not the test's */
static char text[PROTO_TEXT_MAX];

static void region_make(uint64_t length)
{
    const struct proto_region ask = {.kind = REGION_KIND_PRIVATE,
                                     .access = REGION_ACCESS_MASK,
                                     .length = length,
                                     .base = (uintptr_t)bytes};

    job_region(&pair.owner, MINE, &ask, -1);
    region = job_region_of(&pair.owner, MINE);
}

static void grant_start(void)
{
    pair_start(&pair);
    pair.owner.session->trusted |= PROTO_TRUST_DEVICE;
    bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    region_make(SIZE);
    mrs = pair.device_b->mrs;
}

static int setup_granted(void **state)
{
    pair_prepare(&pair, PAIR_VERBS);
    grant_start();
    (void)state;
    return 0;
}

/* Whatever the job registered and told goes with it. */
static int teardown_granted(void **state)
{
    struct fake_device *device = pair.device_b;

    (void)state;
    pair_end(&pair);
    assert_int_equal(device->mrs, 0);
    munmap(bytes, SIZE);
    return 0;
}

static struct uverbs_domain lend(struct proto_grant *grant)
{
    struct uverbs_domain domain = {.fd = -1};

    assert_int_equal(verbs_region_grant(region, grant, &domain.fd, text, sizeof(text)), TS_OK);
    assert_int_equal(grant->handle, JOB_HANDLE(MINE));
    assert_int_equal(grant->access, verbs_mr_access(region));
    domain.driver = grant->driver;
    domain.handle = grant->domain;
    return domain;
}

/* What the library of the job does. */
static struct proto_keys keys_make(unsigned count)
{
    struct proto_keys keys = {.handle = JOB_HANDLE(MINE), .count = count};
    struct proto_grant grant;
    struct uverbs_domain domain = lend(&grant);

    for (unsigned i = 0; i < count; i++) {
        struct uverbs_mr mr;

        assert_int_equal(uverbs_mr_register(&domain, (uintptr_t)bytes, SIZE, grant.access, &mr), 0);
        keys.key[i] = (struct proto_key){.mr = mr.handle, .lkey = mr.lkey, .rkey = mr.rkey};
    }
    assert_int_equal(pair.device_b->mrs, mrs + count);
    return keys;
}

static int tell(const struct proto_keys *keys)
{
    return verbs_region_keys(region, keys, text, sizeof(text));
}

/* The peer that has its key is asked to forget it first. */
static void unregister(void)
{
    assert_int_equal(region_delete(pair.owner.session, JOB_HANDLE(MINE), 1), TS_OK);
    host_until(pair.device_b->mrs == mrs);
}

/* ---- what is lent ---- */

static void expect_not_lent(int status, const char *part)
{
    struct proto_grant grant;
    int fd = -1;

    assert_int_equal(verbs_region_grant(region, &grant, &fd, text, sizeof(text)), status);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(text, part));
}

static void test_lent(void **state)
{
    struct proto_grant grant;

    (void)state;
    assert_int_equal(lend(&grant).fd, nic_of(&pair.b)->device->cmd_fd);
    assert_int_equal(grant.domain, nic_of(&pair.b)->pd->handle);
    pair.owner.session->trusted = PROTO_TRUST_MEMORY;
    expect_not_lent(TS_ERR_DENIED, "rdma.trust_uids");
    pair.owner.session->trusted |= PROTO_TRUST_DEVICE;
    region = job_region_of(&pair.owner, 0);
    expect_not_lent(TS_ERR_UNSUPPORTED, "no device");
}

static void test_old_kernel(void **state)
{
    (void)state;
    pair.device_b->old_kernel = true;
    grant_start();
    expect_not_lent(TS_ERR_UNSUPPORTED, "no device that private memory could be registered with");
}

static void test_no_device(void **state)
{
    const struct proto_keys keys = {.handle = JOB_HANDLE(MINE)};
    struct verbs_nic *nic = region->worker->verbs;

    (void)state;
    region->worker->verbs = NULL;
    expect_not_lent(TS_ERR_UNSUPPORTED, "no device");
    assert_int_equal(tell(&keys), TS_ERR_DENIED);
    region->worker->verbs = nic;
}

/* ---- what the job says of it ---- */

static void test_bytes_in_place(void **state)
{
    struct proto_keys keys = keys_make(1);
    struct sqe sqe = pair_move(SQE_WRITE, 0, SIZE);
    uint64_t pinned = host_stat(&pair.b.worker.stats->pinned_bytes);

    (void)state;
    assert_int_equal(tell(&keys), TS_OK);
    assert_int_equal(host_stat(&pair.b.worker.stats->pinned_bytes), pinned + SIZE);
    pair_fill(pair.here, SIZE, 5);
    sqe.remote_region = JOB_HANDLE(MINE);
    assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    assert_memory_equal(bytes, pair.here, SIZE);
    assert_true(pair.device_a->work_requests > 0);
    unregister();
    assert_int_equal(host_stat(&pair.b.worker.stats->pinned_bytes), pinned);
}

/* It could not: its memory moves by TCP. */
static void test_refused_by_the_kernel(void **state)
{
    struct proto_keys keys = {.handle = JOB_HANDLE(MINE), .error = ENOMEM};
    struct sqe sqe = pair_move(SQE_WRITE, 0, SIZE);
    struct proto_grant grant;
    struct uverbs_domain domain = lend(&grant);
    struct uverbs_mr mr;

    (void)state;
    fake_fail(pair.device_b, FAKE_REG_MR, 0, 1, ENOMEM);
    assert_int_equal(uverbs_mr_register(&domain, (uintptr_t)bytes, SIZE, grant.access, &mr), -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(tell(&keys), TS_OK);
    assert_true(host_said(&pair.b, "its memlock limit"));
    assert_null(region->mr);
    pair_fill(pair.here, SIZE, 6);
    sqe.remote_region = JOB_HANDLE(MINE);
    assert_int_equal(job_completion(channel, job_submit(channel, &sqe, NULL)).status, TS_OK);
    assert_memory_equal(bytes, pair.here, SIZE);
}

/* What it registered for nothing goes again. */
static void test_counts_that_do_not_fit(void **state)
{
    static const unsigned counts[] = {0, 2, 3};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        struct proto_keys keys = keys_make(counts[i]);

        assert_int_equal(tell(&keys), TS_ERR_INVALID);
        assert_non_null(strstr(text, "do not fit the region"));
        assert_null(region->mr);
        assert_int_equal(pair.device_b->mrs, mrs);
    }
    assert_int_equal(pair.device_b->strangers, 0);
}

static void test_too_many(void **state)
{
    struct proto_keys keys = keys_make(1);

    (void)state;
    keys.count = PROTO_KEYS_MAX + 1;
    assert_int_equal(tell(&keys), TS_ERR_INVALID);
    assert_int_equal(pair.device_b->strangers, 0);
    keys.count = 1;
    assert_int_equal(tell(&keys), TS_OK);
}

static void test_told_twice(void **state)
{
    struct proto_keys first = keys_make(1), again;

    (void)state;
    assert_int_equal(tell(&first), TS_OK);
    mrs++;
    again = keys_make(1);
    assert_int_equal(tell(&again), TS_ERR_EXISTS);
    assert_int_equal(pair.device_b->mrs, mrs);
    assert_int_equal(region->mr->rkeys[0], first.key[0].rkey);
    mrs--;
    unregister();
}

/* Who was not lent a device can have no keys on it: not even to give back. */
static void test_keys_of_a_stranger(void **state)
{
    struct proto_keys keys = keys_make(1);

    (void)state;
    pair.owner.session->trusted = PROTO_TRUST_MEMORY;
    assert_int_equal(tell(&keys), TS_ERR_DENIED);
    assert_int_equal(pair.device_b->mrs, mrs + 1);
    pair.owner.session->trusted |= PROTO_TRUST_DEVICE;
    region = job_region_of(&pair.owner, 0); /* and not for memory that the worker registers */
    assert_int_equal(tell(&keys), TS_ERR_DENIED);
    assert_int_equal(pair.device_b->mrs, mrs + 1);
    region = job_region_of(&pair.owner, MINE);
    assert_int_equal(tell(&keys), TS_OK);
}

/* ---- the end ---- */

static void test_job_dies(void **state)
{
    struct proto_keys keys = keys_make(1);

    (void)state;
    assert_int_equal(tell(&keys), TS_OK);
    job_detach(&pair.owner);
    host_until(pair.device_b->mrs == mrs - 1); /* without the shared one, too */
    assert_int_equal(pair.device_b->strangers, 0);
    job_attach(&pair.owner, &pair.b, &(const struct job_shape){.handle = 3, .segment = "next"});
}

#define GRANTED(test) cmocka_unit_test_setup_teardown(test, setup_granted, teardown_granted)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GRANTED(test_lent),
        cmocka_unit_test_setup_teardown(test_old_kernel, setup_prepared, teardown_granted),
        GRANTED(test_no_device),
        GRANTED(test_bytes_in_place),
        GRANTED(test_refused_by_the_kernel),
        GRANTED(test_counts_that_do_not_fit),
        GRANTED(test_too_many),
        GRANTED(test_told_twice),
        GRANTED(test_keys_of_a_stranger),
        GRANTED(test_job_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
