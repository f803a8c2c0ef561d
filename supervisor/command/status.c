/* `tesup status`: 0 healthy, 1 degraded, 2 nobody there. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>

#include "supervisor/command/argp.h"
#include "supervisor/command/cmd.h"
#include "supervisor/options/units.h"
#include "supervisor/status/json.h"
#include "supervisor/status/live.h"
#include "supervisor/status/read.h"
#include "supervisor/status/table.h"
#include "supervisor/status/watch.h"

enum status_exit { STATUS_EXIT_OK = 0, STATUS_EXIT_DEGRADED = 1, STATUS_EXIT_NOBODY = 2 };

#define WATCH_SECONDS_MAX 3600u

struct status_arguments {
    const char *name;
    const char *runtime_dir;
    bool json;
    bool errors;
    unsigned watch_s; /* 0 = once */
    bool watch_bare;  /* --watch came without a number: it may still follow */
};

enum { KEY_NAME = 'n', KEY_RUNTIME_DIR = 'r', KEY_JSON = 'j', KEY_WATCH = 'w', KEY_ERRORS = 'e' };

static const struct argp_option status_options[] = {
    {"name", KEY_NAME, "NAME", 0, "name of the supervisor (default: default)", 0},
    {"runtime-dir", KEY_RUNTIME_DIR, "DIR", 0,
     "where its lock file is (default: /run/tesup for root, $XDG_RUNTIME_DIR/tesup for others)", 0},
    {"json", KEY_JSON, NULL, 0, "print JSON", 0},
    {"watch", KEY_WATCH, "SECONDS", OPTION_ARG_OPTIONAL,
     "show rates and queues, again every SECONDS (default: 1) until interrupted", 0},
    {"errors", KEY_ERRORS, NULL, 0, "list the distinct errors instead", 0},
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
    arguments->watch_bare = arg == NULL;
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
        if (arguments->watch_bare) { /* `--watch 5` means the same as `--watch=5` */
            arguments->watch_bare = false;
            return watch_parse(arguments, arg, state);
        }
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct status_session {
    const struct status_arguments *arguments;
    struct options_paths paths;
    struct status look[2]; /* the last and the one before, in turn */
    bool looked;           /* there is one before */
    size_t turn;
    struct status_rates rates;
};

/* One document a line when watched, so that readers can follow. */
static int json_show(const struct status *status, const struct status_rates *rates, FILE *out)
{
    json_t *document = status_json_make(status, rates);
    size_t flags = JSON_ENSURE_ASCII | (rates ? JSON_COMPACT : JSON_INDENT(2));
    int err = document ? json_dumpf(document, out, flags) : -1;

    json_decref(document);
    fputc('\n', out);
    return err;
}

/* `rates` is NULL when it is shown once. */
static int status_show(const struct status_arguments *arguments, const struct status *status,
                       const struct status_rates *rates, FILE *out)
{
    struct status_screen screen;

    if (arguments->json)
        return json_show(status, rates, out);
    status_screen_detect(&screen, stdout);
    screen.out = out;
    if (arguments->errors) {
        status_health_print(status, &screen);
        return status_errors_print(status, &screen);
    }
    return rates ? status_live_print(status, rates, &screen) : status_table_print(status, &screen);
}

/* What stands there instead of a status, to `out`. */
static void nobody_show(enum status_result result, const struct options_paths *paths,
                        const char *text, FILE *out)
{
    if (result == STATUS_NOBODY)
        fprintf(out,
                "tesup status: no supervisor at %s: %s\n"
                "Start one with `tesup serve`, or name another by --name or --runtime-dir.\n",
                paths->socket, text);
    else
        fprintf(out, "tesup status: the supervisor at %s cannot be seen: %s\n", paths->socket,
                text);
}

static int status_code(const struct status *status)
{
    return status->reason_count ? STATUS_EXIT_DEGRADED : STATUS_EXIT_OK;
}

static int status_once(struct status_session *session)
{
    struct status *status = &session->look[0];
    char text[OPTIONS_PATHS_TEXT_MAX];
    enum status_result result = status_read(&session->paths, status, text, sizeof(text));

    if (result != STATUS_READ) {
        nobody_show(result, &session->paths, text, stderr);
        return STATUS_EXIT_NOBODY;
    }
    int err = status_show(session->arguments, status, NULL, stdout);
    int code = status_code(status);
    status_free(status);
    if (fflush(stdout) == 0 && err == 0)
        return code;
    fprintf(stderr, "tesup status: the result could not be written\n");
    return STATUS_EXIT_NOBODY;
}

static int status_again(void *argument, FILE *out)
{
    struct status_session *session = argument;
    struct status *status = &session->look[session->turn];
    struct status *before = &session->look[1 - session->turn];
    char text[OPTIONS_PATHS_TEXT_MAX];
    enum status_result result = status_read(&session->paths, status, text, sizeof(text));

    if (result != STATUS_READ) {
        session->looked = false;
        nobody_show(result, &session->paths, text, session->arguments->json ? stderr : out);
        return STATUS_EXIT_NOBODY;
    }
    status_rates_make(session->looked ? before : NULL, status, &session->rates);
    status_free(before);
    session->looked = true;
    session->turn = 1 - session->turn;
    if (status_show(session->arguments, status, &session->rates, out))
        fprintf(out, "tesup status: no memory for the tables\n");
    return status_code(status);
}

static int status_watched(struct status_session *session)
{
    int code = status_watch(session->arguments->watch_s, session->arguments->json ? "" : "\n",
                            status_again, session);

    status_free(&session->look[0]);
    status_free(&session->look[1]);
    if (code >= 0)
        return code;
    fprintf(stderr, "tesup status: the result could not be written\n");
    return STATUS_EXIT_NOBODY;
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
    static struct status_session session; /* large */
    struct status_arguments arguments = {0};
    char text[OPTIONS_PATHS_TEXT_MAX];
    int code = cmd_argp_parse(&argp, "tesup status", argc, argv, 0, &arguments);

    if (code)
        return code;
    session.arguments = &arguments;
    if (options_paths_default(arguments.name, arguments.runtime_dir, &session.paths, text,
                              sizeof(text))) {
        fprintf(stderr, "tesup status: %s\n", text);
        return STATUS_EXIT_NOBODY;
    }
    setlocale(LC_CTYPE, ""); /* may the lines of a tree be drawn? */
    return arguments.watch_s ? status_watched(&session) : status_once(&session);
}
