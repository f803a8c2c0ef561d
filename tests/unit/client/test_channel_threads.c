/* One channel per thread while others make control calls and the supervisor is replaced: each
 * accepted request ends exactly once. */
#include "tests/unit/client/fake_peer.h"

#include <sched.h>

#include "shm/clock.h"
#include "tests/harness/wait.h"

#define THREADS  3
#define RESTARTS 3

static struct fake fake;
static struct tesup_session *session;
static _Atomic uint64_t finish;

/* ---- the worker: serves every channel that is there ---- */

static bool serve_one(struct fake_channel *channel)
{
    uint64_t ready = 0;

    if (channel->map.header == NULL || ring_consumer_ready(&channel->sq, &ready) != TS_OK ||
        ready == 0)
        return false;
    fake_serve(channel, TS_OK);
    return true;
}

static void *worker_run(void *argument)
{
    (void)argument;
    while (atomic_peek(&finish) < 2) {
        bool served = false;

        pthread_mutex_lock(&fake.lock);
        for (int i = 0; i < FAKE_CHANNELS; i++)
            for (int n = 0; n < 8 && serve_one(&fake.channels[i]); n++)
                served = true;
        pthread_mutex_unlock(&fake.lock);
        if (!served)
            sched_yield();
    }
    return NULL;
}

/* ---- a thread of the job ---- */

struct job {
    pthread_t thread;
    struct tesup_channel *channel;
    uint64_t accepted, completed, uncertain;
    _Atomic uint64_t lost, served; /* told that nobody is there; answered well */
    uint64_t cookies;              /* of requests in flight: sum accepted - sum completed */
};

static void job_submit(struct job *job)
{
    struct tesup_request requests[5] = {{0}};
    uint32_t accepted;

    for (int i = 0; i < 5; i++)
        requests[i].cookie = job->accepted + (uint64_t)i;
    if (tesup_submit(job->channel, requests, 5, NULL, &accepted) == TESUP_ERR_NO_DAEMON)
        atomic_count(&job->lost, 1);
    for (uint32_t i = 0; i < accepted; i++)
        job->cookies += requests[i].cookie;
    job->accepted += accepted;
}

static int job_poll(struct job *job)
{
    struct tesup_completion completions[7];
    int count = tesup_poll(job->channel, completions, 7);

    for (int i = 0; i < count; i++) {
        job->cookies -= completions[i].cookie;
        job->completed++;
        job->uncertain += completions[i].status == TESUP_ERR_UNCERTAIN;
        atomic_count(&job->served, completions[i].status == TESUP_OK);
    }
    return count;
}

static void *job_run(void *argument)
{
    struct job *job = argument;

    while (atomic_peek(&finish) < 1) {
        job_submit(job);
        tesup_wait(job->channel, 5);
        while (job_poll(job) > 0)
            ;
    }
    for (uint64_t end = clock_now() + 5 * CLOCK_NS_PER_S;
         job->completed < job->accepted && clock_now() < end;) {
        tesup_wait(job->channel, 5);
        job_poll(job);
    }
    return NULL;
}

static void control_calls(void)
{
    tesup_region_t region;
    tesup_remote_t remote;
    void *address;

    for (int i = 0; i < 20; i++) {
        if (tesup_mem_alloc(session, 4096, 0, &address, &region) == TESUP_OK)
            assert_int_equal(tesup_mem_free(session, region), TESUP_OK);
        if (tesup_segment_open(session, "h:1/kv", &remote) == TESUP_OK)
            assert_int_equal(tesup_segment_close(session, remote), TESUP_OK);
    }
}

/* Until each job has seen the supervisor's end. */
static void jobs_wait_lost(struct job *jobs)
{
    for (int i = 0; i < THREADS; i++)
        wait_word(&jobs[i].lost, atomic_peek(&jobs[i].lost) + 1, "a job sees the end");
}

/* Until each job works over a channel of the successor. */
static void jobs_wait_back(struct job *jobs, uint32_t channels)
{
    struct wait wait = wait_begin("the channels are opened again", WAIT_MS);

    while (fake_channels_given(&fake) < channels)
        wait_step(&wait);
    for (int i = 0; i < THREADS; i++)
        wait_word(&jobs[i].served, atomic_peek(&jobs[i].served) + 1, "a job works again");
}

static void test_threads(void **state)
{
    struct job jobs[THREADS] = {{0}};
    uint64_t uncertain = 0;
    pthread_t worker;

    (void)state;
    fake_init(&fake);
    session = fake_attach(&fake);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].channel = tesup_channel_main(session);
        if (i > 0)
            assert_int_equal(tesup_channel_open(session, &jobs[i].channel), TESUP_OK);
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, job_run, &jobs[i]), 0);
    }
    assert_int_equal(pthread_create(&worker, NULL, worker_run, NULL), 0);
    for (int i = 0; i < RESTARTS; i++) {
        control_calls();
        fake_stop(&fake);
        if (i == 0) /* the others come at once */
            jobs_wait_lost(jobs);
        fake_start(&fake);
        jobs_wait_back(jobs, (uint32_t)(i + 2) * THREADS);
    }
    atomic_set(&finish, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        assert_true(jobs[i].accepted > 0);
        assert_int_equal(jobs[i].completed, jobs[i].accepted);
        assert_int_equal(jobs[i].cookies, 0);
        uncertain += jobs[i].uncertain;
    }
    atomic_set(&finish, 2);
    pthread_join(worker, NULL);
    assert_true(uncertain <= RESTARTS * THREADS * 16);
    tesup_detach(session);
    fake_fini(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
