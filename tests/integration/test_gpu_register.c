/* tesup_mem_register_gpu and what tesup_mem_register finds out by itself: what can be shared is,
 * everything else is refused with CUDA's word for it and a remedy. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/proto.h"
#include "tests/harness/command.h"
#include "tests/harness/gpu.h"
#include "tests/harness/job.h"
#include "tests/harness/process.h"
#include "tests/harness/standin.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"
#include "tests/standin/dmabuf.h"

#define SIZE       (UINT64_C(1) << 20)
#define GRAIN      (UINT64_C(2) << 20)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

static struct daemon left;

static void expect_refused(const struct party *party, const void *pointer, uint64_t length,
                           int status, const char *part)
{
    tesup_region_t handle = 0;

    party_expect(tesup_mem_register_gpu(party->session, (void *)(uintptr_t)pointer, length,
                                        READ_WRITE, &handle),
                 status);
    if (strstr(tesup_last_error(), part) == NULL)
        fail_msg("'%s' is not in '%s'", part, tesup_last_error());
    assert_int_equal(handle, 0);
}

static void *pointer_of(cuda_pointer at)
{
    return (void *)(uintptr_t)at;
}

/* A READ of it within the worker brings what is there. */
static void expect_readable_at(const struct party *party, tesup_region_t handle, uint64_t offset,
                               uint64_t length, uint64_t seed)
{
    struct party_region here;
    struct tesup_request request = {
        .op = TESUP_OP_READ, .remote_region = handle, .remote_offset = offset, .length = length};

    party_region_create(party, PARTY_MEMORY_ALLOC, length, READ_WRITE, &here);
    request.local_region = here.handle;
    request.remote = party_open(party, tesup_segment_name(party->session));
    party_check(party_do(party->channel, &request).status, "READ");
    party_verify(here.bytes, length, seed, "what was registered");
    party_region_free(party, &here);
    party_check(tesup_segment_close(party->session, request.remote), "close");
}

static void expect_readable(const struct party *party, tesup_region_t handle, uint64_t length,
                            uint64_t seed)
{
    expect_readable_at(party, handle, 0, length, seed);
}

/* ---- cudaMalloc ---- */

static void pointers_run(void *unused)
{
    struct party party;
    tesup_region_t handle;
    cuda_pointer at, managed;
    void *pinned, *host = malloc(SIZE);

    (void)unused;
    gpu_begin();
    party_attach(&party, &left, NULL);
    at = gpu_alloc(SIZE);
    expect_refused(&party, pointer_of(at), SIZE + 1, TESUP_ERR_INVALID,
                   "end past their allocation");
    expect_refused(&party, pointer_of(at + SIZE - 1), 2, TESUP_ERR_INVALID, "end past");
    expect_refused(&party, pointer_of(at), UINT64_MAX, TESUP_ERR_INVALID, "end past");
    expect_refused(&party, pointer_of(at), 0, TESUP_ERR_INVALID, "0 bytes");
    expect_refused(&party, host, SIZE, TESUP_ERR_INVALID, "CUDA_ERROR_INVALID_VALUE");
    expect_refused(&party, NULL, SIZE, TESUP_ERR_INVALID, "CUDA_ERROR_INVALID_VALUE");
    gpu_check(gpu_driver.cuMemHostAlloc(&pinned, SIZE, 0));
    expect_refused(&party, pinned, SIZE, TESUP_ERR_INVALID, "tesup_mem_register");
    gpu_fill(at, SIZE, 3);
    handle = gpu_register(&party, at + 5, SIZE - 5, READ_WRITE);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    /* Found out by itself; pinned memory of the host is memory of the host. */
    party_check(tesup_mem_register(party.session, pointer_of(at), SIZE, READ_WRITE, &handle),
                "tesup_mem_register of GPU memory");
    expect_readable(&party, handle, SIZE, 3);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    party_fill(pinned, SIZE, 4);
    party_check(tesup_mem_register(party.session, pinned, SIZE, READ_WRITE, &handle), "pinned");
    expect_readable(&party, handle, SIZE, 4);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    gpu_free(at);
    expect_refused(&party, pointer_of(at), SIZE, TESUP_ERR_INVALID, "was it freed");
    managed = gpu_alloc_managed(SIZE);
    expect_refused(&party, pointer_of(managed), SIZE, TESUP_ERR_UNSUPPORTED, "managed memory");
    gpu_free(managed);
    gpu_check(gpu_driver.cuMemFreeHost(pinned));
    free(host);
    party_detach(&party);
    gpu_end();
}

/* ---- cuMemCreate ---- */

static cuda_memory piece_map(cuda_pointer at, enum cuda_handle_type type)
{
    const struct cuda_allocation shape = {.type = CUDA_ALLOCATION_PINNED,
                                          .requestedHandleTypes = type,
                                          .location = {.type = CUDA_LOCATION_DEVICE, .id = 0}};
    const struct cuda_access_description access = {
        .location = {.type = CUDA_LOCATION_DEVICE, .id = 0}, .flags = CUDA_ACCESS_READ_WRITE};
    cuda_memory memory;

    gpu_check(gpu_driver.cuMemCreate(&memory, GRAIN, &shape, 0));
    gpu_check(gpu_driver.cuMemMap(at, GRAIN, 0, memory, 0));
    gpu_check(gpu_driver.cuMemSetAccess(at, GRAIN, &access, 1));
    return memory;
}

static void piece_unmap(cuda_pointer at, cuda_memory memory)
{
    gpu_check(gpu_driver.cuMemUnmap(at, GRAIN));
    gpu_check(gpu_driver.cuMemRelease(memory));
}

/* Pieces side by side: two that can be shared, one that cannot, a hole. */
static void pieces_run(void *unused)
{
    cuda_memory memory[3];
    tesup_region_t handle;
    struct party party;
    cuda_pointer at;

    (void)unused;
    gpu_begin();
    party_attach(&party, &left, NULL);
    gpu_check(gpu_driver.cuMemAddressReserve(&at, 4 * GRAIN, 0, 0, 0));
    for (unsigned i = 0; i < 3; i++)
        memory[i] = piece_map(at + i * GRAIN, i < 2 ? CUDA_HANDLE_POSIX_FD : CUDA_HANDLE_NONE);
    expect_refused(&party, pointer_of(at + 2 * GRAIN), GRAIN, TESUP_ERR_UNSUPPORTED,
                   "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
    expect_refused(&party, pointer_of(at + 2 * GRAIN - 8), 16, TESUP_ERR_UNSUPPORTED,
                   "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
    gpu_fill(at + GRAIN + 9, SIZE, 11);
    handle = gpu_register(&party, at + GRAIN + 9, SIZE, READ_WRITE);
    expect_readable(&party, handle, SIZE, 11);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    /* Over the seam. */
    gpu_fill(at + GRAIN - 77, SIZE, 12);
    handle = gpu_register(&party, at + GRAIN - 77, SIZE, READ_WRITE);
    expect_readable(&party, handle, SIZE, 12);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    piece_unmap(at + 2 * GRAIN, memory[2]);
    memory[2] = piece_map(at + 3 * GRAIN, CUDA_HANDLE_POSIX_FD);
    expect_refused(&party, pointer_of(at + 2 * GRAIN - 8), 16, TESUP_ERR_INVALID,
                   "nothing is mapped at");
    expect_refused(&party, pointer_of(at + GRAIN), 3 * GRAIN, TESUP_ERR_INVALID,
                   "nothing is mapped at");
    for (unsigned i = 0; i < 3; i++)
        piece_unmap(at + (i < 2 ? i : 3) * GRAIN, memory[i]);
    gpu_check(gpu_driver.cuMemAddressFree(at, 4 * GRAIN));
    party_detach(&party);
    gpu_end();
}

/* As many as a message has room for, and one more. */
static void many_pieces_run(void *unused)
{
    const unsigned count = PROTO_GPU_PIECES_MAX + 1;
    cuda_pointer at;
    cuda_memory *memory = calloc(count, sizeof(*memory));
    tesup_region_t handle;
    struct party party;
    unsigned files;

    (void)unused;
    gpu_begin();
    party_attach(&party, &left, NULL);
    gpu_check(gpu_driver.cuMemAddressReserve(&at, (size_t)count * GRAIN, 0, 0, 0));
    for (unsigned i = 0; i < count; i++)
        memory[i] = piece_map(at + i * GRAIN, CUDA_HANDLE_POSIX_FD);
    files = process_fd_count(getpid());
    expect_refused(&party, pointer_of(at), (uint64_t)count * GRAIN, TESUP_ERR_LIMIT,
                   "more than 240 handles of cuMemCreate");
    assert_int_equal(process_fd_count(getpid()), files);
    handle = gpu_register(&party, at, (uint64_t)PROTO_GPU_PIECES_MAX * GRAIN, READ_WRITE);
    gpu_fill(at + (count - 2) * GRAIN, GRAIN, 13);
    expect_readable_at(&party, handle, (uint64_t)(count - 2) * GRAIN, GRAIN, 13);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    assert_int_equal(process_fd_count(getpid()), files);
    for (unsigned i = 0; i < count; i++)
        piece_unmap(at + i * GRAIN, memory[i]);
    gpu_check(gpu_driver.cuMemAddressFree(at, (size_t)count * GRAIN));
    party_detach(&party);
    gpu_end();
    free(memory);
}

/* ---- contexts ---- */

/* Memory of another context than the thread's, which keeps its own, or has none. */
static void contexts_run(void *unused)
{
    struct cuda_context *before, *after;
    tesup_region_t handle;
    struct party party;
    cuda_pointer at;

    (void)unused;
    gpu_begin();
    party_attach(&party, &left, NULL);
    at = gpu_alloc(SIZE);
    gpu_fill(at, SIZE, 5);
    gpu_use(1);
    for (int i = 0; i < 2; i++) {
        gpu_check(gpu_driver.cuCtxGetCurrent(&before));
        handle = gpu_register(&party, at, SIZE, READ_WRITE);
        expect_readable(&party, handle, SIZE, 5);
        party_check(tesup_mem_unregister(party.session, handle), "unregister");
        gpu_check(gpu_driver.cuCtxGetCurrent(&after));
        assert_ptr_equal(before, after);
        gpu_check(gpu_driver.cuCtxSetCurrent(NULL));
    }
    gpu_use(0);
    gpu_free(at);
    party_detach(&party);
    gpu_end();
}

/* ---- what the driver is asked for ---- */

/* The dmabuf that this process has open, which must be one. */
static struct standin_dmabuf dmabuf_own(void)
{
    struct standin_dmabuf head, found = {.size = 0};
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
            memcmp(head.magic, STANDIN_DMABUF_MAGIC, sizeof(head.magic)) != 0)
            continue;
        found = head;
        count++;
    }
    assert_int_equal(count, 1);
    return found;
}

/* The PCIe mapping type where there is one, else the plain one; whole pages; SYNC_MEMOPS. */
static void asked_run(void *unused)
{
    static const char *const kinds[] = {"pcie", "plain"};
    tesup_region_t handle;
    struct party party;
    cuda_pointer at;

    (void)unused;
    gpu_begin();
    party_attach(&party, &left, NULL);
    at = gpu_alloc(SIZE);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = gpu_own_counters().sync_memops;
        cuda_pointer begin = (at + 4096) & ~(cuda_pointer)4095; /* the first whole page */
        struct standin_dmabuf dmabuf;

        setenv("STANDIN_CUDA_DMABUF", kinds[i], 1);
        handle = gpu_register(&party, begin + 77, 5000, READ_WRITE);
        assert_int_equal(gpu_own_counters().sync_memops, before + 1);
        dmabuf = dmabuf_own();
        assert_int_equal(dmabuf.pcie, i == 0);
        assert_int_equal(dmabuf.address, begin);
        assert_int_equal(dmabuf.size, 2 * 4096);
        party_check(tesup_mem_unregister(party.session, handle), "unregister");
    }
    gpu_free(at);
    party_detach(&party);
    gpu_end();
}

/* ---- status ---- */

static void expect_shown(const char *way, const char *why, json_int_t regions)
{
    json_t *document = status_document(&left);
    const json_t *pair = json_array_get(json_object_get(document, "pairs"), 0);
    const json_t *line = json_array_get(json_object_get(pair, "gpu_memory"), 0);

    assert_string_equal(json_string_value(json_object_get(line, "gpu")), "0000:17:00.0");
    assert_string_equal(json_string_value(json_object_get(line, "way")), way);
    assert_string_equal(json_string_value(json_object_get(line, "why")), why);
    assert_int_equal(json_integer_value(json_object_get(line, "regions")), regions);
    assert_int_equal(json_integer_value(json_object_get(line, "bytes")),
                     regions * (json_int_t)SIZE);
    json_decref(document);
}

static void shown_run(void *unused)
{
    static struct command tree; /* large */
    tesup_region_t handle[2];
    struct party party;
    cuda_pointer at;
    char words[512];

    (void)unused;
    gpu_begin();
    party_attach(&party, &left, NULL);
    at = gpu_alloc(2 * SIZE);
    handle[0] = gpu_register(&party, at, SIZE, READ_WRITE);
    handle[1] = gpu_register(&party, at + SIZE, SIZE, READ_WRITE);
    expect_shown("staging", "no RDMA device is in use by this worker", 2);
    snprintf(words, sizeof(words), TESUP_BIN_DIR "/tesup status --name left --runtime-dir %s",
             daemon_directory());
    command_run(&tree, words);
    command_expect_text(tree.out, "0000:17:00.0: regions 2, 2.0");
    for (int i = 0; i < 2; i++)
        party_check(tesup_mem_unregister(party.session, handle[i]), "unregister");
    assert_int_equal(status_worker_count(&left, "gpu_bytes"), 0);
    gpu_free(at);
    party_detach(&party);
    gpu_end();
}

/* ---- calls fail in the job ---- */

static const struct {
    const char *call;
    const char *text;
} failures[] = {
    {"cuPointerGetAttributes:1:3", "cuPointerGetAttributes: CUDA_ERROR_NOT_INITIALIZED"},
    {"cuDeviceGet:2:101", "cuDeviceGet: CUDA_ERROR_INVALID_DEVICE"},
    {"cuCtxPushCurrent:1:201", "cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT"},
    {"cuDeviceGetUuid:1:1", "cuDeviceGetUuid: CUDA_ERROR_INVALID_VALUE"},
    {"cuIpcGetMemHandle:1:2", "cuIpcGetMemHandle: CUDA_ERROR_OUT_OF_MEMORY"},
    {"cuPointerSetAttribute:1:1", "cuPointerSetAttribute: CUDA_ERROR_INVALID_VALUE"},
};

static void failures_run(void *unused)
{
    struct party party;
    tesup_region_t handle;
    char rules[512] = "";
    cuda_pointer at;

    (void)unused;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
        snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules), "%s%s", i > 0 ? "," : "",
                 failures[i].call);
    /* A dmabuf is no condition. */
    snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules),
             ",cuMemGetHandleForAddressRange:1:801,cuMemGetHandleForAddressRange:2:801");
    setenv("STANDIN_CUDA_FAIL", rules, 1);
    gpu_begin();
    party_attach(&party, &left, NULL);
    at = gpu_alloc(SIZE);
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
        expect_refused(&party, pointer_of(at), SIZE, TESUP_ERR_UNSUPPORTED, failures[i].text);
    gpu_fill(at, SIZE, 5);
    handle = gpu_register(&party, at, SIZE, READ_WRITE);
    expect_readable(&party, handle, SIZE, 5);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    gpu_free(at);
    party_detach(&party);
    gpu_end();
}

/* A job without CUDA gets none. */
static void without_cuda_run(void *unused)
{
    struct party party;
    struct party_region host;

    (void)unused;
    party_attach(&party, &left, NULL);
    expect_refused(&party, &host, 8, TESUP_ERR_UNSUPPORTED, "has not loaded CUDA");
    party_region_create(&party, PARTY_MEMORY_PRIVATE, SIZE, READ_WRITE, &host);
    party_region_free(&party, &host);
    expect_refused(&party, &host, 8, TESUP_ERR_UNSUPPORTED, "has not loaded CUDA");
    party_detach(&party);
}

/* ---- the tests: each in a process of its own, whose CUDA is fresh ---- */

static void run(const char *label, job_function *function)
{
    struct job job;

    job_start(&job, label, function, NULL);
    job_expect_success(&job, WAIT_MS);
}

static void pointers(void **state)
{
    (void)state;
    run("pointers", pointers_run);
}

static void pieces(void **state)
{
    (void)state;
    run("pieces", pieces_run);
    run("many pieces", many_pieces_run);
}

static void contexts(void **state)
{
    (void)state;
    run("contexts", contexts_run);
}

static void asked(void **state)
{
    (void)state;
    run("what is asked for", asked_run);
}

static void shown(void **state)
{
    (void)state;
    run("status", shown_run);
}

static void calls_fail(void **state)
{
    (void)state;
    run("failing calls", failures_run);
}

static void without_cuda(void **state)
{
    (void)state;
    run("no CUDA", without_cuda_run);
}

static int group_setup(void **state)
{
    gpu_counters_begin();
    if (daemon_group_setup(state) < 0)
        return -1;
    daemon_start(&left, "left", "--fabric tcp");
    return 0;
}

static int group_teardown(void **state)
{
    daemon_stop(&left);
    gpu_counters_expect_clean();
    gpu_counters_end();
    return daemon_group_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(pointers, job_test_teardown),
        cmocka_unit_test_teardown(pieces, job_test_teardown),
        cmocka_unit_test_teardown(contexts, job_test_teardown),
        cmocka_unit_test_teardown(asked, job_test_teardown),
        cmocka_unit_test_teardown(shown, job_test_teardown),
        cmocka_unit_test_teardown(calls_fail, job_test_teardown),
        cmocka_unit_test_teardown(without_cuda, job_test_teardown),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
