#include "supervisor/status/format.h"

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
    else if (s < UINT64_C(100) * 86400)
        snprintf(text, size, "%" PRIu64 "d%02" PRIu64 "h", s / 86400, s / 3600 % 24);
    else
        snprintf(text, size, "%" PRIu64 "d", s / 86400);
}

/* A number of at least one unit in five places at most: "1.5K", "20.0G", "512M". */
static void scaled_print(uint64_t number, double unit, char *text, size_t size)
{
    static const char suffixes[] = "KMGTPE";
    double value = (double)number / unit;
    size_t at = 0;

    for (; value >= unit && suffixes[at + 1]; at++)
        value /= unit;
    /* 99.95 would become 100.0. */
    snprintf(text, size, value < 99.95 ? "%.1f%c" : "%.0f%c", value, suffixes[at]);
}

void status_format_bytes(uint64_t bytes, char *text, size_t size)
{
    if (bytes < 1024)
        snprintf(text, size, "%" PRIu64, bytes);
    else
        scaled_print(bytes, 1024, text, size);
}

void status_format_count(uint64_t number, char *text, size_t size)
{
    if (number < 100000)
        snprintf(text, size, "%" PRIu64, number);
    else
        scaled_print(number, 1000, text, size);
}

void status_format_rate(double rate, char *text, size_t size)
{
    if (rate > 0 && rate < 9.95)
        snprintf(text, size, "%.1f", rate); /* one in a few seconds is not none */
    else
        status_format_count((uint64_t)(rate + 0.5), text, size);
}

void status_format_byte_rate(double rate, char *text, size_t size)
{
    status_format_bytes((uint64_t)(rate + 0.5), text, size);
}

void status_format_duration(uint64_t ns, char *text, size_t size)
{
    static const struct {
        uint64_t ns;
        const char *name;
    } units[] = {{CLOCK_NS_PER_S, "s"}, {CLOCK_NS_PER_MS, "ms"}, {CLOCK_NS_PER_US, "us"}};
    size_t at = 0;

    if (ns == 0) {
        snprintf(text, size, "0");
        return;
    }
    while (at < 2 && ns < units[at].ns)
        at++;
    double value = (double)ns / (double)units[at].ns;
    snprintf(text, size, value < 9.95 ? "%.1f%s" : "%.0f%s", value, units[at].name);
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
