/* `tesup status` for people: tables that read well in 80 columns. */
#ifndef TESUP_SUPERVISOR_STATUS_TABLE_H
#define TESUP_SUPERVISOR_STATUS_TABLE_H

#include <stdio.h>

#include "supervisor/status_read.h"

/* 0, or -1 when a table could not be made. */
int status_table_print(const struct status *status, bool with_errors, FILE *out);

#endif
