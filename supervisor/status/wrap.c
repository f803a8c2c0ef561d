#include "supervisor/status/wrap.h"

#include <string.h>

/* Where a long name may be broken without hurting its parts. */
static const char joints[] = "/+@,;=_-";

/* How much of `word`, which is longer than a line, goes on this one. */
static size_t word_break(const char *word, size_t width)
{
    for (size_t at = width; 2 * at >= width && at > 0; at--)
        if (strchr(joints, word[at - 1]))
            return at;
    return width;
}

/* Bytes of the next line, blanks at its end not counted. */
static size_t line_length(const char *text, size_t width)
{
    size_t length = strcspn(text, " ");

    if (length > width)
        return word_break(text, width);
    for (;;) {
        size_t next = length + strspn(text + length, " ");

        if (text[next] == '\0')
            return length;
        next += strcspn(text + next, " ");
        if (next > width)
            return length;
        length = next;
    }
}

void status_wrap(const char *text, size_t width, char *lines, size_t size)
{
    size_t used = 0;

    text += strspn(text, " ");
    while (*text) {
        size_t length = line_length(text, width);

        if (used + length + 2 > size)
            break;
        if (used)
            lines[used++] = '\n';
        memcpy(lines + used, text, length);
        used += length;
        text += length;
        text += strspn(text, " ");
    }
    lines[used] = '\0';
}

static size_t width_least(const struct status_width *column)
{
    return column->natural < column->least ? column->natural : column->least;
}

/* Gives their natural width to columns that need no more than their part; true when one was. */
static bool width_settle(struct status_width *columns, size_t count, size_t *left, size_t *open)
{
    size_t part = *open ? *left / *open : 0;
    bool settled = false;

    for (size_t i = 0; i < count; i++) {
        if (columns[i].width || (columns[i].wrap && columns[i].natural > part))
            continue;
        columns[i].width = columns[i].natural;
        *left -= columns[i].width < *left ? columns[i].width : *left;
        *open -= columns[i].wrap;
        settled = true;
    }
    return settled;
}

void status_width_share(struct status_width *columns, size_t count, size_t total)
{
    size_t left = total;
    size_t open = 0;

    for (size_t i = 0; i < count; i++) {
        columns[i].width = columns[i].wrap ? 0 : columns[i].natural;
        left -= columns[i].width < left ? columns[i].width : left;
        open += columns[i].wrap;
    }
    while (open && width_settle(columns, count, &left, &open))
        ;
    for (size_t i = 0; open && i < count; i++) {
        if (columns[i].width)
            continue;
        columns[i].width = left / open--;
        if (columns[i].width < width_least(&columns[i]))
            columns[i].width = width_least(&columns[i]);
        left -= columns[i].width < left ? columns[i].width : left;
    }
}
