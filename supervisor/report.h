/* Telling people: a line in the log, an entry among the errors of `tesup status`. */
#ifndef TESUP_SUPERVISOR_REPORT_H
#define TESUP_SUPERVISOR_REPORT_H

#include <stddef.h>

#include "shm/log.h"

struct supervisor;

/* `limit` for what outsiders can provoke; NULL writes every line. */
void report_problem(struct supervisor *supervisor, struct log_limit *limit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The sentence for EMFILE and ENFILE: limit and remedy. */
void report_no_files(char *text, size_t text_size);

/* A line in the log about something that is no problem; outsiders provoke it. */
void report_event(struct log_limit *limit, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
