#include "supervisor/status/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "supervisor/status/format.h"
#include "supervisor/status/wrap.h"

#define WIDTH_MAX 1000u
#define ITEM_MAX  2048

static unsigned environment_columns(void)
{
    const char *text = getenv("COLUMNS");
    unsigned long columns = text ? strtoul(text, NULL, 10) : 0;

    return columns <= WIDTH_MAX ? (unsigned)columns : WIDTH_MAX;
}

static bool terminal_has_colours(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return !(no_color && no_color[0]) && term && term[0] && strcmp(term, "dumb") != 0;
}

void status_screen_detect(struct status_screen *screen, FILE *out)
{
    struct winsize size = {0};
    int fd = fileno(out);
    bool terminal = fd >= 0 && isatty(fd);

    *screen = (struct status_screen){.out = out};
    if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0) {
        screen->width = size.ws_col;
        screen->height = size.ws_row;
    }
    if (screen->width == 0)
        screen->width = environment_columns();
    if (screen->width < STATUS_WIDTH_MIN)
        screen->width = STATUS_WIDTH_MIN;
    if (screen->width > WIDTH_MAX)
        screen->width = WIDTH_MAX;
    screen->colour = terminal && terminal_has_colours();
}

const char *status_screen_colour(const struct status_screen *screen, enum status_colour colour)
{
    static const char *const sequences[] = {
        [STATUS_COLOUR_NONE] = "",
        [STATUS_COLOUR_GOOD] = "\033[32m",
        [STATUS_COLOUR_CHANGING] = "\033[33m",
        [STATUS_COLOUR_BAD] = "\033[31m",
    };

    return screen->colour ? sequences[colour] : "";
}

void status_screen_item(const struct status_screen *screen, const char *head, unsigned indent,
                        const char *text)
{
    char safe[ITEM_MAX];
    char lines[2 * ITEM_MAX];
    char *rest = NULL;

    status_format_safe(text, safe, sizeof(safe));
    status_wrap(safe, screen->width - indent, lines, sizeof(lines));
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        fprintf(screen->out, "%-*s%s\n", (int)indent, head, line);
        head = "";
    }
}
