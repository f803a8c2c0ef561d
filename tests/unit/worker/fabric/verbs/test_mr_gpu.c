/* Memory of a GPU with the device: by its dmabuf, by its address, or not; and what status says. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "shm/cuda.h"
#include "tests/harness/standin.h"
#include "tests/harness/worker/job.h"
#include "worker/fabric/verbs/mr.h"
#include "worker/gpu/mapping.h"

#define GRAIN (2u << 20)
#define SIZE  (2u * GRAIN) /* of the allocation */
#define SKIP  4100u        /* the region begins within a page */

static struct host host;
static struct job job;
static struct fake_device *nic;
static unsigned pools;

/* What the job has. */
static struct cuda_driver cuda;
static struct cuda_context *context;
static cuda_pointer memory;
static cuda_memory handle;
static char text[PROTO_TEXT_MAX];

static void check(enum cuda_result result)
{
    if (result != CUDA_OK)
        fail_msg("%s", cuda_name(&cuda, result));
}

/* Of cuMemCreate: IPC would need another process. */
static int setup_memory(void **state)
{
    const struct cuda_allocation shape = {.type = CUDA_ALLOCATION_PINNED,
                                          .requestedHandleTypes = CUDA_HANDLE_POSIX_FD,
                                          .location = {.type = CUDA_LOCATION_DEVICE, .id = 0}};
    const struct cuda_access_description access = {
        .location = {.type = CUDA_LOCATION_DEVICE, .id = 0}, .flags = CUDA_ACCESS_READ_WRITE};
    const struct job_shape job_shape = {.handle = 1, .segment = "job"};
    struct proto_worker_config config;

    (void)state;
    assert_int_equal(cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text)), 0);
    check(cuda.cuInit(0));
    check(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    check(cuda.cuCtxSetCurrent(context));
    check(cuda.cuMemCreate(&handle, SIZE, &shape, 0));
    check(cuda.cuMemAddressReserve(&memory, SIZE, 0, 0, 0));
    check(cuda.cuMemMap(memory, SIZE, 0, handle, 0));
    check(cuda.cuMemSetAccess(memory, SIZE, &access, 1));
    fake_reset();
    nic = fake_device_add("fake0");
    config = host_config_verbs("a", "fake0");
    host_start(&host, &config);
    job_attach(&job, &host, &job_shape);
    pools = nic->mrs;
    return 0;
}

static int teardown_memory(void **state)
{
    (void)state;
    job_detach(&job);
    host_until(nic->mrs == pools);
    host_stop(&host);
    check(cuda.cuCtxSetCurrent(context));
    check(cuda.cuMemUnmap(memory, SIZE));
    check(cuda.cuMemAddressFree(memory, SIZE));
    check(cuda.cuMemRelease(handle));
    check(cuda.cuCtxSetCurrent(NULL));
    check(cuda.cuDevicePrimaryCtxRelease(0));
    cuda_driver_unload(&cuda);
    return 0;
}

/* As libtesup offers it. */
static struct region *region_try(uint64_t length, bool dmabuf)
{
    struct proto_region_gpu ask = {
        .region = {.handle = JOB_HANDLE(0),
                   .kind = REGION_KIND_GPU,
                   .access = REGION_ACCESS_MASK,
                   .base = memory + SKIP,
                   .length = length},
        .gpu = {.ways = PROTO_GPU_VMM, .size = SIZE, .offset = SKIP, .dmabuf_offset = SKIP % 4096},
    };
    int fds[PROTO_GPU_FDS_MAX] = {-1, -1};
    struct cuda_uuid uuid;

    check(cuda.cuDeviceGetUuid(&uuid, 0));
    memcpy(ask.gpu.uuid, uuid.bytes, sizeof(ask.gpu.uuid));
    check(cuda.cuMemExportToShareableHandle(&fds[0], handle, CUDA_HANDLE_POSIX_FD, 0));
    ask.gpu.dmabuf_result = CUDA_NOT_SUPPORTED;
    if (dmabuf) {
        check(cuda.cuMemGetHandleForAddressRange(&fds[1], memory + 4096, SIZE - 4096,
                                                 CUDA_RANGE_DMABUF_FD, 0));
        ask.gpu.ways |= PROTO_GPU_DMABUF;
        ask.gpu.dmabuf_result = CUDA_OK;
    }
    assert_int_equal(region_add_gpu(job.session, &ask, fds, dmabuf ? 2 : 1, text, sizeof(text)),
                     TS_OK);
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
    struct standin_counters before, after;
    struct region *region = region_try(8192, true);

    (void)state;
    assert_true(standin_counters_read(getenv("STANDIN_CUDA_COUNTERS"), getpid(), &before));
    assert_true(gpu_flush(host.worker.gpu));
    assert_true(standin_counters_read(getenv("STANDIN_CUDA_COUNTERS"), getpid(), &after));
    assert_int_equal(after.flushes, before.flushes + 1);
    region_revoke(region, 0);
    assert_true(gpu_flush(host.worker.gpu)); /* no NIC writes there any more */
    assert_true(standin_counters_read(getenv("STANDIN_CUDA_COUNTERS"), getpid(), &after));
    assert_int_equal(after.flushes, before.flushes + 1);
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
    char folder[] = "/tmp/tesup-mr-gpu-XXXXXX";
    char file[64];
    int failed;

    (void)argc;
    standin_use(argv);
    if (mkdtemp(folder) == NULL)
        return 1;
    setenv("STANDIN_CUDA_COUNTERS", folder, 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(file, sizeof(file), "%s/cuda.%d", folder, (int)getpid());
    unlink(file);
    rmdir(folder);
    return failed;
}
