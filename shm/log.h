/* Log lines to stderr: "<level>who: sentence".  One write(2) each, so that lines of several
 * processes never mix.  A line that untrusted input can provoke goes through a log_limit. */
#ifndef TESUP_SHM_LOG_H
#define TESUP_SHM_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6 };

/* Name before each line of this process. Copied. */
void log_init(const char *who);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)

/* One line a second for each kind of event; says how many were left out. */
struct log_limit {
    uint64_t last_ns;
    uint64_t left_out;
};

/* True when this line may be written; *left_out is how many were not since the last one. */
bool log_limit_pass(struct log_limit *limit, uint64_t *left_out);

#endif
