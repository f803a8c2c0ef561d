/* One table or tree of `tesup status`: columns, rows of text, laid out for a width and printed
 * under a title when it has rows. */
#ifndef TESUP_SUPERVISOR_STATUS_ROWS_H
#define TESUP_SUPERVISOR_STATUS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/status/screen.h"

#define STATUS_COLUMNS_MAX 14u
#define STATUS_ROW_NONE    SIZE_MAX

struct status_column {
    const char *name;
    bool right; /* numbers */
    bool wrap;  /* takes more lines where the width does not suffice; else never cut */
    bool tree;
    bool wide; /* only where the screen is wide */
};

struct status_rows;

/* `columns` ends with a NULL name. NULL without memory. */
struct status_rows *status_rows_new(const struct status_screen *screen,
                                    const struct status_column *columns);
void status_rows_free(struct status_rows *rows);

/* Begins a row; `parent` is what this returned for another, or STATUS_ROW_NONE. */
size_t status_rows_begin(struct status_rows *rows, size_t parent);
/* The next cell of the row; what is no printable ASCII is escaped. */
void status_rows_text(struct status_rows *rows, const char *text);
void status_rows_state(struct status_rows *rows, const char *text, enum status_colour colour);
void status_rows_count(struct status_rows *rows, uint64_t number);
void status_rows_bytes(struct status_rows *rows, uint64_t bytes);
void status_rows_age(struct status_rows *rows, uint64_t since_ns, uint64_t now_ns);

/* 0, or -1 when a row or cell was lost for want of memory. */
int status_rows_print(struct status_rows *rows, const char *title);

#endif
