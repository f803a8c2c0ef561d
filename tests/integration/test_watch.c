/* Watching a remote segment: the event says that its job, its worker or its host is gone. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define EVENT_MS (TEST_SANITIZED ? 3000u : 1000u) /* the promise, and what sanitizers add */

enum fate {
    FATE_DETACH,     /* the job says goodbye */
    FATE_EXIT,       /* it ends without a word */
    FATE_KILL,       /* SIGKILL */
    FATE_WORKER,     /* its worker gets SIGKILL */
    FATE_SUPERVISOR, /* its supervisor does */
    FATE_COUNT
};

static const char *const fate_names[FATE_COUNT] = {"detach", "exit", "SIGKILL", "worker's SIGKILL",
                                                   "supervisor's SIGKILL"};

struct scene {
    struct daemon left, right;
    struct daemon *owner; /* of the watched job: right, or left for the same host */
    enum fate fate;
    char name[320];
    _Atomic uint64_t ready, end;
};

static void watched_job(void *argument)
{
    struct scene *scene = argument;
    struct party party;

    party_attach(&party, scene->owner, "watched");
    snprintf(scene->name, sizeof(scene->name), "%s", tesup_segment_name(party.session));
    atomic_publish(&scene->ready, 1);
    wait_word(&scene->end, 1, "the word to end");
    if (scene->fate == FATE_DETACH)
        party_detach(&party);
}

static void fate_strike(struct scene *scene, struct job *job)
{
    pid_t workers[DAEMON_WORKERS];

    switch (scene->fate) {
    case FATE_DETACH:
    case FATE_EXIT:
        atomic_publish(&scene->end, 1);
        break;
    case FATE_KILL:
        job_kill(job);
        break;
    case FATE_WORKER:
        assert_int_equal(daemon_workers(scene->owner, workers), 1);
        kill(workers[0], SIGKILL);
        break;
    default:
        daemon_kill(scene->owner);
    }
}

static void event_expect(struct party *watcher, const char *name, tesup_remote_t remote,
                         uint64_t since_ms, const char *fate)
{
    struct tesup_notification event = party_next(watcher->channel);
    uint64_t took = wait_now_ms() - since_ms;
    uint64_t limit = EVENT_MS;

    if (strcmp(fate, fate_names[FATE_SUPERVISOR]) == 0)
        limit *= 2; /* its workers have a second to leave */
    if (took > limit)
        fail_msg("%s: the event came after %llu ms", fate, (unsigned long long)took);
    assert_int_equal(event.kind, TESUP_NOTIFICATION_EVENT);
    assert_int_equal(event.remote, remote);
    assert_int_equal(event.from_len, strlen(name));
    assert_memory_equal(event.from, name, event.from_len);
    if (event.status != TESUP_ERR_GONE && event.status != TESUP_ERR_UNREACHABLE)
        fail_msg("%s: the event says '%s'", fate, tesup_strerror(event.status));
    party_check(tesup_notify_release(watcher->channel), "release");
}

static void scene_end(struct scene *scene, struct job *job)
{
    atomic_publish(&scene->end, 1);
    if (job->pid != 0)
        job_expect_success(job, WAIT_MS);
}

static void fate_run(struct scene *scene, struct daemon *owner, enum fate fate)
{
    struct party watcher;
    struct job job;

    scene->owner = owner;
    scene->fate = fate;
    atomic_set(&scene->ready, 0);
    atomic_set(&scene->end, 0);
    job_start(&job, "watched", watched_job, scene);
    wait_word(&scene->ready, 1, "the watched job");
    party_attach(&watcher, &scene->left, NULL);
    tesup_remote_t remote = party_open(&watcher, scene->name);
    party_check(tesup_segment_watch(watcher.session, remote), "watch");
    party_expect_silence(watcher.channel, 30);

    uint64_t since = wait_now_ms();
    fate_strike(scene, &job);
    event_expect(&watcher, scene->name, remote, since, fate_names[fate]);
    party_expect_silence(watcher.channel, 100); /* it fires once */
    scene_end(scene, &job);
    if (fate <= FATE_KILL) {
        /* Already gone: at once. */
        since = wait_now_ms();
        party_check(tesup_segment_watch(watcher.session, remote), "watch again");
        event_expect(&watcher, scene->name, remote, since, "already gone");
        party_expect_silence(watcher.channel, 30);
    }
    party_detach(&watcher);
}

static void scene_run(const char *options, bool same_host)
{
    struct scene *scene = job_board_create(sizeof(*scene));

    daemon_start(&scene->left, "left", options);
    daemon_start(&scene->right, "right", options);
    for (enum fate fate = 0; fate < FATE_COUNT; fate++)
        if (!same_host || fate <= FATE_KILL)
            fate_run(scene, same_host ? &scene->left : &scene->right, fate);
    daemon_stop(&scene->left);
    if (scene->right.pid != 0)
        daemon_stop(&scene->right);
    job_board_free(scene, sizeof(*scene));
}

static void over_tcp(void **state)
{
    (void)state;
    scene_run("--fabric tcp", false);
}

static void over_local(void **state)
{
    (void)state;
    scene_run("--fabric auto", false);
}

static void within_worker(void **state)
{
    (void)state;
    scene_run("--fabric auto", true);
}

/* A watch that nobody strikes: closing the segment ends it without an event. */
static void closed_segment_says_nothing(void **state)
{
    struct daemon daemon;
    struct party left, right;

    (void)state;
    daemon_start(&daemon, "left", "--fabric auto");
    party_attach(&left, &daemon, NULL);
    party_attach(&right, &daemon, NULL);
    tesup_remote_t remote = party_open(&left, tesup_segment_name(right.session));
    party_check(tesup_segment_watch(left.session, remote), "watch");
    party_check(tesup_segment_close(left.session, remote), "close");
    party_detach(&right);
    party_expect_silence(left.channel, 100);
    party_expect(tesup_segment_watch(left.session, remote), TESUP_ERR_GONE);
    party_detach(&left);
    daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(over_tcp, daemon_test_teardown),
        cmocka_unit_test_teardown(over_local, daemon_test_teardown),
        cmocka_unit_test_teardown(within_worker, daemon_test_teardown),
        cmocka_unit_test_teardown(closed_segment_says_nothing, daemon_test_teardown),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
