#include "supervisor/status/rows.h"

#include <libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/status/format.h"
#include "supervisor/status/wrap.h"

#define CELL_MAX    1300 /* the longest name, every byte escaped */
#define CELL_LEAST  8    /* columns narrower than this cannot be read */
#define TREE_INDENT 2    /* of one level, as libsmartcols draws it */

struct row {
    size_t parent;
    char *cell[STATUS_COLUMNS_MAX];
    enum status_colour colour[STATUS_COLUMNS_MAX];
    struct libscols_line *line; /* while it is printed */
};

struct status_rows {
    const struct status_screen *screen;
    const struct status_column *columns;
    size_t column_count;
    struct row *row;
    size_t row_count, row_room;
    size_t column; /* of the next cell */
    bool failed;
};

struct status_rows *status_rows_new(const struct status_screen *screen,
                                    const struct status_column *columns)
{
    struct status_rows *rows = calloc(1, sizeof(*rows));

    if (!rows)
        return NULL;
    rows->screen = screen;
    rows->columns = columns;
    while (columns[rows->column_count].name)
        rows->column_count++;
    return rows;
}

void status_rows_free(struct status_rows *rows)
{
    if (!rows)
        return;
    for (size_t i = 0; i < rows->row_count; i++)
        for (size_t j = 0; j < rows->column_count; j++)
            free(rows->row[i].cell[j]);
    free(rows->row);
    free(rows);
}

size_t status_rows_begin(struct status_rows *rows, size_t parent)
{
    rows->column = 0;
    if (rows->row_count == rows->row_room) {
        size_t room = rows->row_room ? 2 * rows->row_room : 16;
        struct row *more = realloc(rows->row, room * sizeof(*more));

        if (!more) {
            rows->failed = true;
            return STATUS_ROW_NONE;
        }
        rows->row = more;
        rows->row_room = room;
    }
    rows->row[rows->row_count] = (struct row){.parent = parent};
    return rows->row_count++;
}

void status_rows_state(struct status_rows *rows, const char *text, enum status_colour colour)
{
    char safe[CELL_MAX];
    size_t column = rows->column++;

    if (rows->failed || column >= rows->column_count)
        return;
    status_format_safe(text[0] ? text : "-", safe, sizeof(safe));
    struct row *row = &rows->row[rows->row_count - 1];
    row->colour[column] = colour;
    row->cell[column] = strdup(safe);
    if (!row->cell[column])
        rows->failed = true;
}

void status_rows_text(struct status_rows *rows, const char *text)
{
    status_rows_state(rows, text, STATUS_COLOUR_NONE);
}

void status_rows_count(struct status_rows *rows, uint64_t number)
{
    char text[24];

    status_format_count(number, text, sizeof(text));
    status_rows_text(rows, text);
}

void status_rows_bytes(struct status_rows *rows, uint64_t bytes)
{
    char text[24];

    status_format_bytes(bytes, text, sizeof(text));
    status_rows_text(rows, text);
}

void status_rows_age(struct status_rows *rows, uint64_t since_ns, uint64_t now_ns)
{
    char text[STATUS_TIME_MAX];

    status_format_age(since_ns, now_ns, text, sizeof(text));
    status_rows_text(rows, text);
}

/* ---- layout ---- */

static bool column_shown(const struct status_rows *rows, size_t column)
{
    return !rows->columns[column].wide || rows->screen->width >= STATUS_WIDTH_WIDE;
}

static size_t row_depth(const struct status_rows *rows, size_t row)
{
    size_t depth = 0;

    for (row = rows->row[row].parent; row != STATUS_ROW_NONE; row = rows->row[row].parent)
        depth++;
    return depth;
}

static size_t column_natural(const struct status_rows *rows, size_t column)
{
    size_t natural = strlen(rows->columns[column].name);

    for (size_t i = 0; i < rows->row_count; i++) {
        size_t indent = rows->columns[column].tree ? TREE_INDENT * row_depth(rows, i) : 0;
        size_t length = strlen(rows->row[i].cell[column]) + indent;

        if (length > natural)
            natural = length;
    }
    return natural;
}

/* Widths of the shown columns. */
static void layout_make(const struct status_rows *rows,
                        struct status_width widths[STATUS_COLUMNS_MAX])
{
    size_t total = rows->screen->width + 1; /* a blank behind each but the last */
    size_t count = 0;

    for (size_t i = 0; i < rows->column_count; i++) {
        if (!column_shown(rows, i))
            continue;
        widths[count++] = (struct status_width){
            .natural = column_natural(rows, i), .least = CELL_LEAST, .wrap = rows->columns[i].wrap};
        total--;
    }
    status_width_share(widths, count, total);
}

/* ---- print ---- */

static int columns_add(const struct status_rows *rows, struct libscols_table *table)
{
    for (size_t i = 0; i < rows->column_count; i++) {
        const struct status_column *column = &rows->columns[i];
        int flags = (column->right ? SCOLS_FL_RIGHT : 0) | (column->wrap ? SCOLS_FL_WRAP : 0) |
                    (column->tree ? SCOLS_FL_TREE : 0);

        if (!column_shown(rows, i))
            continue;
        struct libscols_column *made = scols_table_new_column(table, column->name, 0, flags);
        if (!made)
            return -1;
        if (column->wrap &&
            scols_column_set_wrapfunc(made, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL))
            return -1;
    }
    return 0;
}

static int row_add(const struct status_rows *rows, struct libscols_table *table, struct row *row,
                   const struct status_width *widths)
{
    struct row *parent = row->parent == STATUS_ROW_NONE ? NULL : &rows->row[row->parent];
    char lines[2 * CELL_MAX];
    size_t shown = 0;

    row->line = scols_table_new_line(table, parent ? parent->line : NULL);
    if (!row->line)
        return -1;
    for (size_t i = 0; i < rows->column_count; i++) {
        if (!column_shown(rows, i))
            continue;
        size_t at = shown++;
        const char *colour = status_screen_colour(rows->screen, row->colour[i]);
        if (rows->columns[i].wrap)
            status_wrap(row->cell[i], widths[at].width, lines, sizeof(lines));
        if (scols_line_set_data(row->line, at, rows->columns[i].wrap ? lines : row->cell[i]))
            return -1;
        if (colour[0] && scols_cell_set_color(scols_line_get_cell(row->line, at), colour))
            return -1;
    }
    return 0;
}

static int table_fill(struct status_rows *rows, struct libscols_table *table)
{
    struct status_width widths[STATUS_COLUMNS_MAX];

    layout_make(rows, widths);
    scols_table_enable_noencoding(table, 1); /* status_format_safe() has done it */
    scols_table_enable_colors(table, rows->screen->colour);
    scols_table_set_stream(table, rows->screen->out);
    if (scols_table_set_termforce(table, SCOLS_TERMFORCE_ALWAYS) ||
        scols_table_set_termwidth(table, rows->screen->width) || columns_add(rows, table))
        return -1;
    for (size_t i = 0; i < rows->row_count; i++)
        if (row_add(rows, table, &rows->row[i], widths))
            return -1;
    return 0;
}

int status_rows_print(struct status_rows *rows, const char *title)
{
    struct libscols_table *table;
    int err = -1;

    if (rows->failed)
        return -1;
    if (rows->row_count == 0)
        return 0;
    table = scols_new_table();
    if (!table)
        return -1;
    if (table_fill(rows, table) == 0) {
        fprintf(rows->screen->out, "\n%s\n", title);
        err = scols_print_table(table) ? -1 : 0;
    }
    scols_unref_table(table);
    return err;
}
