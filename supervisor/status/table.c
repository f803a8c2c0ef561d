#include "supervisor/status/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/status/format.h"
#include "supervisor/status/rows.h"
#include "supervisor/status/words.h"

static void death_cell(struct status_rows *rows, const struct status *status,
                       const struct counters_worker_life *life)
{
    char age[STATUS_TIME_MAX];
    char cell[COUNTERS_TEXT + 64];
    uint64_t at = atomic_peek(&life->death_ns);

    status_format_age(at, status->wall_ns, age, sizeof(age));
    snprintf(cell, sizeof(cell), "%s ago: %s", age, life->death);
    status_rows_text(rows, at ? cell : "");
}

static void number_cell(struct status_rows *rows, bool known, uint64_t number)
{
    char text[24] = "";

    if (known)
        snprintf(text, sizeof(text), "%" PRIu64, number);
    status_rows_text(rows, text);
}

static void worker_row(struct status_rows *rows, const struct status *status,
                       const struct counters_worker *worker)
{
    const struct counters_worker_life *life = &worker->life;
    uint64_t pid = atomic_peek(&life->pid);
    char fabric[STATUS_WORDS_MAX];

    status_words_fabric(worker, fabric, sizeof(fabric));
    status_rows_begin(rows, STATUS_ROW_NONE);
    status_rows_text(rows, life->name);
    status_rows_state(rows, status_worker_state(status, worker),
                      status_worker_colour(status, worker));
    status_rows_age(rows, pid ? atomic_peek(&life->started_ns) : 0, status->wall_ns);
    number_cell(rows, pid > 0, pid);
    number_cell(rows, life->numa_node >= 0, (uint64_t)life->numa_node);
    status_rows_text(rows, life->cpus);
    status_rows_text(rows, fabric);
    status_rows_text(rows, life->nic);
    status_rows_text(rows, life->gpu);
    status_rows_text(rows, life->distance);
    status_rows_count(rows, atomic_peek(&life->restarts));
    death_cell(rows, status, life);
}

static int workers_print(const struct status *status, const struct status_screen *screen)
{
    static const struct status_column columns[] = {
        {.name = "PAIR", .wrap = true},
        {.name = "STATE"},
        {.name = "UP", .right = true},
        {.name = "PID", .right = true},
        {.name = "NODE", .right = true},
        {.name = "CORES", .wrap = true},
        {.name = "FABRIC", .wrap = true},
        {.name = "NIC", .wrap = true, .wide = true},
        {.name = "GPU", .wrap = true, .wide = true},
        {.name = "DISTANCE", .wide = true},
        {.name = "RESTARTS", .right = true},
        {.name = "LAST DEATH", .wrap = true, .wide = true},
        {0},
    };
    struct status_rows *rows = status_rows_new(screen, columns);
    const struct counters_worker *worker = NULL;

    if (!rows)
        return -1;
    while ((worker = status_worker_next(status, worker)))
        worker_row(rows, status, worker);
    int err = status_rows_print(rows, "WORKERS");
    status_rows_free(rows);
    return err;
}

static void traffic_row(struct status_rows *rows, const struct counters_worker *worker)
{
    const struct counters_worker_stats *stats = &worker->stats;
    char turn[24];

    status_format_duration(atomic_peek(&stats->turn_max_ns), turn, sizeof(turn));
    status_rows_begin(rows, STATUS_ROW_NONE);
    status_rows_text(rows, worker->life.name);
    status_rows_bytes(rows,
                      atomic_peek(&stats->bytes_written) + atomic_peek(&stats->bytes_served_read));
    status_rows_count(rows, atomic_peek(&stats->writes) + atomic_peek(&stats->served_reads));
    status_rows_count(rows, atomic_peek(&stats->notify_sent));
    status_rows_bytes(rows,
                      atomic_peek(&stats->bytes_read) + atomic_peek(&stats->bytes_served_written));
    status_rows_count(rows, atomic_peek(&stats->reads) + atomic_peek(&stats->served_writes));
    status_rows_count(rows, atomic_peek(&stats->notify_delivered));
    status_rows_count(rows, atomic_peek(&stats->in_flight));
    status_rows_text(rows, turn);
    status_rows_count(rows, status_errors_count(worker->error));
}

static int traffic_print(const struct status *status, const struct status_screen *screen)
{
    static const struct status_column columns[] = {
        {.name = "PAIR", .wrap = true},
        {.name = "BYTES>", .right = true},
        {.name = "OPS>", .right = true},
        {.name = "NOTES>", .right = true},
        {.name = "BYTES<", .right = true},
        {.name = "OPS<", .right = true},
        {.name = "NOTES<", .right = true},
        {.name = "OPEN", .right = true},
        {.name = "TURN", .right = true},
        {.name = "ERRORS", .right = true},
        {0},
    };
    struct status_rows *rows = status_rows_new(screen, columns);
    const struct counters_worker *worker = NULL;

    if (!rows)
        return -1;
    while ((worker = status_worker_next(status, worker)))
        traffic_row(rows, worker);
    int err = status_rows_print(rows, "TRAFFIC (> out, < in; OPEN: in flight; TURN: longest turn "
                                      "of the loop)");
    status_rows_free(rows);
    return err;
}

static void errors_hint(const struct status *status, const struct status_screen *screen)
{
    const struct counters_worker *worker = NULL;
    uint64_t count = status_errors_count(status->seen->supervisor.error);

    while ((worker = status_worker_next(status, worker)))
        count += status_errors_count(worker->error);
    if (count)
        fprintf(screen->out, "\nErrors counted: %" PRIu64 "; `tesup status --errors` lists them.\n",
                count);
}

int status_table_print(const struct status *status, const struct status_screen *screen)
{
    int err = 0;

    status_head_print(status, screen);
    err |= workers_print(status, screen);
    err |= traffic_print(status, screen);
    err |= status_tree_print(status, screen);
    errors_hint(status, screen);
    return err ? -1 : 0;
}
