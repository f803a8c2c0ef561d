/* One table of `tesup status`: columns, rows of text, printed under a title when it has rows. */
#ifndef TESUP_SUPERVISOR_STATUS_ROWS_H
#define TESUP_SUPERVISOR_STATUS_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct status_column {
    const char *name;
    bool right; /* numbers */
    bool wrap;  /* takes more lines on a narrow terminal */
};

struct status_rows;

/* `columns` ends with a NULL name. NULL without memory. */
struct status_rows *status_rows_new(const struct status_column *columns);
void status_rows_free(struct status_rows *rows);

void status_rows_begin(struct status_rows *rows);
/* The next cell of the row; what is no printable ASCII is escaped. */
void status_rows_text(struct status_rows *rows, const char *text);
void status_rows_number(struct status_rows *rows, uint64_t number);
void status_rows_bytes(struct status_rows *rows, uint64_t bytes);

/* 0, or -1 when a row or cell was lost for want of memory. */
int status_rows_print(struct status_rows *rows, const char *title, FILE *out);

#endif
