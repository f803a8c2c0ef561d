/* System calls and context switches per operation, of each process that takes part. */
#include "tests/bench/work.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/bench/exchange.h"
#include "tests/bench/tally.h"

#define PARTS_MAX 4u

struct part {
    const char *name;
    pid_t pid; /* 0: this process */
};

struct scene {
    const char *name;
    struct part parts[PARTS_MAX]; /* ended by one without a name */
    uint64_t operations;
    void (*run)(void *argument, uint64_t operations);
    void *argument;
};

static void scene_count(struct grid *grid, const struct scene *scene)
{
    struct tally tallies[PARTS_MAX];
    double cells[PARTS_MAX][TALLY_COUNT];
    char label[48];
    unsigned count = 0;

    scene->run(scene->argument, scene->operations / 10 + 1);
    for (; count < PARTS_MAX && scene->parts[count].name != NULL; count++)
        tally_begin(&tallies[count], scene->parts[count].pid);
    scene->run(scene->argument, scene->operations);
    for (unsigned i = count; i > 0; i--)
        tally_end(&tallies[i - 1], scene->operations, cells[i - 1]);
    for (unsigned i = 0; i < count; i++) {
        snprintf(label, sizeof(label), "%s: %s", scene->name, scene->parts[i].name);
        grid_row(grid, label, cells[i]);
    }
}

static const struct tesup_request nop = {.op = TESUP_OP_NOP};

static void run_sleeping_echo(void *argument, uint64_t operations)
{
    for (uint64_t i = 0; i < operations; i++)
        work_once(argument, &nop, true);
}

static void run_spinning_echo(void *argument, uint64_t operations)
{
    for (uint64_t i = 0; i < operations; i++)
        work_once(argument, &nop, false);
}

static void run_flood(void *argument, uint64_t operations)
{
    flood_run(argument, operations);
}

static void run_exchange(void *argument, uint64_t operations)
{
    uint64_t whole, one_way;

    for (uint64_t i = 0; i < operations; i++)
        stage_exchange(argument, &whole, &one_way);
}

static void count_asleep(struct grid *grid, uint64_t scale)
{
    struct daemon daemon;
    struct party party;
    pid_t worker = bench_serve(&daemon, "calls", "--idle sleep", 0);

    bench_job_spin_us(0);
    party_attach(&party, &daemon, NULL);
    place_pin(0, 1);
    const struct scene echo = {.name = "echo asleep",
                               .parts = {{"job", 0}, {"worker", worker}},
                               .operations = scale,
                               .run = run_sleeping_echo,
                               .argument = party.channel};
    scene_count(grid, &echo);
    party_detach(&party);
    daemon_stop(&daemon);
}

static void count_awake(struct grid *grid, uint64_t scale)
{
    static const uint8_t message[64];
    struct daemon daemon;
    struct party party;
    pid_t worker = bench_serve(&daemon, "calls", "--idle busy", 0);

    party_attach(&party, &daemon, NULL);
    place_pin(0, 1);
    const struct scene echo = {.name = "echo spinning",
                               .parts = {{"job", 0}, {"worker", worker}},
                               .operations = 10 * scale,
                               .run = run_spinning_echo,
                               .argument = party.channel};
    scene_count(grid, &echo);
    struct flood flood = {.channel = party.channel, .request = &nop, .batch = 32, .window = 512};
    struct scene batch = {.name = "no-op of a batch",
                          .parts = {{"job", 0}, {"worker", worker}},
                          .operations = 100 * scale,
                          .run = run_flood,
                          .argument = &flood};
    scene_count(grid, &batch);
    const struct tesup_request notify = {.op = TESUP_OP_NOTIFY,
                                         .remote =
                                             party_open(&party, tesup_segment_name(party.session)),
                                         .msg = message,
                                         .msg_len = sizeof(message)};
    flood.request = &notify;
    batch.name = "notification of a batch";
    scene_count(grid, &batch);
    party_detach(&party);
    daemon_stop(&daemon);
}

static void count_tcp(struct grid *grid, uint64_t scale)
{
    static const unsigned at[4] = {0, 1, 0, 1};
    struct stage stage;

    bench_job_spin_us(0);
    stage_open(&stage, "--fabric tcp --idle sleep", true, at);
    const struct scene exchange = {.name = "4 KiB + answer",
                                   .parts = {{"job", 0},
                                             {"its worker", stage.left_worker},
                                             {"other worker", stage.right_worker},
                                             {"other job", (pid_t)atomic_peek(&stage.target->pid)}},
                                   .operations = scale,
                                   .run = run_exchange,
                                   .argument = &stage};
    scene_count(grid, &exchange);
    stage_close(&stage);
}

void calls_per_operation(void **state)
{
    const char *columns[TALLY_COUNT + 2] = {"operation: process"};
    uint64_t scale = bench_quick ? 100 : 2000;
    struct grid *grid;

    (void)state;
    for (int event = 0; event < TALLY_COUNT; event++)
        columns[event + 1] = tally_names[event];
    grid = grid_add("calls", "System calls and context switches per operation", columns);
    count_asleep(grid, scale);
    count_awake(grid, scale);
    count_tcp(grid, scale);
    snprintf(
        grid->note, sizeof(grid->note),
        "Counted by the kernel's tracepoints (perf_event_open), not by ptrace; \"calls\" is all "
        "of them. A worker that spins looks at its sockets once a turn: its epoll_wait is "
        "turns, not waiting.");
}
