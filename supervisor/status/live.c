#include "supervisor/status/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/status/format.h"
#include "supervisor/status/rows.h"
#include "supervisor/status/table.h"
#include "supervisor/status/words.h"

/* Before the second look there is no rate. */
static void rate_cell(struct status_rows *rows, double rate, bool known,
                      void (*format)(double rate, char *text, size_t size))
{
    char text[24] = "";

    if (known)
        format(rate, text, sizeof(text));
    status_rows_text(rows, text);
}

static void rate_cells(struct status_rows *rows, const struct status_rate *rate, bool known)
{
    rate_cell(rows, rate->bytes_out, known, status_format_byte_rate);
    rate_cell(rows, rate->ops_out, known, status_format_rate);
    rate_cell(rows, rate->notes_out, known, status_format_rate);
    rate_cell(rows, rate->bytes_in, known, status_format_byte_rate);
    rate_cell(rows, rate->ops_in, known, status_format_rate);
    rate_cell(rows, rate->notes_in, known, status_format_rate);
}

#define RATE_COLUMNS                                                          \
    {.name = "BYTES>", .right = true}, {.name = "OPS>", .right = true},       \
        {.name = "NOTES>", .right = true}, {.name = "BYTES<", .right = true}, \
        {.name = "OPS<", .right = true}, {.name = "NOTES<", .right = true},   \
    {                                                                         \
        0                                                                     \
    }

static int pairs_print(const struct status *status, const struct status_rates *rates,
                       const struct status_screen *screen)
{
    static const struct status_column columns[] = {
        {.name = "PAIR", .wrap = true}, {.name = "NIC", .wrap = true}, RATE_COLUMNS};
    struct status_rows *rows = status_rows_new(screen, columns);
    const struct counters_worker *worker = NULL;

    if (!rows)
        return -1;
    while ((worker = status_worker_next(status, worker))) {
        status_rows_begin(rows, STATUS_ROW_NONE);
        status_rows_text(rows, worker->life.name);
        status_rows_text(rows, worker->life.nic);
        rate_cells(rows, &rates->pair[worker - status->seen->worker], rates->seconds > 0);
    }
    int err = status_rows_print(rows, "PAIRS, per second (> out, < in)");
    status_rows_free(rows);
    return err;
}

static int nics_print(const struct status_rates *rates, const struct status_screen *screen)
{
    static const struct status_column columns[] = {
        {.name = "NIC", .wrap = true}, {.name = "PAIRS", .right = true}, RATE_COLUMNS};
    struct status_rows *rows = status_rows_new(screen, columns);

    if (!rows)
        return -1;
    for (size_t i = 0; i < rates->nic_count; i++) {
        status_rows_begin(rows, STATUS_ROW_NONE);
        status_rows_text(rows, rates->nic[i].nic);
        status_rows_count(rows, rates->nic[i].pairs);
        rate_cells(rows, &rates->nic[i].rate, rates->seconds > 0);
    }
    int err = status_rows_print(rows, "NICS, per second");
    status_rows_free(rows);
    return err;
}

static void cq_cell(struct status_rows *rows, const struct counters_worker_stats *stats)
{
    char used[24], capacity[24], text[64] = "";

    status_format_count(atomic_peek(&stats->notify_cq_used), used, sizeof(used));
    status_format_count(atomic_peek(&stats->notify_cq_capacity), capacity, sizeof(capacity));
    if (atomic_peek(&stats->notify_cq_capacity))
        snprintf(text, sizeof(text), "%s/%s", used, capacity);
    status_rows_text(rows, text);
}

static void queue_row(struct status_rows *rows, const struct status *status,
                      const struct counters_worker *worker, const struct status_rate *rate,
                      bool known)
{
    const struct counters_worker_stats *stats = &worker->stats;
    char turn[24];

    status_format_duration(atomic_peek(&stats->turn_max_ns), turn, sizeof(turn));
    status_rows_begin(rows, STATUS_ROW_NONE);
    status_rows_text(rows, worker->life.name);
    status_rows_state(rows, status_worker_state(status, worker),
                      status_worker_colour(status, worker));
    status_rows_count(rows, atomic_peek(&stats->sessions));
    status_rows_count(rows, atomic_peek(&stats->endpoints));
    status_rows_count(rows, atomic_peek(&stats->in_flight));
    status_rows_count(rows, atomic_peek(&stats->notify_parked));
    rate_cell(rows, rate->credit_waits, known, status_format_rate);
    rate_cell(rows, rate->refusals, known, status_format_rate);
    status_rows_text(rows, turn);
    cq_cell(rows, stats);
}

static bool has_cq(const struct status *status)
{
    const struct counters_worker *worker = NULL;

    while ((worker = status_worker_next(status, worker)))
        if (atomic_peek(&worker->stats.notify_cq_capacity))
            return true;
    return false;
}

static int queues_print(const struct status *status, const struct status_rates *rates,
                        const struct status_screen *screen)
{
    struct status_column columns[] = {
        {.name = "PAIR", .wrap = true},
        {.name = "STATE"},
        {.name = "JOBS", .right = true},
        {.name = "PEERS", .right = true},
        {.name = "OPEN", .right = true},
        {.name = "PARKED", .right = true},
        {.name = "STALLS", .right = true},
        {.name = "AGAIN", .right = true},
        {.name = "TURN", .right = true},
        {.name = has_cq(status) ? "CQ" : NULL, .right = true}, /* only where there is one */
        {0},
    };
    struct status_rows *rows = status_rows_new(screen, columns);
    const struct counters_worker *worker = NULL;

    if (!rows)
        return -1;
    while ((worker = status_worker_next(status, worker)))
        queue_row(rows, status, worker, &rates->pair[worker - status->seen->worker],
                  rates->seconds > 0);
    int err = status_rows_print(
        rows, "QUEUES now; STALLS, AGAIN: waits for credit and for room, per second");
    status_rows_free(rows);
    return err;
}

int status_live_print(const struct status *status, const struct status_rates *rates,
                      const struct status_screen *screen)
{
    char moment[STATUS_TIME_MAX];
    int err = 0;

    status_health_print(status, screen);
    status_format_time(status->wall_ns, moment);
    fprintf(screen->out, "  at %s\n", moment);
    err |= pairs_print(status, rates, screen);
    err |= nics_print(rates, screen);
    err |= queues_print(status, rates, screen);
    return err ? -1 : 0;
}
