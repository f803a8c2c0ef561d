#include "supervisor/shortage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "shm/err.h"
#include "supervisor/report.h"

static unsigned long long limit_of(int resource)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

    getrlimit((__rlimit_resource_t)resource, &limit);
    return limit.rlim_cur;
}

static void memory_explain(const char *what, unsigned long long bytes, char *text, size_t text_size)
{
    unsigned long long space = limit_of(RLIMIT_AS);

    if (space != RLIM_INFINITY)
        snprintf(text, text_size,
                 "the supervisor has no memory for %s of about %llu KiB (RLIMIT_AS is %llu KiB): "
                 "start it with `ulimit -v unlimited`, LimitAS= in its unit",
                 what, bytes / 1024 + 1, space / 1024);
    else
        snprintf(text, text_size,
                 "the supervisor has no memory for %s of about %llu KiB: free some, or raise the "
                 "limit of its cgroup, MemoryMax= in its unit",
                 what, bytes / 1024 + 1);
}

int shortage_explain(int error, const char *what, unsigned long long bytes, char *text,
                     size_t text_size)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
        report_no_files(text, text_size);
        return TS_ERR_LIMIT;
    case EFBIG:
        snprintf(text, text_size,
                 "RLIMIT_FSIZE of the supervisor is %llu KiB, %s needs about %llu KiB: start it "
                 "with `ulimit -f unlimited`, LimitFSIZE= in its unit",
                 limit_of(RLIMIT_FSIZE) / 1024, what, bytes / 1024 + 1);
        return TS_ERR_LIMIT;
    case ENOMEM:
    case ENOSPC:
        memory_explain(what, bytes, text, text_size);
        return TS_ERR_NO_MEMORY;
    default:
        snprintf(text, text_size, "%s cannot be made: %s", what, strerror(error));
        return TS_ERR_SYSTEM;
    }
}
