#include "tests/bench/bench.h"

#include <stdio.h>

#define ROWS_MAX  64
#define GRIDS_MAX 8

static struct row rows[ROWS_MAX];
static size_t row_total;
static struct grid grids[GRIDS_MAX];
static size_t grid_total;

static struct spread spread_of(const struct series *series)
{
    return (struct spread){.median = series_median(series),
                           .least = series_rank(series, 0),
                           .most = series_rank(series, 100)};
}

struct row *row_add(const char *id, const char *what, const char *unit, const struct series *value)
{
    struct row *row = &rows[row_total];

    assert_true(row_total++ < ROWS_MAX);
    assert_true(value->count > 0);
    *row = (struct row){.unit = unit, .value = spread_of(value)};
    snprintf(row->id, sizeof(row->id), "%s", id);
    snprintf(row->what, sizeof(row->what), "%s", what);
    return row;
}

void row_limit(struct row *row, const char *what, const struct series *value,
               const struct series *limit)
{
    struct series ratios = {.count = 0};

    assert_int_equal(value->count, limit->count);
    for (size_t i = 0; i < value->count; i++)
        series_add(&ratios, value->value[i] / limit->value[i]);
    row->ratio = spread_of(&ratios);
    series_free(&ratios);
    snprintf(row->limit_what, sizeof(row->limit_what), "%s", what);
    row->limit = spread_of(limit);
}

void row_ask_times(struct row *row, bool at_least, double must, double aim)
{
    const char *sign = at_least ? ">=" : "<=";

    row->at_least = at_least;
    row->of_ratio = true;
    row->must = must;
    row->aim = aim;
    snprintf(row->must_text, sizeof(row->must_text), "%s %g x", sign, must);
    snprintf(row->aim_text, sizeof(row->aim_text), "%s %g x", sign, aim);
}

void row_ask(struct row *row, bool at_least, double must, const char *must_text, double aim,
             const char *aim_text)
{
    row->at_least = at_least;
    row->must = must;
    row->aim = aim;
    snprintf(row->must_text, sizeof(row->must_text), "%s", must_text);
    snprintf(row->aim_text, sizeof(row->aim_text), "%s", aim_text);
}

void row_place(struct row *row, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(row->place, sizeof(row->place), format, args);
    va_end(args);
}

static bool reaches(const struct row *row, double bound)
{
    double reached = row->of_ratio ? row->ratio.median : row->value.median;

    return row->at_least ? reached >= bound : reached <= bound;
}

enum verdict row_verdict(const struct row *row)
{
    if (row->must_text[0] == '\0')
        return VERDICT_NONE;
    if (reaches(row, row->aim))
        return VERDICT_AIM;
    return reaches(row, row->must) ? VERDICT_MUST : VERDICT_MISSED;
}

const char *row_verdict_text(const struct row *row)
{
    static const char *const texts[] = {[VERDICT_NONE] = "",
                                        [VERDICT_AIM] = "aim",
                                        [VERDICT_MUST] = "must",
                                        [VERDICT_MISSED] = "MISSED"};

    return texts[row_verdict(row)];
}

struct grid *grid_add(const char *id, const char *title, const char *const *columns)
{
    struct grid *grid = &grids[grid_total];

    assert_true(grid_total++ < GRIDS_MAX);
    *grid = (struct grid){.id = id, .title = title};
    for (size_t i = 0; columns[i] != NULL; i++) {
        assert_true(i < GRID_COLUMNS - 1);
        grid->columns[i] = columns[i];
    }
    return grid;
}

void grid_row(struct grid *grid, const char *label, const double *cells)
{
    size_t row = grid->rows++;

    assert_true(row < GRID_ROWS);
    snprintf(grid->label[row], sizeof(grid->label[row]), "%s", label);
    for (size_t i = 1; grid->columns[i] != NULL; i++)
        grid->cell[row][i] = cells[i - 1];
}

size_t row_count(void)
{
    return row_total;
}

const struct row *row_at(size_t index)
{
    return &rows[index];
}

size_t grid_count(void)
{
    return grid_total;
}

const struct grid *grid_at(size_t index)
{
    return &grids[index];
}
