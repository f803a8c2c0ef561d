/* One worker with 1, 8 and 64 jobs.
 *
 * Time: this process holds all sessions, for with more processes than CPUs the scheduler would be
 * measured.  Memory: real processes. */
#include "tests/bench/work.h"

#include <stdio.h>

#include "tests/bench/memory.h"

#define JOBS_MAX 64u
#define BATCH    32u
#define PART     2048u /* descriptors between two looks at the clock */

static const struct tesup_request nop = {.op = TESUP_OP_NOP};

struct crowd {
    struct party party[JOBS_MAX];
    struct flood flood[JOBS_MAX];
    unsigned count;
};

/* One turn over the first `active` sessions; how many descriptors completed. */
static uint64_t crowd_turn(struct crowd *crowd, unsigned active, bool submit)
{
    uint64_t done = 0;

    for (unsigned i = 0; i < active; i++)
        done += flood_turn(&crowd->flood[i], submit);
    return done;
}

static bool crowd_is_busy(const struct crowd *crowd, unsigned active)
{
    for (unsigned i = 0; i < active; i++)
        if (crowd->flood[i].in_flight > 0)
            return true;
    return false;
}

/* ns per descriptor when the first `active` sessions submit in turn. */
static double crowd_time(struct crowd *crowd, unsigned active)
{
    struct patience patience = patience_begin("completions of a crowd");
    uint64_t until = clock_now() + bench_sample_ns();
    struct series times = {.count = 0};
    double median;

    while (clock_now() < until) {
        uint64_t began = clock_now(), done = 0;

        while (done < PART) {
            done += crowd_turn(crowd, active, true);
            patience_turn(&patience);
        }
        series_add(&times, (double)(clock_now() - began) / (double)done);
    }
    while (crowd_is_busy(crowd, active)) {
        crowd_turn(crowd, active, false);
        patience_turn(&patience);
    }
    median = series_median(&times);
    series_free(&times);
    return median;
}

static double echo_time(const struct party *party)
{
    struct series times = {.count = 0};
    uint64_t until = clock_now() + bench_sample_ns();
    double median;

    while (clock_now() < until) {
        uint64_t began = clock_now();

        work_once(party->channel, &nop, false);
        series_add(&times, (double)(clock_now() - began));
    }
    median = series_median(&times);
    series_free(&times);
    return median;
}

static void times_measure(unsigned count, double *echo, double *one, double *all)
{
    struct series echos = {.count = 0}, ones = {.count = 0}, alls = {.count = 0};
    static struct crowd crowd;
    struct daemon daemon;

    bench_serve(&daemon, "crowd", "--idle busy", 0);
    for (unsigned i = 0; i < count; i++) {
        party_attach(&crowd.party[i], &daemon, NULL);
        crowd.flood[i] = (struct flood){.channel = crowd.party[i].channel,
                                        .request = &nop,
                                        .batch = BATCH,
                                        .window = 4 * BATCH};
    }
    place_pin(0, 1);
    for (unsigned i = 0; i < bench_reps(); i++) {
        series_add(&echos, echo_time(&crowd.party[0]));
        series_add(&ones, crowd_time(&crowd, 1));
        series_add(&alls, crowd_time(&crowd, count));
    }
    for (unsigned i = 0; i < count; i++)
        party_detach(&crowd.party[i]);
    daemon_stop(&daemon);
    *echo = series_median(&echos);
    *one = series_median(&ones);
    *all = series_median(&alls);
    series_free(&echos);
    series_free(&ones);
    series_free(&alls);
}

/* ---- memory ---- */

struct board {
    const struct daemon *daemon;
    _Atomic uint64_t forked, go, attached, stop;
};

static void memory_job(void *argument)
{
    struct board *board = argument;
    struct party party;

    atomic_fetch_add(&board->forked, 1);
    wait_word(&board->go, 1, "leave to attach");
    party_attach(&party, board->daemon, NULL);
    work_once(party.channel, &nop, true);
    atomic_fetch_add(&board->attached, 1);
    while (atomic_observe(&board->stop) == 0)
        wait_sleep_ms(20);
    party_detach(&party);
}

/* Of the jobs, the worker and the supervisor. */
static void memory_read(const struct job *jobs, unsigned count, const pid_t pids[2], double kib[3])
{
    kib[0] = 0;
    for (unsigned i = 0; i < count; i++)
        kib[0] += memory_pss_kib(jobs[i].pid);
    kib[1] = memory_pss_kib(pids[0]);
    kib[2] = memory_pss_kib(pids[1]);
}

/* What attaching adds, per job: before and after it the same processes share the same pages. */
static void memory_measure(unsigned count, double grown[3])
{
    struct board *board = job_board_create(sizeof(*board));
    double before[3], after[3];
    struct daemon daemon;
    struct job jobs[JOBS_MAX];
    pid_t worker = bench_serve(&daemon, "crowd", "", 0);
    const pid_t pids[2] = {worker, daemon.pid};

    board->daemon = &daemon;
    for (unsigned i = 0; i < count; i++)
        job_start(&jobs[i], "job of a crowd", memory_job, board);
    wait_word(&board->forked, count, "all jobs are there");
    memory_read(jobs, count, pids, before);
    atomic_publish(&board->go, 1);
    wait_word(&board->attached, count, "all jobs are attached");
    memory_read(jobs, count, pids, after);
    for (int i = 0; i < 3; i++)
        grown[i] = after[i] > before[i] ? (after[i] - before[i]) / count : 0;
    atomic_publish(&board->stop, 1);
    for (unsigned i = 0; i < count; i++)
        job_expect_success(&jobs[i], WAIT_MS);
    daemon_stop(&daemon);
    job_board_free(board, sizeof(*board));
}

void growth_jobs(void **state)
{
    static const char *const columns[] = {
        "jobs",    "echo ns",        "ns/op, one busy", "ns/op, all busy",
        "job KiB", "worker KiB/job", "superv. KiB/job", NULL};
    static const unsigned counts[] = {1, 8, JOBS_MAX};
    struct grid *grid = grid_add("growth-jobs", "Jobs on one worker", columns);
    char label[16];

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        double cells[6];

        times_measure(counts[i], &cells[0], &cells[1], &cells[2]);
        memory_measure(counts[i], &cells[3]);
        snprintf(label, sizeof(label), "%u", counts[i]);
        grid_row(grid, label, cells);
    }
    snprintf(grid->note, sizeof(grid->note),
             "No-ops, batches of %u, --idle busy, worker CPU %d; one process on CPU %d holds all "
             "sessions. Memory is proportional set size of waiting processes; the other jobs of "
             "\"echo\" and \"one busy\" are attached and silent.",
             BATCH, place_cpu(0), place_cpu(1));
}
