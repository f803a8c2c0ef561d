/* Memory of a GPU with the device: by its dmabuf, by its address, or not; and what status says. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include "tests/unit/worker/gpu/gpu_fixture.h"
#include "worker/fabric/verbs/mr.h"

static struct host host;
static struct job job;
static struct fake_device *nic;
static unsigned pools;

static int setup_memory(void **state)
{
    const struct job_shape shape = {.handle = 1, .segment = "job"};
    struct proto_worker_config config;

    (void)state;
    memory_begin();
    fake_reset();
    nic = fake_device_add("fake0");
    config = host_config_verbs("a", "fake0");
    host_start(&host, &config);
    job_attach(&job, &host, &shape);
    pools = nic->mrs;
    return 0;
}

static int teardown_memory(void **state)
{
    (void)state;
    job_detach(&job);
    host_until(nic->mrs == pools);
    host_stop(&host);
    memory_end();
    return 0;
}

static struct region *region_try(uint64_t length, bool dmabuf)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];
    int count = memory_offer(&ask, length, dmabuf, fds);

    assert_int_equal(region_add_gpu(job.session, &ask, fds, count, text, sizeof(text)), TS_OK);
    host_until(!job_region_of(&job, 0)->registering);
    return job_region_of(&job, 0);
}

static void expect_way(const struct region *region, const char *way, const char *why)
{
    assert_non_null(region->way);
    assert_string_equal(region->way->way, way);
    if (why[0] == '\0')
        assert_string_equal(region->way->why, "");
    else
        assert_non_null(strstr(region->way->why, why));
    assert_int_equal(host_stat(&region->way->regions), 1);
    assert_int_equal(host_stat(&region->way->bytes), region->memory.length);
    assert_int_equal(host_stat(&host.worker.stats->gpu_regions), 1);
}

static void test_dmabuf(void **state)
{
    const struct region *region = region_try(8192, true);
    uint64_t address, left;
    uint32_t lkey;

    (void)state;
    expect_way(region, "rdma (dmabuf)", "");
    assert_int_equal(nic->mrs, pools + 1);
    assert_int_equal(verbs_mr_local(region, 100, &lkey, &address, &left), TS_OK);
    assert_int_equal(address, memory + SKIP + 100); /* the job's own address */
}

/* By the registrar's thread. */
static void test_dmabuf_of_large_memory(void **state)
{
    (void)state;
    expect_way(region_try(SIZE - SKIP, true), "rdma (dmabuf)", "");
    assert_int_equal(nic->pinned >= SIZE - SKIP, true);
}

static void test_peer_memory_where_the_nic_takes_no_dmabuf(void **state)
{
    const struct region *region;
    uint64_t address, left;
    uint32_t lkey;

    (void)state;
    fake_fail(nic, FAKE_REG_DMABUF, 0, 1, EOPNOTSUPP);
    region = region_try(8192, true);
    expect_way(region, "rdma (peer memory)", "takes no dmabuf (Operation not supported)");
    assert_int_equal(verbs_mr_local(region, 0, &lkey, &address, &left), TS_OK);
    assert_int_equal(address, region->memory.gpu->at); /* as it is in this process */
}

static void test_peer_memory_where_the_driver_gives_no_dmabuf(void **state)
{
    (void)state;
    expect_way(region_try(8192, false), "rdma (peer memory)",
               "no dmabuf (CUDA_ERROR_NOT_SUPPORTED");
}

/* The region is there all the same, and says what to do. */
static void test_staging_where_nothing_works(void **state)
{
    const struct region *region;

    (void)state;
    fake_fail(nic, FAKE_REG_DMABUF, 0, 1, EOPNOTSUPP);
    fake_fail(nic, FAKE_REG_MR, 0, 1, EFAULT);
    region = region_try(8192, true);
    expect_way(region, "staging", "no peer memory (Bad address: modprobe nvidia-peermem)");
    assert_false(verbs_mr_is_known(region));
    assert_int_equal(nic->mrs, pools);
}

static void test_no_grant(void **state)
{
    const struct region *region = region_try(8192, true);
    struct proto_grant grant;
    int fd;

    (void)state;
    assert_int_equal(verbs_region_grant(region, &grant, &fd, text, sizeof(text)),
                     TS_ERR_UNSUPPORTED);
}

/* The stand-in's device does not order a NIC's writes by itself. */
static void test_flush(void **state)
{
    struct region *region = region_try(8192, true);
    uint64_t before = counters_now().flushes;

    (void)state;
    assert_true(gpu_flush(host.worker.gpu));
    assert_int_equal(counters_now().flushes, before + 1);
    region_revoke(region, 0);
    assert_true(gpu_flush(host.worker.gpu)); /* no NIC writes there any more */
    assert_int_equal(counters_now().flushes, before + 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dmabuf, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_dmabuf_of_large_memory, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_peer_memory_where_the_nic_takes_no_dmabuf,
                                        setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_peer_memory_where_the_driver_gives_no_dmabuf,
                                        setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_staging_where_nothing_works, setup_memory,
                                        teardown_memory),
        cmocka_unit_test_setup_teardown(test_no_grant, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_flush, setup_memory, teardown_memory),
    };
    int failed;

    (void)argc;
    fixture_begin(argv);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_end();
    return failed;
}
