#include "supervisor/status_rows.h"

#include <inttypes.h>
#include <libsmartcols.h>
#include <stdlib.h>

#include "supervisor/status_format.h"

#define CELL_MAX 1300 /* the longest name, every byte escaped */

struct status_rows {
    struct libscols_table *table;
    struct libscols_line *line;
    size_t column;
    bool failed;
};

struct status_rows *status_rows_new(const struct status_column *columns)
{
    struct status_rows *rows = calloc(1, sizeof(*rows));

    if (!rows)
        return NULL;
    rows->table = scols_new_table();
    if (!rows->table) {
        free(rows);
        return NULL;
    }
    scols_table_enable_noencoding(rows->table, 1); /* status_format_safe() has done it */
    for (; columns->name; columns++) {
        int flags = (columns->right ? SCOLS_FL_RIGHT : 0) | (columns->wrap ? SCOLS_FL_WRAP : 0);

        if (!scols_table_new_column(rows->table, columns->name, 0, flags))
            rows->failed = true;
    }
    return rows;
}

void status_rows_free(struct status_rows *rows)
{
    if (!rows)
        return;
    scols_unref_table(rows->table);
    free(rows);
}

void status_rows_begin(struct status_rows *rows)
{
    rows->line = scols_table_new_line(rows->table, NULL);
    rows->column = 0;
    if (!rows->line)
        rows->failed = true;
}

void status_rows_text(struct status_rows *rows, const char *text)
{
    char safe[CELL_MAX];

    status_format_safe(text[0] ? text : "-", safe, sizeof(safe));
    if (!rows->line || scols_line_set_data(rows->line, rows->column++, safe))
        rows->failed = true;
}

void status_rows_number(struct status_rows *rows, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    status_rows_text(rows, text);
}

void status_rows_bytes(struct status_rows *rows, uint64_t bytes)
{
    char text[24];

    status_format_bytes(bytes, text, sizeof(text));
    status_rows_text(rows, text);
}

int status_rows_print(struct status_rows *rows, const char *title, FILE *out)
{
    if (rows->failed)
        return -1;
    if (scols_table_is_empty(rows->table))
        return 0;
    fprintf(out, "\n%s\n", title);
    scols_table_set_stream(rows->table, out);
    return scols_print_table(rows->table) ? -1 : 0;
}
