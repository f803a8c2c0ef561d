#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/status/format.h"
#include "supervisor/status/rows.h"
#include "supervisor/status/table.h"

#define LINES_MAX ((COUNTERS_WORKERS + 1) * COUNTERS_ERRORS)

struct error_line {
    const char *where;
    const struct counters_error *error;
};

uint64_t status_errors_count(const struct counters_error *table)
{
    uint64_t count = 0;

    for (size_t i = 0; i < COUNTERS_ERRORS; i++)
        count += atomic_peek(&table[i].count);
    return count;
}

static size_t lines_add(struct error_line *lines, size_t count, const char *where,
                        const struct counters_error *table)
{
    for (size_t i = 0; i < COUNTERS_ERRORS; i++)
        if (atomic_peek(&table[i].count) > 0)
            lines[count++] = (struct error_line){.where = where, .error = &table[i]};
    return count;
}

static int line_order(const void *a, const void *b)
{
    uint64_t first = atomic_peek(&((const struct error_line *)a)->error->last_ns);
    uint64_t second = atomic_peek(&((const struct error_line *)b)->error->last_ns);

    return first < second ? 1 : first > second ? -1 : 0;
}

/* "2025-01-31 12:00:00Z": what logs of other hosts can be compared with. */
static void moment_cell(struct status_rows *rows, uint64_t wall_ns)
{
    char iso[STATUS_TIME_MAX], text[STATUS_TIME_MAX + 2];

    status_format_time(wall_ns, iso);
    iso[strcspn(iso, ".")] = '\0';
    iso[strcspn(iso, "T")] = ' ';
    snprintf(text, sizeof(text), "%sZ", iso);
    status_rows_text(rows, text);
}

static void line_row(struct status_rows *rows, const struct status *status,
                     const struct error_line *line)
{
    uint64_t first = atomic_peek(&line->error->first_ns);
    uint64_t last = atomic_peek(&line->error->last_ns);

    status_rows_begin(rows, STATUS_ROW_NONE);
    status_rows_count(rows, atomic_peek(&line->error->count));
    status_rows_age(rows, first, status->wall_ns);
    status_rows_age(rows, last, status->wall_ns);
    moment_cell(rows, first);
    moment_cell(rows, last);
    status_rows_text(rows, line->where);
    status_rows_text(rows, line->error->text);
}

int status_errors_print(const struct status *status, const struct status_screen *screen)
{
    static const struct status_column columns[] = {
        {.name = "COUNT", .right = true},  {.name = "FIRST", .right = true},
        {.name = "LAST", .right = true},   {.name = "FIRST AT", .wide = true},
        {.name = "LAST AT", .wide = true}, {.name = "WHERE", .wrap = true},
        {.name = "ERROR", .wrap = true},   {0},
    };
    struct error_line *lines = calloc(LINES_MAX, sizeof(*lines));
    struct status_rows *rows = status_rows_new(screen, columns);
    const struct counters_worker *worker = NULL;
    int err = -1;

    if (!lines || !rows)
        goto out;
    size_t count = lines_add(lines, 0, "supervisor", status->seen->supervisor.error);
    while ((worker = status_worker_next(status, worker)))
        count = lines_add(lines, count, worker->life.name, worker->error);
    qsort(lines, count, sizeof(*lines), line_order);
    for (size_t i = 0; i < count; i++)
        line_row(rows, status, &lines[i]);
    if (count == 0)
        fprintf(screen->out, "\nNo error since the supervisor started.\n");
    err = status_rows_print(rows, "ERRORS (FIRST, LAST: how long ago; the latest first)");
out:
    status_rows_free(rows);
    free(lines);
    return err;
}
