#include <inttypes.h>
#include <stdio.h>

#include "supervisor/status/format.h"
#include "supervisor/status/table.h"
#include "supervisor/status/words.h"

#define HEAD_INDENT 14

void status_health_print(const struct status *status, const struct status_screen *screen)
{
    bool ok = status->reason_count == 0;
    const char *colour = status_screen_colour(screen, ok ? STATUS_COLOUR_GOOD : STATUS_COLOUR_BAD);
    char name[4 * COUNTERS_LABEL + 1];

    status_format_safe(status->seen->supervisor.name, name, sizeof(name));
    fprintf(screen->out, "tesup %s: %s%s%s\n", name, colour, ok ? "ok" : "degraded",
            colour[0] ? "\033[0m" : "");
    for (size_t i = 0; i < status->reason_count; i++)
        status_screen_item(screen, "  !", 4, status->reason[i]);
}

static void head_item(const struct status_screen *screen, const char *head, const char *text)
{
    status_screen_item(screen, head, HEAD_INDENT, text);
}

static void refused_print(const struct counters_supervisor *supervisor,
                          const struct status_screen *screen)
{
    char text[256];

    snprintf(text, sizeof(text),
             "attaches %" PRIu64 "; peers: wrong key %" PRIu64 ", protocol %" PRIu64
             ", too slow %" PRIu64,
             atomic_peek(&supervisor->attach_refused), atomic_peek(&supervisor->peers_refused_auth),
             atomic_peek(&supervisor->peers_refused_protocol),
             atomic_peek(&supervisor->peers_timed_out));
    head_item(screen, "  refused", text);
}

void status_head_print(const struct status *status, const struct status_screen *screen)
{
    const struct counters_supervisor *supervisor = &status->seen->supervisor;
    char carried[STATUS_WORDS_MAX];
    char up[STATUS_TIME_MAX];
    char text[2 * LAYOUT_NAME_MAX];

    status_health_print(status, screen);
    status_format_age(atomic_peek(&supervisor->started_ns), status->wall_ns, up, sizeof(up));
    snprintf(text, sizeof(text), "pid %" PRIu64 ", up %s, version %s",
             atomic_peek(&supervisor->pid), up, supervisor->version);
    head_item(screen, "  supervisor", text);
    snprintf(text, sizeof(text), "listen %s, fabric %s, peer auth %s", supervisor->listen,
             supervisor->fabric, supervisor->peer_auth);
    head_item(screen, "  peers", text);
    snprintf(text, sizeof(text), "socket %s", supervisor->socket);
    head_item(screen, "  jobs", text);
    status_words_carried(status, carried, sizeof(carried));
    snprintf(text, sizeof(text), "native %s, oob_fallback %s, carried by %s",
             supervisor->notify_native, supervisor->notify_oob, carried);
    head_item(screen, "  notify", text);
    refused_print(supervisor, screen);
}
