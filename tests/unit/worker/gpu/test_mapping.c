/* A job's offer of GPU memory: what is right is mapped, what is forged is refused with CUDA's word
 * for it, and nothing is left either way. */
#include "tests/unit/worker/gpu/gpu_fixture.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "worker/gpu/way.h"

#define IPC_SIZE (1u << 20)

static struct host host;
static struct job job;

static void worker_begin(const char *gpu, bool trusted)
{
    const struct job_shape shape = {.handle = 1, .segment = "job"};
    struct proto_worker_config config = host_config("a");

    snprintf(config.gpu, sizeof(config.gpu), "%s", gpu);
    host_start(&host, &config);
    job_attach(&job, &host, &shape);
    if (trusted)
        job.session->trusted |= PROTO_TRUST_DEVICE;
}

static void worker_end(void)
{
    job_detach(&job);
    host_turns(2);
    host_stop(&host);
}

static int setup_memory(void **state)
{
    (void)state;
    memory_begin();
    worker_begin("", false);
    return 0;
}

static int teardown_memory(void **state)
{
    (void)state;
    worker_end();
    memory_end();
    return 0;
}

/* [SKIP, end) of that memory, as if it was mapped so often, side by side. */
static void pieces_offer(struct proto_region_gpu *ask, uint32_t pieces, int fds[PROTO_GPU_FDS_MAX])
{
    memory_offer(ask, pieces * SIZE - SKIP, false, fds);
    ask->gpu.pieces = pieces;
    for (uint32_t i = 1; i < pieces; i++) {
        ask->gpu.piece[i] = SIZE;
        check(cuda.cuMemExportToShareableHandle(&fds[i], handle, CUDA_HANDLE_POSIX_FD, 0));
    }
}

static int try_fds(const struct proto_region_gpu *ask, const int *fds, int count)
{
    text[0] = '\0';
    return region_add_gpu(job.session, ask, fds, count, text, sizeof(text));
}

/* The descriptors are ours again afterwards, or the worker's: none is left open twice. */
static void expect_refused(const struct proto_region_gpu *ask, const int *fds, int count,
                           int status, const char *part)
{
    struct standin_counters before = counters_now();

    assert_int_equal(try_fds(ask, fds, count), status);
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, text);
    for (int i = 0; i < count; i++)
        assert_true(close(fds[i]) < 0 && errno == EBADF);
    assert_int_equal(counters_now().mappings, before.mappings);
    assert_int_equal(counters_now().handles, before.handles);
    assert_int_equal(counters_now().reservations, before.reservations);
    assert_int_equal(host_stat(&host.worker.stats->gpu_regions), 0);
}

static void test_mapped(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];
    int count = memory_offer(&ask, SIZE - SKIP, true, fds);
    const struct region *region;

    (void)state;
    assert_int_equal(try_fds(&ask, fds, count), TS_OK);
    region = job_region_of(&job, 0);
    assert_int_equal(region->memory.length, SIZE - SKIP);
    assert_int_equal(region->memory.base, memory + SKIP);
    assert_true(gpu_mapping_dmabuf(region->memory.gpu) >= 0);
    assert_string_equal(region->way->way, "staging");
    assert_int_equal(host_stat(&host.worker.stats->gpu_bytes), SIZE - SKIP);
    assert_true(host_stat(&host.worker.stats->gpu_pinned_bytes) > 0);
}

static void test_past_the_end(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];
    int count = memory_offer(&ask, SIZE - SKIP + 1, false, fds);

    (void)state;
    expect_refused(&ask, fds, count, TS_ERR_INVALID, "the allocation has 4194304 bytes");
    count = memory_offer(&ask, 1, false, fds);
    ask.gpu.offset = UINT64_MAX;
    expect_refused(&ask, fds, count, TS_ERR_INVALID, "the allocation has");
}

static void test_forged_size(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];
    int count = memory_offer(&ask, 8192, false, fds);

    (void)state;
    ask.gpu.piece[0] = SIZE + GRAIN; /* more than there is behind the handle */
    expect_refused(&ask, fds, count, TS_ERR_INVALID, "cuMemMap: CUDA_ERROR_INVALID_VALUE");
    count = memory_offer(&ask, 8192, false, fds);
    ask.gpu.piece[0] = SIZE - 1;
    expect_refused(&ask, fds, count, TS_ERR_INVALID, "CUDA_ERROR_INVALID_VALUE");
    count = memory_offer(&ask, 8192, false, fds);
    ask.gpu.piece[0] = 0;
    expect_refused(&ask, fds, count, TS_ERR_INVALID, "CUDA_ERROR_INVALID_VALUE");
}

static void test_descriptor_of_something_else(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];

    (void)state;
    memory_offer(&ask, 8192, false, fds);
    close(fds[0]);
    fds[0] = memfd_create("no GPU's", MFD_CLOEXEC);
    expect_refused(&ask, fds, 1, TS_ERR_INVALID,
                   "cuMemImportFromShareableHandle: CUDA_ERROR_INVALID_VALUE");
}

static void test_no_offer(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];

    (void)state;
    memory_offer(&ask, 8192, false, fds);
    ask.gpu.ways = PROTO_GPU_VMM | PROTO_GPU_IPC; /* which? */
    expect_refused(&ask, fds, 1, TS_ERR_INVALID, "no offer");
    memory_offer(&ask, 8192, false, fds);
    ask.gpu.ways |= PROTO_GPU_DMABUF; /* and no descriptor for it */
    expect_refused(&ask, fds, 1, TS_ERR_INVALID, "no offer");
    memory_offer(&ask, 0, false, fds);
    expect_refused(&ask, fds, 1, TS_ERR_INVALID, "no offer");
}

/* The same handle three times, side by side: one region through all of them. */
static void test_pieces(void **state)
{
    struct standin_counters before = counters_now();
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];
    struct cuda_driver *driver = &cuda;

    (void)state;
    pieces_offer(&ask, 3, fds);
    assert_int_equal(try_fds(&ask, fds, 3), TS_OK);
    assert_int_equal(job_region_of(&job, 0)->memory.length, 3 * SIZE - SKIP);
    assert_int_equal(counters_now().mappings, before.mappings + 3);
    assert_int_equal(counters_now().reservations, before.reservations + 1);
    assert_int_equal(counters_now().handles, before.handles); /* the mappings keep them */
    /* What is written into one is in the next ones, too. */
    check(driver->cuMemcpyHtoD(memory + SKIP, "through", 7));
    for (uint64_t i = 0; i < 3; i++) {
        char seen[8] = "";

        check(driver->cuMemcpyDtoH(seen, job_region_of(&job, 0)->memory.gpu->at + i * SIZE, 7));
        assert_string_equal(seen, "through");
    }
    assert_int_equal(region_delete(job.session, JOB_HANDLE(0), 1), TS_OK);
    assert_int_equal(counters_now().mappings, before.mappings);
    assert_int_equal(counters_now().reservations, before.reservations);
}

static void test_forged_pieces(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];

    (void)state;
    pieces_offer(&ask, 3, fds);
    ask.gpu.piece[2] = SIZE + GRAIN; /* the first two are mapped by then */
    expect_refused(&ask, fds, 3, TS_ERR_INVALID, "cuMemMap: CUDA_ERROR_INVALID_VALUE");
    pieces_offer(&ask, 3, fds);
    ask.gpu.piece[0] = UINT64_MAX - GRAIN + 1; /* a sum that wraps */
    expect_refused(&ask, fds, 3, TS_ERR_INVALID, "cuMemAddressReserve: CUDA_ERROR_INVALID_VALUE");
    pieces_offer(&ask, 3, fds);
    ask.gpu.piece[1] = 0;
    expect_refused(&ask, fds, 3, TS_ERR_INVALID, "cuMemAddressReserve: CUDA_ERROR_INVALID_VALUE");
    pieces_offer(&ask, 3, fds);
    ask.region.length = 3 * SIZE - SKIP + 1;
    expect_refused(&ask, fds, 3, TS_ERR_INVALID, "the allocation has 12582912 bytes");
    pieces_offer(&ask, 3, fds);
    ask.gpu.pieces = 2; /* one descriptor is of nothing */
    expect_refused(&ask, fds, 3, TS_ERR_INVALID, "no offer");
    pieces_offer(&ask, 3, fds);
    ask.gpu.pieces = PROTO_GPU_PIECES_MAX + 1;
    expect_refused(&ask, fds, 3, TS_ERR_INVALID, "no offer");
    pieces_offer(&ask, 3, fds);
    close(fds[1]);
    fds[1] = memfd_create("no GPU's", MFD_CLOEXEC);
    expect_refused(&ask, fds, 3, TS_ERR_INVALID,
                   "cuMemImportFromShareableHandle: CUDA_ERROR_INVALID_VALUE");
}

static void test_unknown_device(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];

    (void)state;
    memory_offer(&ask, 8192, false, fds);
    ask.gpu.uuid[3] ^= 1;
    expect_refused(&ask, fds, 1, TS_ERR_UNSUPPORTED, "sees 2 GPUs");
}

/* The pair's GPU is another one; and it is found however its bus id is written. */
static void test_other_gpu(void **state)
{
    struct proto_region_gpu ask;
    int fds[PROTO_GPU_FDS_MAX];
    static const char *const same[] = {"0000:17:00.0", "17:00.0"};

    (void)state;
    memory_begin();
    worker_begin("0000:65:00.0", false);
    memory_offer(&ask, 8192, false, fds);
    expect_refused(&ask, fds, 1, TS_ERR_UNSUPPORTED,
                   "the memory is of GPU 0000:17:00.0, and worker a serves 0000:65:00.0: attach "
                   "with the pair gpu:0000:17:00.0");
    worker_end();
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        worker_begin(same[i], false);
        memory_offer(&ask, 8192, false, fds);
        assert_int_equal(try_fds(&ask, fds, 1), TS_OK);
        worker_end();
    }
    memory_end();
}

/* ---- CUDA IPC: memory of another process ---- */

static struct ipc_note {
    struct cuda_uuid uuid;
    struct cuda_ipc_memory first, second;
} note;
static pid_t exporter;
static int orders;

static void exporter_run(int out, int in)
{
    struct ipc_note mine;
    cuda_pointer first, second;
    char order;

    memory_begin();
    check(cuda.cuMemAlloc(&first, IPC_SIZE));
    check(cuda.cuMemAlloc(&second, IPC_SIZE));
    check(cuda.cuDeviceGetUuid(&mine.uuid, 0));
    check(cuda.cuIpcGetMemHandle(&mine.first, first));
    check(cuda.cuIpcGetMemHandle(&mine.second, second));
    if (write(out, &mine, sizeof(mine)) != sizeof(mine) || read(in, &order, 1) != 1)
        exit(1);
    check(cuda.cuMemFree(second));
    if (write(out, &order, 1) != 1 || read(in, &order, 1) != 0)
        exit(1);
    check(cuda.cuMemFree(first));
    memory_end();
    exit(0);
}

static int answers;

static void exporter_start(void)
{
    int out[2], in[2];

    if (pipe(out) < 0 || pipe(in) < 0)
        exit(1);
    exporter = fork();
    if (exporter == 0) {
        close(out[0]);
        close(in[1]);
        exporter_run(out[1], in[0]);
    }
    close(out[1]);
    close(in[0]);
    orders = in[1];
    answers = out[0];
    if (exporter < 0 || read(answers, &note, sizeof(note)) != sizeof(note))
        exit(1);
}

static int exporter_end(void)
{
    int status;

    close(orders);
    close(answers);
    return waitpid(exporter, &status, 0) == exporter ? status : -1;
}

static void ipc_offer(struct proto_region_gpu *ask, uint32_t index,
                      const struct cuda_ipc_memory *ipc, uint64_t length)
{
    *ask = (struct proto_region_gpu){
        .region = {.handle = JOB_HANDLE(index),
                   .kind = REGION_KIND_GPU,
                   .access = REGION_ACCESS_MASK,
                   .length = length},
        .gpu = {.ways = PROTO_GPU_IPC, .dmabuf_result = CUDA_NOT_SUPPORTED},
    };
    memcpy(ask->gpu.uuid, note.uuid.bytes, sizeof(ask->gpu.uuid));
    memcpy(ask->gpu.ipc, ipc, sizeof(ask->gpu.ipc));
}

static int setup_ipc(void **state)
{
    (void)state;
    assert_int_equal(cuda_driver_load(&cuda, CUDA_LOAD, text, sizeof(text)), 0);
    worker_begin("", true);
    return 0;
}

static int teardown_ipc(void **state)
{
    (void)state;
    worker_end();
    cuda_driver_unload(&cuda);
    return 0;
}

/* Two regions of one allocation: it is opened once. */
static void test_ipc(void **state)
{
    struct proto_region_gpu ask;

    (void)state;
    ipc_offer(&ask, 0, &note.first, IPC_SIZE);
    assert_int_equal(try_fds(&ask, NULL, 0), TS_OK);
    ipc_offer(&ask, 1, &note.first, 100);
    ask.gpu.offset = 77;
    assert_int_equal(try_fds(&ask, NULL, 0), TS_OK);
    assert_int_equal(counters_now().ipc_opened, 1);
    assert_int_equal(job_region_of(&job, 1)->memory.gpu->at,
                     job_region_of(&job, 0)->memory.gpu->at + 77);
    assert_int_equal(region_delete(job.session, JOB_HANDLE(0), 1), TS_OK);
    assert_int_equal(counters_now().ipc_opened, 1);
    assert_int_equal(region_delete(job.session, JOB_HANDLE(1), 2), TS_OK);
    assert_int_equal(counters_now().ipc_opened, 0);
}

static void test_ipc_past_the_end(void **state)
{
    struct proto_region_gpu ask;

    (void)state;
    ipc_offer(&ask, 0, &note.first, IPC_SIZE + 1);
    expect_refused(&ask, NULL, 0, TS_ERR_INVALID, "the allocation has 1048576 bytes");
    assert_int_equal(counters_now().ipc_opened, 0);
}

static void test_ipc_forged(void **state)
{
    struct proto_region_gpu ask;
    struct cuda_ipc_memory forged;

    (void)state;
    memset(&forged, 0x41, sizeof(forged));
    ipc_offer(&ask, 0, &forged, 4096);
    expect_refused(&ask, NULL, 0, TS_ERR_INVALID, "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE");
    forged = note.first;
    forged.reserved[16] ^= 1; /* of the number that only the exporter knows */
    ipc_offer(&ask, 0, &forged, 4096);
    expect_refused(&ask, NULL, 0, TS_ERR_INVALID, "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_");
}

static void test_ipc_of_freed_memory(void **state)
{
    struct proto_region_gpu ask;
    char order = 'f';

    (void)state;
    assert_int_equal(write(orders, &order, 1), 1);
    assert_int_equal(read(answers, &order, 1), 1);
    ipc_offer(&ask, 0, &note.second, 4096);
    expect_refused(&ask, NULL, 0, TS_ERR_INVALID, "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_HANDLE");
}

static void test_ipc_needs_trust(void **state)
{
    struct proto_region_gpu ask;

    (void)state;
    job.session->trusted &= ~PROTO_TRUST_DEVICE;
    ipc_offer(&ask, 0, &note.first, 4096);
    expect_refused(&ask, NULL, 0, TS_ERR_DENIED, "rdma.trust_uids");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ipc, setup_ipc, teardown_ipc),
        cmocka_unit_test_setup_teardown(test_ipc_past_the_end, setup_ipc, teardown_ipc),
        cmocka_unit_test_setup_teardown(test_ipc_forged, setup_ipc, teardown_ipc),
        cmocka_unit_test_setup_teardown(test_ipc_of_freed_memory, setup_ipc, teardown_ipc),
        cmocka_unit_test_setup_teardown(test_ipc_needs_trust, setup_ipc, teardown_ipc),
        cmocka_unit_test_setup_teardown(test_mapped, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_past_the_end, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_forged_size, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_descriptor_of_something_else, setup_memory,
                                        teardown_memory),
        cmocka_unit_test_setup_teardown(test_pieces, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_forged_pieces, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_no_offer, setup_memory, teardown_memory),
        cmocka_unit_test_setup_teardown(test_unknown_device, setup_memory, teardown_memory),
        cmocka_unit_test(test_other_gpu),
    };
    int failed;

    (void)argc;
    standin_use(argv);
    exporter_start(); /* before this process has CUDA, which does not live on in a child */
    fixture_begin(argv);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_end();
    return exporter_end() == 0 ? failed : 1;
}
