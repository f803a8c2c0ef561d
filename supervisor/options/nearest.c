/* "Did you mean": the known config key closest to a mistyped one. */
#include <string.h>

#include "supervisor/options/table.h"

#define NEAREST_LEN_MAX  64u
#define NEAREST_DISTANCE 3u /* more edits than this are another word */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;

    return m < c ? m : c;
}

/* Levenshtein distance by one row; both texts are shorter than NEAREST_LEN_MAX. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[NEAREST_LEN_MAX + 1];
    size_t len = strlen(b);

    for (size_t j = 0; j <= len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= len; j++) {
            unsigned above = row[j];

            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[len];
}

const char *options_nearest(const char *key)
{
    const char *nearest = NULL;
    unsigned best = NEAREST_DISTANCE + 1;

    if (strlen(key) > NEAREST_LEN_MAX)
        return NULL;
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const char *known = options_table[i].config;

        if (!known)
            continue;
        unsigned distance = edit_distance(key, known);
        if (distance < best) {
            best = distance;
            nearest = known;
        }
    }
    return nearest;
}
