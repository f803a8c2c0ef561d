#include "supervisor/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "supervisor/supervisor.h"

static void report_line(enum log_level level, struct log_limit *limit, const char *text)
{
    uint64_t left_out = 0;

    if (limit != NULL && !log_limit_pass(limit, &left_out))
        return;
    if (left_out > 0)
        log_line(level, "%s (and %llu more like this)", text, (unsigned long long)left_out);
    else
        log_line(level, "%s", text);
}

void report_problem(struct supervisor *supervisor, struct log_limit *limit, const char *format, ...)
{
    char text[COUNTERS_TEXT * 2];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    counters_error_add(supervisor->counters->supervisor.error, text);
    report_line(LOG_LEVEL_WARNING, limit, text);
}

void report_event(struct log_limit *limit, const char *format, ...)
{
    char text[COUNTERS_TEXT * 2];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    report_line(LOG_LEVEL_INFO, limit, text);
}

void report_no_files(char *text, size_t text_size)
{
    struct rlimit limit = {0};

    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, text_size,
             "the supervisor has no file descriptor left (limit %llu, a job needs 5 and 3 for each "
             "further channel): raise RLIMIT_NOFILE, LimitNOFILE= in its unit",
             (unsigned long long)limit.rlim_cur);
}
