#include "client/bench/sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reads one size and sets *end behind it. -1: not a size. */
static int size_parse(const char *text, uint64_t *bytes, const char **end)
{
    static const char suffix[] = "KMG";
    uint64_t sum = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
            return -1;
    if (at == text)
        return -1;
    const char *unit = *at ? strchr(suffix, *at) : NULL;
    if (unit) {
        if (__builtin_mul_overflow(sum, UINT64_C(1) << (10 * (unit - suffix + 1)), &sum))
            return -1;
        at += strncmp(at + 1, "iB", 2) == 0 ? 3 : 1;
    }
    *bytes = sum;
    *end = at;
    return 0;
}

static int size_append(struct size_list *list, uint64_t bytes, char *why, size_t why_size)
{
    if (bytes == 0 || bytes > SIZES_BLOCK_MAX) {
        snprintf(why, why_size, "a block of %" PRIu64 " bytes is outside 1 to 1G", bytes);
        return -1;
    }
    if (list->count == SIZES_MAX) {
        snprintf(why, why_size, "more than %u sizes", SIZES_MAX);
        return -1;
    }
    list->size[list->count++] = bytes;
    return 0;
}

static void not_a_size(const char *text, char *why, size_t why_size)
{
    snprintf(why, why_size,
             "'%.60s' is not a size: write bytes, or a number with K, M or G; FROM:TO doubles; "
             "separate by commas, as in 4K:64M or 4K,1M",
             text);
}

/* One item of the list: SIZE, or FROM:TO doubling (TO itself only when the doubling meets it). */
static int item_parse(const char *text, const char **end, struct size_list *list, char *why,
                      size_t why_size)
{
    uint64_t from, to;

    if (size_parse(text, &from, end))
        goto err_text;
    if (**end != ':')
        return size_append(list, from, why, why_size);
    if (size_parse(*end + 1, &to, end))
        goto err_text;
    if (from == 0 || to < from) {
        snprintf(why, why_size, "'%.60s': the range does not go upwards from at least 1", text);
        return -1;
    }
    for (uint64_t size = from; size <= to; size *= 2)
        if (size_append(list, size, why, why_size))
            return -1;
    return 0;

err_text:
    not_a_size(text, why, why_size);
    return -1;
}

int sizes_parse(const char *text, struct size_list *list, char *why, size_t why_size)
{
    const char *at = text;

    list->count = 0;
    for (;;) {
        const char *item = at;
        if (item_parse(item, &at, list, why, why_size))
            return -1;
        if (*at == '\0')
            return 0;
        if (*at != ',') {
            not_a_size(item, why, why_size);
            return -1;
        }
        at++;
    }
}

void sizes_format(uint64_t bytes, char *text, size_t text_size)
{
    static const char suffix[] = "\0KMG";
    uint32_t step = 0;

    while (step < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        step++;
    }
    if (step == 0)
        snprintf(text, text_size, "%" PRIu64, bytes);
    else
        snprintf(text, text_size, "%" PRIu64 "%c", bytes, suffix[step]);
}
