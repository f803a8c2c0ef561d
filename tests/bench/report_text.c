#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "tests/bench/report.h"

/* Three digits that count, however large the number. */
static void number_write(char *text, size_t size, double value)
{
    int digits = value >= 100 || value == 0 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;

    if (value < 0)
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%.*f", digits, value);
}

static void spread_write(char *text, size_t size, const struct spread *spread)
{
    char median[24], least[24], most[24];

    number_write(median, sizeof(median), spread->median);
    number_write(least, sizeof(least), spread->least);
    number_write(most, sizeof(most), spread->most);
    snprintf(text, size, "%s (%s..%s)", median, least, most);
}

/* The cells of a figure, the same for both kinds of table. */
enum cell { CELL_WHAT, CELL_VALUE, CELL_LIMIT, CELL_RATIO, CELL_MUST, CELL_AIM, CELL_VERDICT };
#define CELLS 7

static const char *const headings[CELLS] = {
    "figure", "median (min..max)", "limit here", "ratio", "must", "aim", "reached"};

static void cells_write(const struct row *row, char cells[CELLS][ROW_TEXT])
{
    char spread[96];

    memset(cells, 0, CELLS * sizeof(cells[0]));
    snprintf(cells[CELL_WHAT], ROW_TEXT, "%s", row->what);
    spread_write(spread, sizeof(spread), &row->value);
    snprintf(cells[CELL_VALUE], ROW_TEXT, "%s %s", spread, row->unit);
    if (row->limit_what[0] != '\0') {
        spread_write(spread, sizeof(spread), &row->limit);
        snprintf(cells[CELL_LIMIT], ROW_TEXT, "%s %s", row->limit_what, spread);
        spread_write(cells[CELL_RATIO], ROW_TEXT, &row->ratio);
    }
    snprintf(cells[CELL_MUST], ROW_TEXT, "%s", row->must_text);
    snprintf(cells[CELL_AIM], ROW_TEXT, "%s", row->aim_text);
    snprintf(cells[CELL_VERDICT], ROW_TEXT, "%s", row_verdict_text(row));
}

static void machine_write(FILE *file, const struct machine *machine, const char *end)
{
    fprintf(file,
            "%s, %u CPUs for us, %s; commit %s; %s, load before the run %.2f; median (min..max) of "
            "%u repetitions%s%s",
            machine->cpu, machine->cpus, machine->kernel, machine->commit, machine->when,
            machine->load, bench_reps(),
            bench_quick ? ", a smoke run: the numbers mean little, and large blocks are small" : "",
            end);
}

/* ---- for a terminal ---- */

void report_text(FILE *file, const struct machine *machine)
{
    char cells[CELLS][ROW_TEXT];

    machine_write(file, machine, "\n\n");
    for (size_t i = 0; i < row_count(); i++) {
        const struct row *row = row_at(i);

        cells_write(row, cells);
        fprintf(file, "%-62s %30s", cells[CELL_WHAT], cells[CELL_VALUE]);
        if (cells[CELL_MUST][0] != '\0')
            fprintf(file, "  %s", cells[CELL_VERDICT][0] ? cells[CELL_VERDICT] : "-");
        fprintf(file, "\n");
        if (cells[CELL_LIMIT][0] != '\0')
            fprintf(file, "    %s x %s\n", cells[CELL_RATIO], cells[CELL_LIMIT]);
        if (cells[CELL_MUST][0] != '\0')
            fprintf(file, "    must %s, aim %s\n", cells[CELL_MUST], cells[CELL_AIM]);
        fprintf(file, "    %s\n", row->place);
    }
    for (size_t i = 0; i < grid_count(); i++) {
        const struct grid *grid = grid_at(i);
        char number[24];

        fprintf(file, "\n%s\n%-26s", grid->title, grid->columns[0]);
        for (size_t column = 1; grid->columns[column] != NULL; column++)
            fprintf(file, " %15s", grid->columns[column]);
        for (size_t line = 0; line < grid->rows; line++) {
            fprintf(file, "\n%-26s", grid->label[line]);
            for (size_t column = 1; grid->columns[column] != NULL; column++) {
                number_write(number, sizeof(number), grid->cell[line][column]);
                fprintf(file, " %15s", number);
            }
        }
        fprintf(file, "\n    %s\n", grid->note);
    }
}

/* ---- Markdown ---- */

static void grid_markdown(FILE *file, const struct grid *grid)
{
    char number[24];

    fprintf(file, "\n**%s**\n\n|", grid->title);
    for (size_t column = 0; grid->columns[column] != NULL; column++)
        fprintf(file, " %s |", grid->columns[column]);
    fprintf(file, "\n|");
    for (size_t column = 0; grid->columns[column] != NULL; column++)
        fprintf(file, column == 0 ? " --- |" : " ---: |");
    for (size_t line = 0; line < grid->rows; line++) {
        fprintf(file, "\n| %s |", grid->label[line]);
        for (size_t column = 1; grid->columns[column] != NULL; column++) {
            number_write(number, sizeof(number), grid->cell[line][column]);
            fprintf(file, " %s |", number);
        }
    }
    fprintf(file, "\n\n%s\n", grid->note);
}

void report_markdown(FILE *file, const struct machine *machine)
{
    char cells[CELLS][ROW_TEXT];

    machine_write(file, machine, ".\n\n|");
    for (int cell = 0; cell < CELLS; cell++)
        fprintf(file, " %s |", headings[cell]);
    fprintf(file, "\n|");
    for (int cell = 0; cell < CELLS; cell++)
        fprintf(file, " --- |");
    for (size_t i = 0; i < row_count(); i++) {
        cells_write(row_at(i), cells);
        fprintf(file, "\n|");
        for (int cell = 0; cell < CELLS; cell++)
            fprintf(file, " %s |", cells[cell]);
    }
    fprintf(file, "\n\nWho ran where:\n");
    for (size_t i = 0; i < row_count(); i++)
        fprintf(file, "\n- %s: %s", row_at(i)->what, row_at(i)->place);
    fprintf(file, "\n");
    for (size_t i = 0; i < grid_count(); i++)
        grid_markdown(file, grid_at(i));
}
