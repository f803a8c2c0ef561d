/* Regions that wait for CUDA: who ends before it is there takes them along, descriptors and all. */
#include "tests/unit/worker/gpu/gpu_fixture.h"

#include <dirent.h>

#include "shm/wire.h"
#include "worker/gpu/start.h"

#define SESSION UINT64_C(7)
#define ADD_ID  100u
#define DEL_ID  101u

static struct host host;
static struct job job;
static unsigned open_files;

static unsigned files_count(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static int setup(void **state)
{
    struct proto_worker_config config = host_config("gpu");
    const struct job_shape shape = {.handle = SESSION, .segment = "job"};

    (void)state;
    memory_begin();
    host_start(&host, &config);
    job_attach(&job, &host, &shape);
    open_files = files_count();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_stop(&host);
    memory_end();
    return 0;
}

/* As the supervisor sends it; the worker has it at its next turn. */
static void region_send(uint32_t id)
{
    struct wire_message message;

    wire_message_init(&message, WIRE_REGION_ADD_GPU);
    message.header.id = id;
    message.header.session = SESSION;
    message.fd_count = memory_offer(&message.body.region_gpu, 8192, true, message.fds);
    assert_int_equal(wire_send(host.supervisor, &message), TS_OK);
    wire_message_close(&message);
}

static void delete_send(enum wire_type type)
{
    struct wire_message message;

    wire_message_init(&message, type);
    message.header.id = DEL_ID;
    message.header.session = SESSION;
    if (type == WIRE_REGION_DEL)
        message.body.handle.handle = JOB_HANDLE(0);
    assert_int_equal(wire_send(host.supervisor, &message), TS_OK);
}

static void expect_nothing_left(unsigned files)
{
    host_until(host.worker.gpu_start == NULL);
    assert_int_equal(host_stat(&host.worker.stats->gpu_regions), 0);
    assert_null(host.worker.gpu); /* nobody asked for it any more */
    assert_int_equal(files_count(), files);
}

static void test_waits_and_comes(void **state)
{
    (void)state;
    region_send(ADD_ID);
    host_until(host.worker.gpu_start != NULL);
    assert_true(gpu_start_waits(&host.worker, job.session));
    assert_false(job.session->held);
    host_until(host_answer(&host, ADD_ID) != NULL);
    assert_int_equal(host_answer(&host, ADD_ID)->status, TS_OK);
    assert_null(host.worker.gpu_start);
    assert_int_equal(host_stat(&host.worker.stats->gpu_regions), 1);
    job_detach(&job);
}

/* A region of before, whose job has given it up. */
static void test_region_goes(void **state)
{
    (void)state;
    region_send(0);
    delete_send(WIRE_REGION_DEL);
    host_until(host_answer(&host, DEL_ID) != NULL);
    assert_int_equal(host_answer(&host, DEL_ID)->status, TS_OK);
    assert_false(job.session->held);
    assert_null(host_answer(&host, 0));
    expect_nothing_left(open_files);
    /* It is as gone as any: the handle says so. */
    assert_int_equal(region_delete(job.session, JOB_HANDLE(0), 0), TS_ERR_GONE);
    job_detach(&job);
}

static void test_session_goes(void **state)
{
    (void)state;
    region_send(0);
    region_send(ADD_ID); /* the same handle: whatever comes of it, it goes, too */
    host_until(host.worker.gpu_start != NULL);
    job_detach(&job);
    assert_false(gpu_start_waits(&host.worker, job.session));
    host_until(host.worker.gpu_start == NULL);
    assert_null(host.worker.gpu);
    assert_null(host_answer(&host, ADD_ID));
    assert_true(files_count() < open_files);
}

static void test_worker_goes(void **state)
{
    (void)state;
    region_send(ADD_ID);
    host_until(host.worker.gpu_start != NULL);
    job_detach(&job); /* host_stop looks for what is left */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_waits_and_comes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_region_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_session_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_goes, setup, teardown),
    };
    int failed;

    (void)argc;
    fixture_begin(argv);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_end();
    return failed;
}
