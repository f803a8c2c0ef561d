/* Where `tesup status` is printed: how wide, and may it have colours. */
#ifndef TESUP_SUPERVISOR_STATUS_SCREEN_H
#define TESUP_SUPERVISOR_STATUS_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

#define STATUS_WIDTH_MIN  80u  /* on a narrower terminal lines go over its edge */
#define STATUS_WIDTH_WIDE 120u /* from here on there is room for more columns */

struct status_screen {
    FILE *out;
    unsigned width;
    unsigned height; /* 0: no limit */
    bool colour;
};

/* Colours only on a terminal that has some, and never when NO_COLOR says so. Width: of the
 * terminal, else of COLUMNS, else 80. */
void status_screen_detect(struct status_screen *screen, FILE *out);

enum status_colour {
    STATUS_COLOUR_NONE = 0,
    STATUS_COLOUR_GOOD,
    STATUS_COLOUR_CHANGING, /* on its way to something else */
    STATUS_COLOUR_BAD,
};

/* The escape sequence; "" for none, and where there are no colours. */
const char *status_screen_colour(const struct status_screen *screen, enum status_colour colour);

/* Prints `head` and then the text in words that fit the width; further lines are indented by
 * `indent`. What is no printable ASCII is escaped. */
void status_screen_item(const struct status_screen *screen, const char *head, unsigned indent,
                        const char *text);

#endif
