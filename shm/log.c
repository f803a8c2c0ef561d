#include "shm/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/clock.h"

static char log_who[64] = "tesup";

void log_init(const char *who)
{
    snprintf(log_who, sizeof(log_who), "%s", who);
}

/* Bytes from outside must not become terminal escapes. */
static void log_make_printable(char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)line[i];

        if (c < 0x20 || c == 0x7f)
            line[i] = '?';
    }
}

void log_line(enum log_level level, const char *format, ...)
{
    char line[1024];
    int saved = errno;
    int head = snprintf(line, sizeof(line), "<%d>%s: ", (int)level, log_who);
    va_list args;
    int body;
    size_t length;
    ssize_t written;

    va_start(args, format);
    body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, args);
    va_end(args);
    length = (size_t)head + (body > 0 ? (size_t)body : 0);
    if (length > sizeof(line) - 2)
        length = sizeof(line) - 2;
    log_make_printable(line, length);
    line[length] = '\n';
    written = write(STDERR_FILENO, line, length + 1);
    (void)written; /* there is nobody left to tell */
    errno = saved;
}

bool log_limit_pass(struct log_limit *limit, uint64_t *left_out)
{
    uint64_t now = clock_now();

    if (limit->last_ns != 0 && now - limit->last_ns < CLOCK_NS_PER_S) {
        limit->left_out++;
        return false;
    }
    *left_out = limit->left_out;
    limit->left_out = 0;
    limit->last_ns = now;
    return true;
}
