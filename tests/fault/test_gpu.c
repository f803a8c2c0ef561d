/* GPU memory when something dies: jobs, the memory itself, a call of CUDA, the whole device.  Who
 * is not concerned goes on, everybody hears CUDA's name of it, and nothing stays open. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "shm/layout.h"
#include "tests/harness/gpu.h"
#include "tests/harness/job.h"
#include "tests/harness/standin.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define MIB        (UINT64_C(1) << 20)
#define SIZE       (4 * MIB)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

static struct daemon left, right;

/* What the test and its jobs share. */
struct board {
    const struct daemon *daemon;
    char name[LAYOUT_NAME_MAX];
    tesup_region_t region;
    _Atomic uint64_t ready, step, end, failed, free_it;
    _Atomic uint64_t rounds; /* of the source, at most; 0: many */
};

/* ---- jobs ---- */

/* Offers GPU memory until it is told to end. */
static void target_run(void *argument)
{
    struct board *board = argument;
    struct party party;
    cuda_pointer at;

    gpu_begin();
    party_attach(&party, board->daemon, NULL);
    at = gpu_alloc(SIZE);
    board->region = gpu_register(&party, at, SIZE, READ_WRITE);
    snprintf(board->name, sizeof(board->name), "%s", tesup_segment_name(party.session));
    atomic_publish(&board->ready, 1);
    if (atomic_observe(&board->free_it) != 0) {
        wait_word(&board->step, 1, "bytes on their way");
        gpu_free(at); /* too early; documented as the job's own fault */
        atomic_publish(&board->free_it, 2);
    }
    wait_word(&board->end, 1, "the end of the test");
    party_check(tesup_mem_unregister(party.session, board->region), "unregister");
    if (atomic_observe(&board->free_it) == 0)
        gpu_free(at);
    party_detach(&party);
    gpu_end();
}

static bool source_goes_on(const struct board *board, uint64_t done)
{
    uint64_t rounds = atomic_observe(&board->rounds);

    return atomic_observe(&board->end) == 0 && atomic_observe(&board->failed) == 0 &&
           (rounds == 0 || done < rounds);
}

/* WRITEs from GPU memory of its own to the target's, until one fails or the end. */
static void source_run(void *argument)
{
    struct board *board = argument;
    struct tesup_request request = {
        .op = TESUP_OP_WRITE, .remote_region = board->region, .length = SIZE};
    struct party party;
    cuda_pointer at;

    gpu_begin();
    party_attach(&party, &left, NULL);
    at = gpu_alloc(SIZE);
    request.local_region = gpu_register(&party, at, SIZE, TESUP_ACCESS_LOCAL);
    request.remote = party_open(&party, board->name);
    for (uint64_t done = 0; source_goes_on(board, done); done++) {
        int status = party_do(party.channel, &request).status;

        if (status != TESUP_OK)
            atomic_publish(&board->failed, (uint64_t)-status);
        else
            atomic_count(&board->step, 1);
    }
    party_check(tesup_mem_unregister(party.session, request.local_region), "unregister");
    gpu_free(at);
    party_detach(&party);
    gpu_end();
}

struct flow {
    struct board *board;
    struct job source, target;
};

static void flow_begin(struct flow *flow, bool free_it)
{
    flow->board = job_board_create(sizeof(*flow->board));
    flow->board->daemon = &right;
    atomic_set(&flow->board->free_it, free_it);
    job_start(&flow->target, "target", target_run, flow->board);
    wait_word(&flow->board->ready, 1, "the target's memory");
    job_start(&flow->source, "source", source_run, flow->board);
}

static void flow_expect_progress(const struct flow *flow)
{
    uint64_t now = atomic_observe(&flow->board->step);

    wait_word(&flow->board->step, now + 2, "two more transfers");
    assert_int_equal(atomic_observe(&flow->board->failed), 0);
}

static void flow_end(struct flow *flow)
{
    atomic_publish(&flow->board->end, 1);
    if (flow->source.pid != 0)
        job_expect_success(&flow->source, WAIT_MS);
    if (flow->target.pid != 0)
        job_expect_success(&flow->target, WAIT_MS);
    job_board_free(flow->board, sizeof(*flow->board));
}

/* `name` and `value` (NULL: none) are in the environment of the right one only. */
static void begin_with(const char *name, const char *value)
{
    daemon_start(&left, "left", "--fabric tcp");
    if (value != NULL)
        setenv(name, value, 1);
    daemon_start(&right, "right", "--fabric tcp --restart-max-deaths 1000");
    unsetenv(name);
}

static void begin(const char *failures)
{
    begin_with("STANDIN_CUDA_FAIL", failures);
}

static void end(void)
{
    daemon_stop(&left);
    daemon_stop(&right);
}

/* ---- jobs die ---- */

static void target_killed(void **state)
{
    struct flow killed, other;
    pid_t workers[2];

    (void)state;
    begin(NULL);
    flow_begin(&killed, false);
    flow_begin(&other, false);
    workers[0] = status_worker_ready(&left, 0);
    workers[1] = status_worker_ready(&right, 0);
    flow_expect_progress(&killed);
    job_kill(&killed.target);
    wait_word(&killed.board->failed, 1, "the source hears of it");
    flow_expect_progress(&other);
    gpu_worker_opened_wait(&right, 1);
    flow_end(&killed);
    flow_end(&other);
    assert_int_equal(status_worker_ready(&left, 0), workers[0]);
    assert_int_equal(status_worker_ready(&right, 0), workers[1]);
    end();
}

static void source_killed(void **state)
{
    struct flow killed, other;

    (void)state;
    begin(NULL);
    flow_begin(&killed, false);
    flow_begin(&other, false);
    flow_expect_progress(&killed);
    job_kill(&killed.source);
    flow_expect_progress(&other);
    gpu_worker_opened_wait(&left, 1);
    flow_end(&killed);
    flow_end(&other);
    gpu_worker_opened_wait(&left, 0);
    gpu_worker_opened_wait(&right, 0);
    end();
}

/* CUDA calls it undefined; here the worker's mapping keeps the memory, and nobody else suffers. */
static void freed_under_transfers(void **state)
{
    struct flow flow;

    (void)state;
    setenv("STANDIN_CUDA_FREE_EXPORTED", "allow", 1);
    begin(NULL);
    flow_begin(&flow, true);
    wait_word(&flow.board->free_it, 2, "the target frees its memory");
    flow_expect_progress(&flow);
    flow_end(&flow);
    unsetenv("STANDIN_CUDA_FREE_EXPORTED");
    gpu_worker_opened_wait(&right, 0);
    end();
}

/* ---- the device dies ---- */

/* The worker says so and starts anew, with the same regions; the other worker goes on. */
static void device_lost(void **state)
{
    struct flow flow;
    pid_t workers[2];

    (void)state;
    begin("cuMemcpyHtoDAsync@300:719");
    workers[0] = status_worker_ready(&left, 0);
    workers[1] =
        status_worker_ready(&right, 0); /* before anything is moved: it will be lost soon */
    flow_begin(&flow, false);
    wait_word(&flow.board->failed, 1, "the source hears of it");
    assert_int_equal(atomic_observe(&flow.board->failed), -TESUP_ERR_UNCERTAIN);
    job_expect_success(&flow.source, WAIT_MS);
    assert_int_not_equal(status_worker_ready(&right, workers[1]), workers[1]);
    assert_int_equal(status_worker_ready(&left, 0), workers[0]);
    assert_true(daemon_log_count(&right, "CUDA_ERROR_LAUNCH_FAILED; the worker starts anew") > 0);
    /* The region is there again, under the handle that peers know. */
    status_worker_wait(&right, "gpu_regions", 1);
    atomic_set(&flow.board->failed, 0);
    atomic_set(&flow.board->rounds, 2);
    job_start(&flow.source, "source", source_run, flow.board);
    flow_expect_progress(&flow);
    flow_end(&flow);
    end();
}

/* NVML tells of an error that no call has met yet. */
static void device_error_is_told(void **state)
{
    struct flow flow;
    char path[] = "/tmp/tesup-gpu-events-XXXXXX";
    FILE *events = fdopen(mkstemp(path), "w");
    struct wait wait;
    pid_t worker;

    (void)state;
    assert_non_null(events);
    setenv("STANDIN_CUDA_LEAKS", "allow", 1);
    begin_with("STANDIN_NVML_EVENTS", path);
    flow_begin(&flow, false);
    flow_expect_progress(&flow);
    worker = status_worker_ready(&right, 0);
    fprintf(events, "0000:65:00.0 79\n0000:17:00.0 13\n"); /* another GPU's; a program's own */
    fflush(events);
    wait = wait_begin("the worker's word of an Xid", WAIT_MS);
    while (!status_worker_erred(&right, "Xid 13"))
        wait_step(&wait);
    flow_expect_progress(&flow);
    assert_int_equal(status_worker_ready(&right, 0), worker);
    fprintf(events, "0000:17:00.0 79\n");
    fflush(events);
    status_worker_ready(&right, worker);
    unlink(path); /* as for the driver, the next one does not hear of it again */
    fclose(events);
    assert_true(daemon_log_count(&right, "GPU 0000:17:00.0 is lost: Xid 79") > 0);
    status_worker_wait(&right, "gpu_regions", 1);
    flow_end(&flow);
    end();
    setenv("STANDIN_CUDA_LEAKS", "abort", 1);
}

/* ---- calls fail ---- */

/* In the worker, while a region is registered; the first of some calls is made by the thread that
 * starts CUDA. */
struct refusal {
    const char *failure;
    const char *text;
};

static struct refusal refusals[] = {
    {"cuInit:2:100", "cuInit: CUDA_ERROR_NO_DEVICE"},
    {"cuDriverGetVersion:2:3", "cuDriverGetVersion failed with CUDA error 3"},
    {"cuDeviceGetCount:2:3", "the memory's is not among them"},
    {"cuDevicePrimaryCtxRetain:2:2", "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY"},
    {"cuCtxSetCurrent:1:201", "cuCtxSetCurrent: CUDA_ERROR_INVALID_CONTEXT"},
    {"cuStreamCreateWithPriority:2:2", "cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY"},
    {"cuEventCreate:40:2", "cuEventCreate: CUDA_ERROR_OUT_OF_MEMORY"},
    {"cuMemHostRegister:2:2", "cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY"},
    {"cuIpcOpenMemHandle:1:201", "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_CONTEXT"},
    {"cuMemGetAddressRange:1:1", "cuMemGetAddressRange: CUDA_ERROR_INVALID_VALUE"},
};

/* The first try fails and says why; the second one works, in the same worker. */
static void refused_once(void *argument)
{
    const struct refusal *refusal = argument;
    tesup_region_t handle;
    struct party party;
    cuda_pointer at;

    gpu_begin();
    party_attach(&party, &right, NULL);
    at = gpu_alloc(SIZE);
    assert_true(tesup_mem_register_gpu(party.session, (void *)(uintptr_t)at, SIZE, READ_WRITE,
                                       &handle) < 0);
    if (strstr(tesup_last_error(), refusal->text) == NULL)
        fail_msg("'%s' is not in '%s'", refusal->text, tesup_last_error());
    handle = gpu_register(&party, at, SIZE, READ_WRITE);
    party_check(tesup_mem_unregister(party.session, handle), "unregister");
    gpu_free(at);
    party_detach(&party);
    gpu_end();
}

static void calls_fail_at_registration(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct job job;
        pid_t worker;

        setenv("STANDIN_CUDA_FAIL", refusals[i].failure, 1);
        daemon_start(&right, "right", "--fabric tcp");
        unsetenv("STANDIN_CUDA_FAIL");
        worker = status_worker_ready(&right, 0);
        job_start(&job, refusals[i].failure, refused_once, &refusals[i]);
        job_expect_success(&job, WAIT_MS);
        assert_int_equal(status_worker_ready(&right, 0), worker);
        assert_int_equal(gpu_worker_counters(&right).ipc_opened, 0);
        daemon_stop(&right);
    }
}

/* While bytes move: that transfer fails, or the worker starts anew where nobody could know. */
static const struct {
    const char *failure;
    uint32_t op;
    int status;
    bool anew;
} copies[] = {
    {"cuMemcpyHtoDAsync:3:2", TESUP_OP_WRITE, TESUP_ERR_FAULT, false},
    {"cuMemcpyDtoHAsync:3:2", TESUP_OP_READ, TESUP_ERR_FAULT, false},
    {"cuEventRecord:3:2", TESUP_OP_WRITE, TESUP_ERR_FAULT, false},
    {"cuEventQuery:3:2", TESUP_OP_WRITE, TESUP_ERR_UNCERTAIN, true},
    {"cuMemcpyDtoHAsync:2:700", TESUP_OP_READ, TESUP_ERR_UNCERTAIN, true},
};

struct attempt {
    uint32_t op;
    int status;
    bool anew;
};

static void copy_fails_once(void *argument)
{
    const struct attempt *attempt = argument;
    struct tesup_request request = {.op = attempt->op, .length = SIZE};
    struct party here, there;
    struct party_region local;
    int status = TESUP_OK;
    cuda_pointer at;

    gpu_begin();
    party_attach(&here, &left, NULL);
    party_attach(&there, &right, NULL);
    at = gpu_alloc(SIZE);
    party_region_create(&here, PARTY_MEMORY_ALLOC, SIZE, READ_WRITE, &local);
    request.local_region = local.handle;
    request.remote_region = gpu_register(&there, at, SIZE, READ_WRITE);
    request.remote = party_open(&here, tesup_segment_name(there.session));
    for (int i = 0; i < 2 && status == TESUP_OK; i++)
        status = party_do(here.channel, &request).status;
    if (status != attempt->status && status != TESUP_ERR_FAULT)
        fail_msg("'%s' instead of '%s'", tesup_strerror(status), tesup_strerror(attempt->status));
    if (!attempt->anew) { /* the next worker would fail as this one did */
        party_fill(local.bytes, SIZE, 7);
        gpu_fill(at, SIZE, 7);
        party_check(party_do(here.channel, &request).status, "afterwards");
        party_verify(local.bytes, SIZE, 7, "local");
        gpu_verify(at, SIZE, 7, "remote");
    }
    party_detach(&here);
    party_detach(&there);
    gpu_free(at);
    gpu_end();
}

static void calls_fail_under_transfers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
        struct attempt attempt = {
            .op = copies[i].op, .status = copies[i].status, .anew = copies[i].anew};
        pid_t worker;
        struct job job;

        /* Nothing is given back to a device that is lost. */
        setenv("STANDIN_CUDA_LEAKS", copies[i].anew ? "allow" : "abort", 1);
        begin(copies[i].failure);
        worker = status_worker_ready(&right, 0);
        job_start(&job, copies[i].failure, copy_fails_once, &attempt);
        job_expect_success(&job, WAIT_MS);
        if (copies[i].anew)
            status_worker_ready(&right, worker);
        else
            assert_int_equal(status_worker_ready(&right, 0), worker);
        end();
    }
}

static int group_setup(void **state)
{
    gpu_counters_begin();
    return daemon_group_setup(state);
}

static int group_teardown(void **state)
{
    gpu_counters_end();
    return daemon_group_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(target_killed, daemon_test_teardown),
        cmocka_unit_test_teardown(source_killed, daemon_test_teardown),
        cmocka_unit_test_teardown(freed_under_transfers, daemon_test_teardown),
        cmocka_unit_test_teardown(device_lost, daemon_test_teardown),
        cmocka_unit_test_teardown(device_error_is_told, daemon_test_teardown),
        cmocka_unit_test_teardown(calls_fail_at_registration, daemon_test_teardown),
        cmocka_unit_test_teardown(calls_fail_under_transfers, daemon_test_teardown),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
