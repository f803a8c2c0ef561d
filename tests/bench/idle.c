/* CPU time of a whole system in which nobody has work: two supervisors, their workers, a
 * connection between them, and four attached jobs that wait. */
#include "tests/bench/bench.h"

#include "tests/bench/target.h"
#include "tests/harness/process.h"

#define JOBS 4u

static uint64_t cpu_ms(const pid_t *pids, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += process_cpu_ms(pids[i]);
    return sum;
}

/* A target wakes up 50 times a second to look at its board; a real job does not. */
static void waiting_job(void *argument)
{
    const struct target *target = argument;
    struct party party;

    party_attach(&party, target->daemon, NULL);
    tesup_wait(party.channel, -1); /* until it is killed */
}

void idle_cost(void **state)
{
    unsigned ms = bench_quick ? 500 : 5000, reps = bench_quick ? 1 : 3;
    struct series cost = {.count = 0};
    struct daemon left, right;
    struct target form[2] = {{.daemon = &left}, {.daemon = &right}};
    struct job jobs[JOBS];
    pid_t pids[4 + JOBS];
    struct party party;
    struct target *target;
    struct row *row;

    (void)state;
    pids[0] = bench_serve(&left, "left", "--fabric tcp", 0);
    pids[1] = bench_serve(&right, "right", "--fabric tcp", 1);
    pids[2] = left.pid;
    pids[3] = right.pid;
    for (unsigned i = 0; i < JOBS; i++) {
        job_start(&jobs[i], "waiting job", waiting_job, &form[i % 2]);
        pids[4 + i] = jobs[i].pid;
    }
    /* One transfer, so that the endpoint is there, then everybody falls asleep. */
    target = target_start((struct target){.daemon = &right, .place = 1, .size = 4096});
    party_attach(&party, &left, NULL);
    party_open(&party, target->name);
    target_stop(target);
    wait_sleep_ms(bench_quick ? 100 : 500);
    for (unsigned i = 0; i < reps; i++) {
        uint64_t before = cpu_ms(pids, 4 + JOBS), began = clock_now();

        wait_sleep_ms(ms);
        series_add(&cost,
                   1e8 * (double)(cpu_ms(pids, 4 + JOBS) - before) / (double)(clock_now() - began));
    }
    party_detach(&party);
    for (unsigned i = 0; i < JOBS; i++)
        job_kill(&jobs[i]);
    daemon_stop(&left);
    daemon_stop(&right);
    row = row_add("idle", "idle: 2 supervisors, 2 workers, a tcp endpoint, 4 jobs that wait",
                  "% of a core", &cost);
    row_ask(row, false, 1, "< 1 %", 0.3, "< 0.3 %");
    row_place(row, "workers CPU %d and %d, default idling, %u s", place_cpu(0), place_cpu(1),
              ms / 1000);
    series_free(&cost);
}
