/* What was measured: a figure beside its limit, and what it must and should reach. */
#ifndef TESUP_TESTS_BENCH_ROW_H
#define TESUP_TESTS_BENCH_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/bench/series.h"

#define ROW_TEXT 160

/* Median and spread, as they are shown. */
struct spread {
    double median, least, most;
};

struct row {
    char id[32];
    char what[ROW_TEXT];
    const char *unit;
    struct spread value;
    char limit_what[48]; /* "" = there is none */
    struct spread limit;
    struct spread ratio; /* of each sample to the limit that was measured just before it */
    bool at_least;       /* the figure is good when it is large */
    bool of_ratio;       /* the bounds are for the ratio, else for the figure */
    double must, aim;
    char must_text[48]; /* as the requirement says it; "" = nothing is asked */
    char aim_text[48];
    char place[ROW_TEXT]; /* who ran on which CPU, and how it waited */
};

enum verdict { VERDICT_NONE, VERDICT_AIM, VERDICT_MUST, VERDICT_MISSED };

/* The row is the list's, and stays valid. */
struct row *row_add(const char *id, const char *what, const char *unit, const struct series *value);
/* `limit` has one sample for each of `value`. */
void row_limit(struct row *row, const char *what, const struct series *value,
               const struct series *limit);
/* Bounds as multiples of the limit: at most (`at_least` false) or at least. */
void row_ask_times(struct row *row, bool at_least, double must, double aim);
/* Bounds in the row's unit, with the text that says where they come from. */
void row_ask(struct row *row, bool at_least, double must, const char *must_text, double aim,
             const char *aim_text);
void row_place(struct row *row, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum verdict row_verdict(const struct row *row);
const char *row_verdict_text(const struct row *row); /* "aim", "must", "MISSED", "" */

/* A table of numbers that nothing is asked of. */
#define GRID_COLUMNS 12
#define GRID_ROWS    40

struct grid {
    const char *id;
    const char *title;
    const char *columns[GRID_COLUMNS]; /* ended by NULL */
    char note[256];
    size_t rows;
    char label[GRID_ROWS][48];
    double cell[GRID_ROWS][GRID_COLUMNS]; /* negative: not known */
};

struct grid *grid_add(const char *id, const char *title, const char *const *columns);
/* Adds a row of numbers, one for each column but the first. */
void grid_row(struct grid *grid, const char *label, const double *cells);

size_t row_count(void);
const struct row *row_at(size_t index);
size_t grid_count(void);
const struct grid *grid_at(size_t index);

#endif
