/* kill -9 and SIGSTOP of each kind of process, under load: the others go on, and every request that
 * a living job had accepted gets exactly one completion (harness/load.c keeps the ledger). */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "tests/harness/load.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define KILLS      5
#define STOP_MS    3000u
#define LEAVE_MS   1000u /* workers of a dead supervisor */
#define PATIENT    "--restart-max-deaths 1000"
#define DEATHS_MAX 3

static struct daemon left, right;

static int test_setup(void **state)
{
    const char *fabric = *state;
    char options[96];

    snprintf(options, sizeof(options), "--fabric %s " PATIENT, fabric);
    daemon_start(&left, "left", options);
    daemon_start(&right, "right", options);
    return 0;
}

static void daemons_stop(void)
{
    daemon_stop(&left);
    daemon_stop(&right);
}

static pid_t worker_kill(const struct daemon *daemon)
{
    pid_t pid = status_worker_ready(daemon, 0);

    assert_int_equal(kill(pid, SIGKILL), 0);
    return status_worker_ready(daemon, pid);
}

/* ---- jobs ---- */

static void test_source_killed(void **state)
{
    pid_t workers[2] = {status_worker_ready(&left, 0), status_worker_ready(&right, 0)};
    struct load *load = load_start(&left, &right, 4, PARTY_MEMORY_ALLOC);
    struct load *other = load_start(&right, &left, 1, PARTY_MEMORY_PRIVATE);

    (void)state;
    for (unsigned i = 1; i < 4; i++) {
        job_kill(&load->source_job[i]);
        load_expect_progress(other);
    }
    assert_int_equal(status_worker_ready(&left, 0), workers[0]);
    assert_int_equal(status_worker_ready(&right, 0), workers[1]);
    load_stop_clean(other);
    load_stop(load);
    daemons_stop();
}

/* Its senders learn of it, each request once; the other target's senders do not notice. */
static void test_target_killed(void **state)
{
    struct load *load = load_start(&left, &right, 2, PARTY_MEMORY_PRIVATE);
    struct load *other = load_start(&left, &right, 2, PARTY_MEMORY_ALLOC);
    struct wait wait = wait_begin("the sources learn of their target's death", WAIT_MS);

    (void)state;
    job_kill(&load->target_job);
    while (atomic_observe(&load->source[0].failed) == 0 ||
           atomic_observe(&load->source[1].failed) == 0)
        wait_step(&wait);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(-(int)atomic_observe(&load->source[i].status), TESUP_ERR_GONE);
    load_stop(load);
    load_stop_clean(other);
    daemons_stop();
}

/* ---- workers ---- */

static void worker_kill_try(const struct daemon *victim)
{
    struct load *load = load_start(&left, &right, 4, PARTY_MEMORY_ALLOC);
    pid_t other = status_worker_ready(victim == &left ? &right : &left, 0);

    for (int i = 0; i < KILLS; i++) {
        worker_kill(victim);
        load_expect_progress(load); /* by the same handles, and nobody did anything */
    }
    assert_int_equal(status_worker_ready(victim == &left ? &right : &left, 0), other);
    load_stop(load);
    daemons_stop();
}

static void test_source_worker_killed(void **state)
{
    (void)state;
    worker_kill_try(&left);
}

static void test_target_worker_killed(void **state)
{
    (void)state;
    worker_kill_try(&right);
}

static void test_both_workers_killed(void **state)
{
    struct load *load = load_start(&left, &right, 4, PARTY_MEMORY_ALLOC);

    (void)state;
    for (int i = 0; i < KILLS; i++) {
        pid_t pids[2] = {status_worker_ready(&left, 0), status_worker_ready(&right, 0)};

        for (int j = 0; j < 2; j++)
            assert_int_equal(kill(pids[j], SIGKILL), 0);
        for (int j = 0; j < 2; j++)
            wait_pid_gone(pids[j], WAIT_MS);
        load_expect_progress(load);
    }
    load_stop(load);
    daemons_stop();
}

/* Until `left` has that many requests in flight, and its stopped peer has answered the last one. */
static void in_flight_wait(uint64_t count)
{
    struct wait wait = wait_begin("every request is in flight", WAIT_MS);
    uint64_t before, now = status_worker_count(&left, "completions");

    do {
        wait_step(&wait);
        before = now;
        now = status_worker_count(&left, "completions");
    } while (now != before || status_worker_count(&left, "in_flight") != count);
}

/* The peer is stopped, so that requests are in flight for sure: their outcome is unknown, once
 * each. */
static void test_requests_in_flight(void **state)
{
    struct load *load = load_start(&left, &right, 2, PARTY_MEMORY_ALLOC);
    struct wait wait = wait_begin("requests end as uncertain", WAIT_MS);
    pid_t peer = status_worker_ready(&right, 0);

    (void)state;
    assert_int_equal(kill(peer, SIGSTOP), 0);
    in_flight_wait(2 * LOAD_SLOTS);
    worker_kill(&left);
    while (load_sum_uncertain(load) < 2 * LOAD_SLOTS)
        wait_step(&wait);
    assert_int_equal(load_sum_uncertain(load), 2 * LOAD_SLOTS);
    assert_int_equal(kill(peer, SIGCONT), 0);
    load_expect_progress(load);
    load_stop(load);
    daemons_stop();
}

/* Over and over: given up, said so, and the jobs are told; the peer's jobs go on. */
static void test_worker_fails(void **state)
{
    struct daemon fragile;
    struct load *load, *other;
    struct wait wait;
    char options[96];
    pid_t pid = 0;

    snprintf(options, sizeof(options), "--fabric %s --restart-max-deaths %d --restart-window 60s",
             (const char *)*state, DEATHS_MAX);
    daemon_start(&fragile, "fragile", options);
    load = load_start(&left, &fragile, 1, PARTY_MEMORY_ALLOC);
    other = load_start(&left, &right, 1, PARTY_MEMORY_ALLOC);
    for (int i = 0; i < DEATHS_MAX; i++) {
        pid = status_worker_ready(&fragile, pid);
        kill(pid, SIGKILL);
    }
    status_worker_state_wait(&fragile, "failed", WAIT_MS);
    wait = wait_begin("the sources learn that the worker is gone", WAIT_MS);
    while (atomic_observe(&load->source[0].failed) == 0)
        wait_step(&wait);
    load_stop(load);
    load_stop_clean(other);
    daemon_stop(&fragile);
    daemons_stop();
}

/* ---- supervisors ---- */

struct survivor {
    const struct daemon *daemon;
    _Atomic uint64_t attached, lost, back;
};

/* A job that works on, through the death of its supervisor, with what it has. */
static void survivor_run(void *argument)
{
    struct survivor *survivor = argument;
    const struct tesup_request nop = {.op = TESUP_OP_NOP, .cookie = 7};
    struct wait wait = wait_begin("the successor", 2 * WAIT_MS);
    uint64_t accepted_sum = 0, completed_sum = 0;
    struct party party;
    bool lost = false;

    party_attach(&party, survivor->daemon, "survivor");
    atomic_publish(&survivor->attached, 1);
    for (;;) {
        struct tesup_completion done;
        uint32_t accepted = 0;
        int code = tesup_submit(party.channel, &nop, 1, NULL, &accepted);

        accepted_sum += accepted;
        if (code == TESUP_ERR_NO_DAEMON || code == TESUP_ERR_GONE)
            lost = true;
        else if (code != TESUP_AGAIN)
            party_check(code, "submit");
        if (lost)
            atomic_publish(&survivor->lost, 1);
        while (tesup_poll(party.channel, &done, 1) == 1) {
            assert_int_equal(done.cookie, 7);
            completed_sum++;
            if (done.status == TESUP_OK && lost)
                atomic_publish(&survivor->back, 1);
            lost |= done.status == TESUP_ERR_UNCERTAIN;
        }
        if (atomic_peek(&survivor->back) != 0)
            break;
        wait_step(&wait);
    }
    while (completed_sum < accepted_sum) {
        (void)party_complete(party.channel);
        completed_sum++;
    }
    party_detach(&party);
}

static void test_supervisor_killed(void **state)
{
    struct survivor *survivor = job_board_create(sizeof(*survivor));
    struct load *other = load_start(&right, &right, 1, PARTY_MEMORY_ALLOC);
    struct load *load = load_start(&right, &left, 1, PARTY_MEMORY_ALLOC);
    char options[96];
    struct wait wait;
    struct job job;
    uint64_t began;

    survivor->daemon = &left;
    job_start(&job, "survivor", survivor_run, survivor);
    wait_word(&survivor->attached, 1, "the survivor attaches");
    began = wait_now_ms();
    daemon_kill(&left); /* returns when its workers are gone, too */
    assert_true(wait_now_ms() - began < LEAVE_MS + 500);
    wait_word(&survivor->lost, 1, "the survivor learns of its supervisor's death");
    wait = wait_begin("the sources learn of it", WAIT_MS);
    while (atomic_observe(&load->source[0].failed) == 0)
        wait_step(&wait);
    load_expect_progress(other);
    snprintf(options, sizeof(options), "--fabric %s " PATIENT, (const char *)*state);
    daemon_start(&left, "left", options);
    wait_word(&survivor->back, 1, "the survivor works with the successor");
    job_expect_success(&job, WAIT_MS);
    load_stop(load);
    load_stop_clean(other);
    job_board_free(survivor, sizeof(*survivor));
    daemons_stop();
}

/* ---- stopped ---- */

static void test_worker_stopped(void **state)
{
    struct load *load = load_start(&left, &right, 2, PARTY_MEMORY_ALLOC);
    struct load *other = load_start(&right, &right, 1, PARTY_MEMORY_ALLOC);
    pid_t worker = status_worker_ready(&left, 0);

    (void)state;
    assert_int_equal(kill(worker, SIGSTOP), 0);
    status_worker_state_wait(&left, "hung", STOP_MS + 500);
    load_expect_progress(other);
    assert_int_equal(kill(worker, SIGCONT), 0);
    load_expect_progress(load);
    assert_int_equal(status_worker_ready(&left, 0), worker);
    load_stop_clean(load);
    load_stop_clean(other);
    daemons_stop();
}

static void test_job_stopped(void **state)
{
    struct load *load = load_start(&left, &right, 2, PARTY_MEMORY_PRIVATE);
    struct load *other = load_start(&left, &right, 1, PARTY_MEMORY_ALLOC);
    pid_t stopped[2] = {load->target_job.pid, load->source_job[0].pid};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kill(stopped[i], SIGSTOP), 0);
        for (uint64_t until = wait_now_ms() + STOP_MS; wait_now_ms() < until;)
            load_expect_progress(other);
        assert_int_equal(kill(stopped[i], SIGCONT), 0);
        load_expect_progress(load);
    }
    load_stop_clean(load);
    load_stop_clean(other);
    daemons_stop();
}

#define ON(test, fabric)                                                                         \
    {                                                                                            \
#test " over " fabric, test, test_setup, daemon_test_teardown, (void *)(uintptr_t)fabric \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(test_source_killed, "tcp"),        ON(test_source_killed, "auto"),
        ON(test_target_killed, "tcp"),        ON(test_target_killed, "auto"),
        ON(test_source_worker_killed, "tcp"), ON(test_source_worker_killed, "auto"),
        ON(test_target_worker_killed, "tcp"), ON(test_target_worker_killed, "auto"),
        ON(test_both_workers_killed, "tcp"),  ON(test_both_workers_killed, "auto"),
        ON(test_requests_in_flight, "tcp"),   ON(test_worker_fails, "tcp"),
        ON(test_worker_fails, "auto"),        ON(test_supervisor_killed, "tcp"),
        ON(test_supervisor_killed, "auto"),   ON(test_worker_stopped, "tcp"),
        ON(test_worker_stopped, "auto"),      ON(test_job_stopped, "tcp"),
        ON(test_job_stopped, "auto"),
    };

    return cmocka_run_group_tests_name("killed and stopped", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
