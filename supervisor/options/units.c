#include "supervisor/options/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reads the leading decimal digits (a sign or blank is not one). *end is set behind them.
 * -1: none, or more than 64 bits hold. */
static int digits_parse(const char *text, uint64_t *value, const char **end)
{
    uint64_t sum = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
            return -1;
    if (at == text)
        return -1;
    *value = sum;
    *end = at;
    return 0;
}

int units_count_parse(const char *text, uint64_t *value, char *why, size_t why_size)
{
    const char *end;

    if (digits_parse(text, value, &end) == 0 && *end == '\0')
        return 0;
    snprintf(why, why_size, "'%.60s' is not a whole number", text);
    return -1;
}

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},
    {"K", UINT64_C(1) << 10},
    {"M", UINT64_C(1) << 20},
    {"G", UINT64_C(1) << 30},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {NULL, 0},
};
static const struct unit duration_units[] = {{"ms", 1}, {"s", 1000}, {NULL, 0}};

static int scaled_parse(const char *text, const struct unit *unit, uint64_t *value)
{
    uint64_t number;
    const char *end;

    if (digits_parse(text, &number, &end))
        return -1;
    for (; unit->suffix; unit++)
        if (strcmp(end, unit->suffix) == 0)
            return __builtin_mul_overflow(number, unit->factor, value) ? -1 : 0;
    return -1;
}

int units_size_parse(const char *text, uint64_t *bytes, char *why, size_t why_size)
{
    if (scaled_parse(text, size_units, bytes) == 0)
        return 0;
    snprintf(why, why_size,
             "'%.60s' is not a size: write a number of bytes, or one with K, M or G, like 256K",
             text);
    return -1;
}

int units_duration_parse(const char *text, uint64_t *ms, char *why, size_t why_size)
{
    uint64_t number;
    const char *end;

    if (scaled_parse(text, duration_units, ms) == 0)
        return 0;
    if (digits_parse(text, &number, &end) == 0 && *end == '\0')
        snprintf(why, why_size, "'%.60s' has no unit: write %.20ss or %.20sms", text, text, text);
    else
        snprintf(why, why_size,
                 "'%.60s' is not a duration: write a number with ms or s, like 200ms or 2s", text);
    return -1;
}

void units_size_format(uint64_t bytes, char *text, size_t size)
{
    static const char suffix[] = {'K', 'M', 'G'};
    size_t step = 0;

    while (step < sizeof(suffix) && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        step++;
    }
    if (step == 0)
        snprintf(text, size, "%" PRIu64, bytes);
    else
        snprintf(text, size, "%" PRIu64 "%c", bytes, suffix[step - 1]);
}

void units_duration_format(uint64_t ms, char *text, size_t size)
{
    if (ms % 1000 == 0)
        snprintf(text, size, "%" PRIu64 "s", ms / 1000);
    else
        snprintf(text, size, "%" PRIu64 "ms", ms);
}
