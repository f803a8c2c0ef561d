/* `tesup status`: 0 healthy, 1 degraded, 2 nobody there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/cmd.h"
#include "supervisor/cmd_argp.h"
#include "supervisor/status_json.h"
#include "supervisor/status_read.h"
#include "supervisor/status_table.h"
#include "supervisor/units.h"

enum status_exit { STATUS_EXIT_OK = 0, STATUS_EXIT_DEGRADED = 1, STATUS_EXIT_NOBODY = 2 };

#define WATCH_SECONDS_MAX 3600u

struct status_arguments {
    const char *name;
    const char *runtime_dir;
    bool json;
    bool errors;
    unsigned watch_s; /* 0 = once */
};

enum { KEY_NAME = 'n', KEY_RUNTIME_DIR = 'r', KEY_JSON = 'j', KEY_WATCH = 'w', KEY_ERRORS = 'e' };

static const struct argp_option status_options[] = {
    {"name", KEY_NAME, "NAME", 0, "name of the supervisor (default: default)", 0},
    {"runtime-dir", KEY_RUNTIME_DIR, "DIR", 0,
     "where its lock file is (default: /run/tesup for root, $XDG_RUNTIME_DIR/tesup for others)", 0},
    {"json", KEY_JSON, NULL, 0, "print JSON", 0},
    {"watch", KEY_WATCH, "SECONDS", OPTION_ARG_OPTIONAL,
     "show it again every SECONDS (default: 1) until interrupted", 0},
    {"errors", KEY_ERRORS, NULL, 0, "list the distinct errors", 0},
    {0},
};

static error_t watch_parse(struct status_arguments *arguments, const char *arg,
                           struct argp_state *state)
{
    uint64_t seconds = 1;
    char why[128];

    if (arg && (units_count_parse(arg, &seconds, why, sizeof(why)) || seconds == 0 ||
                seconds > WATCH_SECONDS_MAX)) {
        argp_error(state, "--watch: '%s' is not possible; allowed: 1..%u seconds", arg,
                   WATCH_SECONDS_MAX);
        return EINVAL;
    }
    arguments->watch_s = (unsigned)seconds;
    return 0;
}

static error_t status_parse(int key, char *arg, struct argp_state *state)
{
    struct status_arguments *arguments = state->input;

    switch (key) {
    case KEY_NAME:
        arguments->name = arg;
        return 0;
    case KEY_RUNTIME_DIR:
        arguments->runtime_dir = arg;
        return 0;
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case KEY_ERRORS:
        arguments->errors = true;
        return 0;
    case KEY_WATCH:
        return watch_parse(arguments, arg, state);
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* One document a line when watched, so that readers can follow. */
static int json_show(const struct status *status, bool compact)
{
    json_t *document = status_json_make(status);
    size_t flags = JSON_ENSURE_ASCII | (compact ? JSON_COMPACT : JSON_INDENT(2));
    int err = document ? json_dumpf(document, stdout, flags) : -1;

    json_decref(document);
    putchar('\n');
    return err;
}

static int status_show(const struct status_arguments *arguments, const struct options_paths *paths)
{
    static struct status status; /* large */
    char text[OPTIONS_PATHS_TEXT_MAX];
    int err;

    switch (status_read(paths, &status, text, sizeof(text))) {
    case STATUS_READ:
        break;
    case STATUS_NOBODY:
        fprintf(stderr,
                "tesup status: no supervisor at %s: %s\n"
                "Start one with `tesup serve`, or name another by --name or --runtime-dir.\n",
                paths->socket, text);
        return STATUS_EXIT_NOBODY;
    case STATUS_UNREADABLE:
        fprintf(stderr, "tesup status: the supervisor at %s cannot be seen: %s\n", paths->socket,
                text);
        return STATUS_EXIT_NOBODY;
    }
    if (arguments->watch_s && !arguments->json && isatty(STDOUT_FILENO))
        printf("\033[H\033[2J");
    if (arguments->json)
        err = json_show(&status, arguments->watch_s > 0);
    else
        err = status_table_print(&status, arguments->errors, stdout);
    int code = status.reason_count ? STATUS_EXIT_DEGRADED : STATUS_EXIT_OK;
    status_free(&status);
    if (fflush(stdout) || err) {
        fprintf(stderr, "tesup status: the result could not be written\n");
        exit(STATUS_EXIT_NOBODY);
    }
    return code;
}

int cmd_status(int argc, char **argv)
{
    static const struct argp argp = {
        .options = status_options,
        .parser = status_parse,
        .doc = "Show the supervisor, its workers, sessions, endpoints and errors, by reading "
               "their counters: it answers also while they hang.\v"
               "Exit code: 0 healthy, 1 degraded, 2 nobody there or wrong usage.",
        .children = cmd_argp_children,
    };
    struct status_arguments arguments = {0};
    struct options_paths paths;
    char text[OPTIONS_PATHS_TEXT_MAX];
    int code = cmd_argp_parse(&argp, "tesup status", argc, argv, 0, &arguments);

    if (code)
        return code;
    if (options_paths_default(arguments.name, arguments.runtime_dir, &paths, text, sizeof(text))) {
        fprintf(stderr, "tesup status: %s\n", text);
        return STATUS_EXIT_NOBODY;
    }
    for (;;) {
        code = status_show(&arguments, &paths);
        if (arguments.watch_s == 0)
            return code;
        sleep(arguments.watch_s);
    }
}
