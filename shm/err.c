#include "shm/err.h"

static const char *const error_names[] = {
    [-TS_OK] = "done",
    [-TS_ERR_INVALID] = "invalid argument",
    [-TS_ERR_DENIED] = "access denied",
    [-TS_ERR_GONE] = "gone",
    [-TS_ERR_NOT_FOUND] = "not found",
    [-TS_ERR_UNREACHABLE] = "peer unreachable, nothing was sent",
    [-TS_ERR_TIMEOUT] = "deadline passed",
    [-TS_ERR_CANCELLED] = "cancelled",
    [-TS_ERR_UNCERTAIN] = "outcome unknown",
    [-TS_ERR_FAULT] = "memory cannot be touched",
    [-TS_ERR_LIMIT] = "limit reached",
    [-TS_ERR_NO_MEMORY] = "out of memory",
    [-TS_ERR_NO_DAEMON] = "no supervisor",
    [-TS_ERR_FORKED] = "attached by the parent process",
    [-TS_ERR_VERSION] = "version mismatch",
    [-TS_ERR_PROTOCOL] = "protocol broken",
    [-TS_ERR_EXISTS] = "name taken",
    [-TS_ERR_UNSUPPORTED] = "not supported here",
    [-TS_ERR_TOO_LONG] = "notification too long",
    [-TS_ERR_AUTH] = "peer not authenticated",
    [-TS_ERR_SYSTEM] = "system call failed",
    [-TS_ERR_SKIPPED] = "not sent, its transfer failed",
};

const char *err_name(int code)
{
    if (code == TS_AGAIN)
        return "no room now, try again";
    if (code > TS_OK || code < TS_ERR_LAST)
        return "unknown status";
    return error_names[-code];
}
