/* SIGTERM: what runs is finished, what does not end in time is stopped and told, and nothing new is
 * taken.  The worker leaves by itself; nobody has to kill it. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define DRAIN_MS 800u
#define WAITING  3u   /* notifications that have no credit */
#define QUIET_MS 200u /* with no completion for this long they really wait */

struct scene {
    struct daemon near, far;
    struct party sender, receiver;
    struct tesup_request note;
    uint32_t waiting;
};

static uint8_t message[TESUP_NOTIFY_MAX];

static void scene_begin(struct scene *scene, const char *options)
{
    *scene = (struct scene){0};
    daemon_start(&scene->near, "near", options);
    daemon_start(&scene->far, "far", "");
    party_attach(&scene->sender, &scene->near, NULL);
    party_attach(&scene->receiver, &scene->far, NULL);
    scene->note =
        (struct tesup_request){.op = TESUP_OP_NOTIFY, .msg = message, .msg_len = sizeof(message)};
    scene->note.remote = party_open(&scene->sender, tesup_segment_name(scene->receiver.session));
}

static void scene_end(struct scene *scene)
{
    party_detach(&scene->sender);
    party_detach(&scene->receiver);
    daemon_stop(&scene->far);
}

/* The receiver takes nothing: once its credit is used up the rest waits. */
static void scene_fill(struct scene *scene)
{
    struct wait wait = wait_begin("notifications that wait for credit", WAIT_MS);
    struct tesup_completion done;
    uint64_t quiet_since = wait_now_ms();
    uint32_t accepted;

    while (scene->waiting < WAITING || wait_now_ms() - quiet_since < QUIET_MS) {
        if (scene->waiting < WAITING &&
            tesup_submit(scene->sender.channel, &scene->note, 1, NULL, &accepted) == TESUP_OK)
            scene->waiting++;
        while (tesup_poll(scene->sender.channel, &done, 1) == 1) {
            party_check(done.status, "a notification within the credit");
            scene->waiting--;
            quiet_since = wait_now_ms();
        }
        wait_step(&wait);
    }
}

static void expect_no_kill(const char *name)
{
    char path[DAEMON_PATH], line[512];
    FILE *log;

    snprintf(path, sizeof(path), "%s/%s.log", daemon_directory(), name);
    log = fopen(path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof(line), log) != NULL)
        if (strstr(line, "is killed") != NULL)
            fail_msg("a worker had to be killed: %s", line);
    fclose(log);
}

/* Returns how long it took. */
static uint64_t stop_and_wait(struct daemon *daemon, uint64_t since_ms)
{
    wait_pid_gone(daemon->pid, WAIT_MS);
    daemon_stop(daemon); /* the exit code, and that nothing is left */
    return wait_now_ms() - since_ms;
}

static void what_does_not_end_in_time_is_told(void **state)
{
    struct scene scene;
    struct tesup_completion done;
    uint64_t begin;

    (void)state;
    scene_begin(&scene, "--drain-timeout 800ms");
    scene_fill(&scene);
    begin = wait_now_ms();
    kill(scene.near.pid, SIGTERM);
    for (uint32_t i = 0; i < scene.waiting; i++) {
        done = party_complete(scene.sender.channel);
        party_expect(done.status, TESUP_ERR_TIMEOUT);
    }
    assert_true(wait_now_ms() - begin >= DRAIN_MS - 100);
    assert_true(stop_and_wait(&scene.near, begin) < DRAIN_MS + 2500);
    expect_no_kill("near");
    scene_end(&scene);
}

/* The receiver begins to take: the drain waits for that, and ends long before its deadline. */
static void what_runs_is_finished(void **state)
{
    struct scene scene;
    struct tesup_completion done;
    uint64_t begin;
    uint32_t good = 0;

    (void)state;
    scene_begin(&scene, "--drain-timeout 60s");
    scene_fill(&scene);
    begin = wait_now_ms();
    kill(scene.near.pid, SIGTERM);
    wait_sleep_ms(50);
    while (good < scene.waiting) {
        struct tesup_notification note;

        while (tesup_notify_peek(scene.receiver.channel, &note) == TESUP_OK)
            party_check(tesup_notify_release(scene.receiver.channel), "release");
        if (tesup_wait(scene.sender.channel, 20) < 0 ||
            tesup_poll(scene.sender.channel, &done, 1) != 1) {
            assert_true(wait_now_ms() - begin < WAIT_MS);
            continue;
        }
        party_check(done.status, "a notification that was accepted before the drain");
        good++;
    }
    assert_true(stop_and_wait(&scene.near, begin) < WAIT_MS);
    expect_no_kill("near");
    scene_end(&scene);
}

static void nothing_new_is_taken(void **state)
{
    struct scene scene;
    struct tesup_request late = {.op = TESUP_OP_NOTIFY, .msg = message, .msg_len = 16};
    struct wait wait;
    uint32_t accepted, refused = 0;

    (void)state;
    scene_begin(&scene, "--drain-timeout 800ms");
    scene_fill(&scene);
    late.remote = scene.note.remote;
    late.cookie = 77;
    kill(scene.near.pid, SIGTERM);
    wait = wait_begin("a submission that is refused because the worker leaves", WAIT_MS);
    /* One that was faster than the signal waits behind the others. */
    while (refused == 0) {
        struct tesup_completion done;

        if (tesup_submit(scene.sender.channel, &late, 1, NULL, &accepted) < 0)
            break; /* the session knows already that its supervisor has left */
        wait_step(&wait);
        while (tesup_poll(scene.sender.channel, &done, 1) == 1)
            refused += done.cookie == 77 && done.status == TESUP_ERR_GONE;
    }
    assert_true(refused > 0);
    wait_pid_gone(scene.near.pid, WAIT_MS);
    daemon_stop(&scene.near);
    scene_end(&scene);
}

/* Both sides connect, one connection is kept, jobs leave, a supervisor leaves: nothing of that is a
 * lost connection, in nobody's counters and logs. */
static void an_orderly_end_is_no_loss(void **state)
{
    static const char *const fabrics[] = {"--fabric tcp", "--fabric local"};
    struct daemon near, far;
    struct party one, other;

    (void)state;
    for (int round = 0; round < 8; round++) {
        daemon_start(&near, "near", fabrics[round % 2]);
        daemon_start(&far, "far", fabrics[round % 2]);
        party_attach(&one, &near, NULL);
        party_attach(&other, &far, NULL);
        party_open(&one, tesup_segment_name(other.session));
        party_open(&other, tesup_segment_name(one.session));
        party_detach(&one);
        status_worker_wait(&far, "endpoints", 2); /* itself and the peer */
        daemon_stop(&near);
        status_worker_fall(&far, "endpoints", 1);
        assert_int_equal(status_worker_count(&far, "endpoint_lost"), 0);
        party_detach(&other);
        daemon_stop(&far);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_does_not_end_in_time_is_told, daemon_test_teardown),
        cmocka_unit_test_teardown(what_runs_is_finished, daemon_test_teardown),
        cmocka_unit_test_teardown(nothing_new_is_taken, daemon_test_teardown),
        cmocka_unit_test_teardown(an_orderly_end_is_no_loss, daemon_test_teardown),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
