/* Requests in the order of a stream: what waits for an event starts when the GPU has come to it,
 * and not before; what does not wait is not held up; a wait that fails takes those behind it along.
 */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/harness/gpu.h"
#include "tests/harness/job.h"
#include "tests/harness/site.h"
#include "tests/harness/standin.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define SIZE       (UINT64_C(300) * 1024 + 13)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define HELD_MS    60 /* long enough to be early, if it was not held */

enum cookie { COOKIE_WAIT = 100, COOKIE_AFTER, COOKIE_OTHER, COOKIE_LAST };

/* A job at each end; the left one's work on the GPU is held up as long as it likes. */
struct ends {
    struct party left, right;
    cuda_pointer here, there;
    tesup_region_t local, target, event;
    tesup_remote_t remote;
    struct cuda_stream *stream;
    struct cuda_event *recorded;
    _Atomic bool go;
};

static struct ends ends; /* the driver's threads may look at it until the process ends */

static void ends_begin(const struct site *site)
{
    party_attach(&ends.left, site->left, NULL);
    party_attach(&ends.right, site->right, NULL);
    ends.here = gpu_alloc(SIZE);
    ends.there = gpu_alloc(SIZE);
    ends.local = gpu_register(&ends.left, ends.here, SIZE, READ_WRITE);
    ends.target = gpu_register(&ends.right, ends.there, SIZE, READ_WRITE);
    ends.remote = party_open(&ends.left, tesup_segment_name(ends.right.session));
    gpu_check(gpu_driver.cuStreamCreate(&ends.stream, CUDA_STREAM_NON_BLOCKING));
    gpu_check(gpu_driver.cuEventCreate(&ends.recorded,
                                       CUDA_EVENT_INTERPROCESS | CUDA_EVENT_DISABLE_TIMING));
    party_check(tesup_event_register_gpu(ends.left.session, ends.recorded, &ends.event),
                "tesup_event_register_gpu");
    gpu_set(ends.here, SIZE, 1);
    gpu_set(ends.there, SIZE, 2);
    atomic_store(&ends.go, false);
}

static void ends_end(void)
{
    atomic_store(&ends.go, true);
    party_detach(&ends.left);
    party_detach(&ends.right);
    gpu_check(gpu_driver.cuStreamSynchronize(ends.stream));
    gpu_check(gpu_driver.cuStreamDestroy(ends.stream));
    gpu_check(gpu_driver.cuEventDestroy(ends.recorded));
    gpu_free(ends.here);
    gpu_free(ends.there);
}

/* In a thread of the driver: the stream stands still. */
static void stream_hold(void *context)
{
    (void)context;
    for (unsigned ms = 0; ms < WAIT_MS && !atomic_load(&ends.go); ms++)
        wait_sleep_ms(1);
}

/* The memory gets `value` behind the hold, and the event is recorded behind that. */
static void work_launch(uint8_t value)
{
    gpu_check(gpu_driver.cuLaunchHostFunc(ends.stream, stream_hold, NULL));
    gpu_check(gpu_driver.cuMemsetD8Async(ends.here, value, SIZE, ends.stream));
    gpu_check(gpu_driver.cuEventRecord(ends.recorded, ends.stream));
}

static uint64_t wait_submit(uint32_t deadline_ms)
{
    const struct tesup_request wait = {.op = TESUP_OP_WAIT,
                                       .cookie = COOKIE_WAIT,
                                       .deadline_ms = deadline_ms,
                                       .local_region = ends.event};

    return party_submit(ends.left.channel, &wait);
}

static uint64_t write_submit(uint32_t flags, enum cookie cookie)
{
    const uint32_t number = (uint32_t)cookie;
    const struct tesup_request write = {.op = TESUP_OP_WRITE,
                                        .flags = flags,
                                        .cookie = number,
                                        .remote = ends.remote,
                                        .local_region = ends.local,
                                        .remote_region = ends.target,
                                        .length = SIZE,
                                        .msg = &number,
                                        .msg_len = sizeof(number)};

    return party_submit(ends.left.channel, &write);
}

static void done_expect(enum cookie cookie, int status)
{
    struct tesup_completion done = party_complete(ends.left.channel);

    assert_int_equal(done.cookie, cookie);
    party_expect(done.status, status);
}

static void note_expect(enum cookie cookie, int status)
{
    struct tesup_notification note = party_next(ends.right.channel);
    uint32_t number;

    party_expect(note.status, status);
    assert_int_equal(note.msg_len, sizeof(number));
    memcpy(&number, note.msg, sizeof(number));
    assert_int_equal(number, cookie);
    party_check(tesup_notify_release(ends.right.channel), "release");
}

static void silence_expect(void)
{
    party_expect_silence(ends.left.channel, HELD_MS);
    party_expect_silence(ends.right.channel, 1);
}

/* ---- what the wait is for ---- */

static void starts_behind_the_event(const struct site *site)
{
    ends_begin(site);
    work_launch(7);
    wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_AFTER);
    silence_expect();
    gpu_verify_byte(ends.there, SIZE, 2, "nothing has moved");
    atomic_store(&ends.go, true);
    done_expect(COOKIE_WAIT, TESUP_OK);
    done_expect(COOKIE_AFTER, TESUP_OK);
    note_expect(COOKIE_AFTER, TESUP_OK);
    gpu_verify_byte(ends.there, SIZE, 7, "what the stream wrote");
    /* The wait counts for all that comes behind it; and an event that has come holds nobody up. */
    write_submit(TESUP_AFTER, COOKIE_LAST);
    done_expect(COOKIE_LAST, TESUP_OK);
    note_expect(COOKIE_LAST, TESUP_OK);
    wait_submit(0);
    done_expect(COOKIE_WAIT, TESUP_OK);
    ends_end();
}

static void others_do_not_wait(const struct site *site)
{
    const struct tesup_request nop = {.op = TESUP_OP_NOP, .cookie = COOKIE_LAST};

    ends_begin(site);
    work_launch(7);
    wait_submit(0);
    write_submit(0, COOKIE_OTHER);
    done_expect(COOKIE_OTHER, TESUP_OK);
    note_expect(COOKIE_OTHER, TESUP_OK);
    gpu_verify_byte(ends.there, SIZE, 1, "what was there before");
    party_submit(ends.left.channel, &nop);
    done_expect(COOKIE_LAST, TESUP_OK);
    atomic_store(&ends.go, true);
    done_expect(COOKIE_WAIT, TESUP_OK);
    ends_end();
}

/* Two waits for one event, recorded twice: each is for what was recorded when it was accepted. */
static void each_record_counts(const struct site *site)
{
    const struct tesup_request nop = {.op = TESUP_OP_NOP, .cookie = COOKIE_LAST};

    ends_begin(site);
    gpu_check(gpu_driver.cuMemsetD8Async(ends.here, 5, SIZE, ends.stream));
    gpu_check(gpu_driver.cuEventRecord(ends.recorded, ends.stream));
    wait_submit(0);
    party_submit(ends.left.channel, &nop); /* accepted behind the wait */
    for (unsigned i = 0; i < 2; i++)
        party_check(party_complete(ends.left.channel).status, "the first wait");
    write_submit(TESUP_AFTER, COOKIE_AFTER);
    work_launch(6);
    wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_LAST);
    done_expect(COOKIE_AFTER, TESUP_OK); /* not behind the second one */
    note_expect(COOKIE_AFTER, TESUP_OK);
    gpu_verify_byte(ends.there, SIZE, 5, "the first");
    silence_expect();
    atomic_store(&ends.go, true);
    done_expect(COOKIE_WAIT, TESUP_OK);
    done_expect(COOKIE_LAST, TESUP_OK);
    note_expect(COOKIE_LAST, TESUP_OK);
    gpu_verify_byte(ends.there, SIZE, 6, "the second");
    ends_end();
}

/* ---- a wait that fails ---- */

static void cancelled_wait_skips(const struct site *site)
{
    uint64_t ticket;

    ends_begin(site);
    work_launch(7);
    ticket = wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_AFTER);
    write_submit(TESUP_AFTER | TESUP_NOTIFY_ALWAYS, COOKIE_OTHER);
    silence_expect();
    party_check(tesup_cancel(ends.left.channel, ticket), "cancel");
    done_expect(COOKIE_WAIT, TESUP_ERR_CANCELLED);
    done_expect(COOKIE_AFTER, TESUP_ERR_SKIPPED);
    done_expect(COOKIE_OTHER, TESUP_ERR_SKIPPED);
    note_expect(COOKIE_OTHER, TESUP_ERR_SKIPPED);
    /* And what comes after it, too, until something is waited for again. */
    write_submit(TESUP_AFTER, COOKIE_LAST);
    done_expect(COOKIE_LAST, TESUP_ERR_SKIPPED);
    gpu_verify_byte(ends.there, SIZE, 2, "nothing has moved");
    atomic_store(&ends.go, true);
    wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_LAST);
    done_expect(COOKIE_WAIT, TESUP_OK);
    done_expect(COOKIE_LAST, TESUP_OK);
    note_expect(COOKIE_LAST, TESUP_OK);
    gpu_verify_byte(ends.there, SIZE, 7, "what the stream wrote");
    ends_end();
}

static void held_ones_end_by_themselves(const struct site *site)
{
    uint64_t ticket;

    ends_begin(site);
    work_launch(7);
    wait_submit(0);
    ticket = write_submit(TESUP_AFTER, COOKIE_AFTER);
    write_submit(TESUP_AFTER, COOKIE_LAST);
    party_check(tesup_cancel(ends.left.channel, ticket), "cancel");
    done_expect(COOKIE_AFTER, TESUP_ERR_CANCELLED);
    /* The memory under the last one goes. */
    party_check(tesup_mem_unregister(ends.left.session, ends.local), "unregister");
    done_expect(COOKIE_LAST, TESUP_ERR_GONE);
    silence_expect();
    atomic_store(&ends.go, true);
    done_expect(COOKIE_WAIT, TESUP_OK);
    ends_end();
}

static void deadline_and_unregistration(const struct site *site)
{
    ends_begin(site);
    work_launch(7);
    wait_submit(HELD_MS);
    write_submit(TESUP_AFTER, COOKIE_AFTER);
    done_expect(COOKIE_WAIT, TESUP_ERR_TIMEOUT);
    done_expect(COOKIE_AFTER, TESUP_ERR_SKIPPED);
    wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_AFTER);
    party_check(tesup_mem_unregister(ends.left.session, ends.event), "unregister the event");
    done_expect(COOKIE_WAIT, TESUP_ERR_GONE);
    done_expect(COOKIE_AFTER, TESUP_ERR_SKIPPED);
    ends_end();
}

static void what_is_no_event(const struct site *site)
{
    struct tesup_request wait = {.op = TESUP_OP_WAIT, .cookie = COOKIE_WAIT};
    struct tesup_request write;
    uint32_t accepted;

    ends_begin(site);
    write_submit(TESUP_AFTER, COOKIE_AFTER); /* nothing was waited for */
    done_expect(COOKIE_AFTER, TESUP_ERR_SKIPPED);
    wait.local_region = ends.local;
    party_submit(ends.left.channel, &wait);
    done_expect(COOKIE_WAIT, TESUP_ERR_INVALID);
    wait.local_region = ends.event + 77;
    party_submit(ends.left.channel, &wait);
    done_expect(COOKIE_WAIT, TESUP_ERR_NOT_FOUND);
    wait.local_region = 0;
    party_expect(tesup_submit(ends.left.channel, &wait, 1, NULL, &accepted), TESUP_ERR_INVALID);
    wait = (struct tesup_request){
        .op = TESUP_OP_WAIT, .local_region = ends.event, .msg = "x", .msg_len = 1};
    party_expect(tesup_submit(ends.left.channel, &wait, 1, NULL, &accepted), TESUP_ERR_INVALID);
    /* And an event is no memory. */
    write = (struct tesup_request){.op = TESUP_OP_WRITE,
                                   .cookie = COOKIE_OTHER,
                                   .remote = ends.remote,
                                   .local_region = ends.event,
                                   .remote_region = ends.target};
    party_submit(ends.left.channel, &write);
    done_expect(COOKIE_OTHER, TESUP_ERR_INVALID);
    write.local_region = ends.local;
    write.remote_region = ends.event;
    write.remote = party_open(&ends.left, tesup_segment_name(ends.left.session));
    write.length = 1;
    party_submit(ends.left.channel, &write);
    party_expect(party_complete(ends.left.channel).status, TESUP_ERR_INVALID);
    party_expect(tesup_event_register_gpu(ends.left.session, NULL, &ends.local), TESUP_ERR_INVALID);
    ends_end();
}

/* ---- deaths ---- */

static void worker_dies(const struct site *site)
{
    pid_t worker = status_worker_ready(site->left, 0);

    ends_begin(site);
    work_launch(7);
    wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_AFTER);
    silence_expect();
    gpu_counters_forget(worker);
    assert_int_equal(kill(worker, SIGKILL), 0);
    done_expect(COOKIE_WAIT, TESUP_ERR_UNCERTAIN);
    done_expect(COOKIE_AFTER, TESUP_ERR_UNCERTAIN);
    status_worker_ready(site->left, worker);
    write_submit(TESUP_AFTER, COOKIE_LAST); /* the new one has waited for nothing */
    done_expect(COOKIE_LAST, TESUP_ERR_SKIPPED);
    /* It has the event, too. */
    wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_LAST);
    silence_expect();
    atomic_store(&ends.go, true);
    done_expect(COOKIE_WAIT, TESUP_OK);
    done_expect(COOKIE_LAST, TESUP_OK);
    note_expect(COOKIE_LAST, TESUP_OK);
    gpu_verify_byte(ends.there, SIZE, 7, "what the stream wrote");
    ends_end();
}

/* With its wait under way; the worker has nothing of it left (the stand-in counts). */
static void dying_job(void *argument)
{
    const struct site *site = argument;
    struct party here;

    gpu_begin();
    ends_begin(site);
    work_launch(7);
    wait_submit(0);
    write_submit(TESUP_AFTER, COOKIE_AFTER);
    silence_expect();
    party_attach(&here, site->left, "waiting");
    for (;;)
        wait_sleep_ms(1000);
}

/* ---- the tests: each in a process of its own, whose CUDA is fresh ---- */

struct scenario {
    void (*body)(const struct site *site);
    const struct site *site;
};

static void scenario_run(void *argument)
{
    const struct scenario *scenario = argument;

    gpu_begin();
    scenario->body(scenario->site);
    gpu_end();
}

static void run(const struct site *site, void (*body)(const struct site *site))
{
    struct scenario scenario = {.body = body, .site = site};
    struct job job;

    job_start(&job, site->label, scenario_run, &scenario);
    job_expect_success(&job, WAIT_MS);
}

static void job_dies(const struct site *site)
{
    size_t sessions = status_sessions(site->left) + (site->left == site->right ? 3 : 2);
    struct wait wait = wait_begin("a job that waits", WAIT_MS);
    struct job job;

    job_start(&job, "a job that dies", dying_job, (void *)(uintptr_t)site);
    while (status_sessions(site->left) < sessions)
        wait_step(&wait);
    gpu_counters_forget(job.pid);
    job_kill(&job);
    run(site, starts_behind_the_event);
}

#define FOR_EACH_SITE(name, body)                 \
    static void name(void **state)                \
    {                                             \
        (void)state;                              \
        for (unsigned i = 0; i < SITE_COUNT; i++) \
            body;                                 \
    }
FOR_EACH_SITE(behind_the_event, run(&sites[i], starts_behind_the_event))
FOR_EACH_SITE(others, run(&sites[i], others_do_not_wait))
FOR_EACH_SITE(each_record, run(&sites[i], each_record_counts))
FOR_EACH_SITE(cancelled, run(&sites[i], cancelled_wait_skips))
FOR_EACH_SITE(held_ones, run(&sites[i], held_ones_end_by_themselves))
FOR_EACH_SITE(deadline, run(&sites[i], deadline_and_unregistration))
FOR_EACH_SITE(no_event, run(&sites[i], what_is_no_event))
FOR_EACH_SITE(job_death, job_dies(&sites[i]))
FOR_EACH_SITE(worker_death, run(&sites[i], worker_dies))

static int group_setup(void **state)
{
    gpu_counters_begin();
    return site_group_setup(state);
}

static int group_teardown(void **state)
{
    int rc = site_group_teardown(state);

    gpu_counters_expect_clean();
    gpu_counters_end();
    return rc;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(behind_the_event, job_test_teardown),
        cmocka_unit_test_teardown(others, job_test_teardown),
        cmocka_unit_test_teardown(each_record, job_test_teardown),
        cmocka_unit_test_teardown(cancelled, job_test_teardown),
        cmocka_unit_test_teardown(held_ones, job_test_teardown),
        cmocka_unit_test_teardown(deadline, job_test_teardown),
        cmocka_unit_test_teardown(no_event, job_test_teardown),
        cmocka_unit_test_teardown(job_death, job_test_teardown),
        cmocka_unit_test_teardown(worker_death, job_test_teardown),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
