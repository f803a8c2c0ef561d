#include "supervisor/status_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "shm/clock.h"

void status_format_age(uint64_t since_ns, uint64_t now_ns, char *text, size_t size)
{
    uint64_t s = now_ns > since_ns ? (now_ns - since_ns) / CLOCK_NS_PER_S : 0;

    if (since_ns == 0)
        snprintf(text, size, "-");
    else if (s < 60)
        snprintf(text, size, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(text, size, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, size, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
    else
        snprintf(text, size, "%" PRIu64 "d%02" PRIu64 "h", s / 86400, s / 3600 % 24);
}

void status_format_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char suffix[] = {'K', 'M', 'G', 'T', 'P', 'E'};
    double value = (double)bytes;
    size_t step = 0;

    for (; value >= 1024 && step < sizeof(suffix); step++)
        value /= 1024;
    if (step == 0)
        snprintf(text, size, "%" PRIu64, bytes);
    else
        snprintf(text, size, "%.1f%c", value, suffix[step - 1]);
}

void status_format_time(uint64_t wall_ns, char text[STATUS_TIME_MAX])
{
    time_t seconds = (time_t)(wall_ns / CLOCK_NS_PER_S);
    unsigned ms = (unsigned)(wall_ns % CLOCK_NS_PER_S / CLOCK_NS_PER_MS);
    struct tm tm;
    size_t len = 0;

    if (gmtime_r(&seconds, &tm))
        len = strftime(text, STATUS_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + len, STATUS_TIME_MAX - len, ".%03uZ", ms);
}

void status_format_safe(const char *from, char *text, size_t size)
{
    size_t len = 0;

    for (; *from && len + 5 <= size; from++) {
        unsigned char byte = (unsigned char)*from;

        if (byte >= 0x20 && byte < 0x7f && byte != '\\')
            text[len++] = *from;
        else
            len += (size_t)snprintf(text + len, size - len, "\\x%02x", byte);
    }
    text[len] = '\0';
}
