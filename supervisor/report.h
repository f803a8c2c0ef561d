/* Telling people: a line in the log, an entry among the errors of `tesup status`. */
#ifndef TESUP_SUPERVISOR_REPORT_H
#define TESUP_SUPERVISOR_REPORT_H

#include "shm/log.h"

struct supervisor;

/* `limit` for what outsiders can provoke; NULL writes every line. */
void report_problem(struct supervisor *supervisor, struct log_limit *limit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A line in the log about something that is no problem; outsiders provoke it. */
void report_event(struct log_limit *limit, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
