/* `tesup status` for people: a head, tables of workers and traffic, a tree of who hangs on what. */
#ifndef TESUP_SUPERVISOR_STATUS_TABLE_H
#define TESUP_SUPERVISOR_STATUS_TABLE_H

#include "supervisor/status/read.h"
#include "supervisor/status/screen.h"

/* All of it. 0, or -1 when a table could not be made. */
int status_table_print(const struct status *status, const struct status_screen *screen);

/* Health, what is wrong, and who this is. */
void status_head_print(const struct status *status, const struct status_screen *screen);
/* Health and what is wrong only. */
void status_health_print(const struct status *status, const struct status_screen *screen);
/* Each pair with its NIC, GPU, worker, jobs and peers. */
int status_tree_print(const struct status *status, const struct status_screen *screen);
/* The distinct errors, the latest first. */
int status_errors_print(const struct status *status, const struct status_screen *screen);
uint64_t status_errors_count(const struct counters_error *table);

#endif
