/* Text in lines of a width: between words, and inside a word only when it is longer than a line. */
#ifndef TESUP_SUPERVISOR_STATUS_WRAP_H
#define TESUP_SUPERVISOR_STATUS_WRAP_H

#include <stdbool.h>
#include <stddef.h>

/* Copies `text` with newlines so that no line has more than `width` > 0 bytes. What does not fit
 * `size` is left out. */
void status_wrap(const char *text, size_t width, char *lines, size_t size);

struct status_width {
    size_t natural; /* of the widest text */
    size_t least;   /* not less, however narrow the screen */
    bool wrap;      /* may be narrower than natural */
    size_t width;   /* the result */
};

/* Shares `total` out: fixed columns get what they need, short wrapping ones too, and the rest is
 * for the long ones, in equal parts. */
void status_width_share(struct status_width *columns, size_t count, size_t total);

#endif
