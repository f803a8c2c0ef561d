/* `tesup run -- CMD...`: a job next to a supervisor that runs already, or to a private one. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "shm/name.h"
#include "supervisor/command/argp.h"
#include "supervisor/command/cmd.h"
#include "supervisor/command/locate.h"
#include "supervisor/command/run_daemon.h"
#include "supervisor/command/run_job.h"

struct run_arguments {
    const char *name;
    const char *runtime_dir;
    bool alone; /* a private supervisor in any case */
    size_t serve_count;
    char *serve[RUN_DAEMON_ARGS_MAX];
    char **command;
    bool bind;
    char *pair; /* the words of place.h, NULL: none */
};

enum { KEY_PAIR = 'P', KEY_GPU = 'g', KEY_NUMA = 'N', KEY_BIND = 'b' };
enum { KEY_NAME = 'n', KEY_RUNTIME_DIR = 'r', KEY_PRIVATE = 'p', KEY_SERVE = 's' };

static const struct argp_option run_options[] = {
    {"name", KEY_NAME, "NAME", 0, "name of the supervisor (default: default)", 0},
    {"runtime-dir", KEY_RUNTIME_DIR, "DIR", 0,
     "where to look for it (default: /run/tesup for root, $XDG_RUNTIME_DIR/tesup for others)", 0},
    {"private", KEY_PRIVATE, NULL, 0, "start a private supervisor even if one runs already", 0},
    {"serve-arg", KEY_SERVE, "ARG", 0,
     "give ARG to `tesup serve` (repeat it for more); implies --private", 0},
    {"pair", KEY_PAIR, "NAME", 0, "let the worker of this pair or NIC serve it (sets TESUP_PAIR)",
     1},
    {"gpu", KEY_GPU, "GPU", 0,
     "let the worker of this GPU serve it: bus id, UUID, or index under CUDA_VISIBLE_DEVICES", 1},
    {"numa", KEY_NUMA, "NODE", 0, "let the worker nearest to this NUMA node serve it", 1},
    {"bind", KEY_BIND, NULL, 0,
     "bind COMMAND to the CPUs (without those of workers) and the memory of that worker's node", 1},
    {0},
};

static error_t serve_argument_add(struct run_arguments *arguments, char *arg,
                                  struct argp_state *state)
{
    if (arguments->serve_count == RUN_DAEMON_ARGS_MAX) {
        argp_error(state, "more than %u times --serve-arg", RUN_DAEMON_ARGS_MAX);
        return EINVAL;
    }
    arguments->serve[arguments->serve_count++] = arg;
    arguments->alone = true;
    return 0;
}

static error_t place_set(struct run_arguments *arguments, const char *prefix, const char *arg,
                         struct argp_state *state)
{
    if (arguments->pair) {
        argp_error(state, "--pair, --gpu and --numa: use one of them, once");
        return EINVAL;
    }
    if (arg[0] == '\0' || asprintf(&arguments->pair, "%s%s", prefix, arg) < 0 ||
        !name_label_valid(arguments->pair)) {
        argp_error(state, "'%s' is no name of a pair, GPU or node; `tesup topology` shows them",
                   arg);
        return EINVAL;
    }
    return 0;
}

static error_t arguments_check(const struct run_arguments *arguments, struct argp_state *state)
{
    if (!arguments->command) {
        argp_error(state, "which command? usage: tesup run [OPTION...] -- COMMAND [ARG...]");
        return EINVAL;
    }
    if (arguments->bind && !arguments->pair) {
        argp_error(state, "--bind where? add --pair, --gpu or --numa");
        return EINVAL;
    }
    return 0;
}

static error_t run_parse(int key, char *arg, struct argp_state *state)
{
    struct run_arguments *arguments = state->input;

    switch (key) {
    case KEY_NAME:
        arguments->name = arg;
        return 0;
    case KEY_RUNTIME_DIR:
        arguments->runtime_dir = arg;
        return 0;
    case KEY_PRIVATE:
        arguments->alone = true;
        return 0;
    case KEY_SERVE:
        return serve_argument_add(arguments, arg, state);
    case ARGP_KEY_ARG: /* the command; all that follows is its own */
        arguments->command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case KEY_PAIR:
        return place_set(arguments, "", arg, state);
    case KEY_GPU:
        return place_set(arguments, "gpu:", arg, state);
    case KEY_NUMA:
        return place_set(arguments, "numa:", arg, state);
    case KEY_BIND:
        arguments->bind = true;
        return 0;
    case ARGP_KEY_END:
        return arguments_check(arguments, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The signals that are forwarded, and SIGCHLD. The fd, or -1. */
static int signals_take(sigset_t *before)
{
    static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t set;

    signal(SIGCHLD, SIG_DFL); /* inherited as ignored, children could not be waited for */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        sigaddset(&set, forwarded[i]);
    if (sigprocmask(SIG_BLOCK, &set, before))
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* 1 found, 0 nobody there, -1 after a sentence on stderr. */
static int supervisor_find(const struct run_arguments *arguments, struct options_paths *paths)
{
    char text[OPTIONS_PATHS_TEXT_MAX];
    struct located found;
    bool asked = arguments->name || arguments->runtime_dir;

    if (options_paths_default(arguments->name, arguments->runtime_dir, paths, text, sizeof(text))) {
        /* Without a default place there is nobody in it. */
        if (!asked)
            return 0;
        fprintf(stderr, "tesup run: %s\n", text);
        return -1;
    }
    switch (locate_supervisor(paths, &found, text, sizeof(text))) {
    case LOCATE_FOUND:
        return 1;
    case LOCATE_NOBODY:
        return 0;
    case LOCATE_ERROR:
        break;
    }
    fprintf(stderr, "tesup run: %s; --private goes without it\n", text);
    return -1;
}

/* `paths` are those of the supervisor that serves it. */
static int run_there(const struct run_arguments *arguments, const struct options_paths *paths,
                     int signals, const sigset_t *mask, struct run_daemon *daemon)
{
    struct run_order order = {.command = arguments->command,
                              .socket = paths->socket,
                              .pair = arguments->pair,
                              .mask = mask};
    char text[OPTIONS_PATHS_TEXT_MAX];

    if (arguments->bind &&
        run_bind_find(paths, arguments->pair, &order.bind, text, sizeof(text)) < 0) {
        fprintf(stderr, "tesup run: --bind: %s\n", text);
        return -1;
    }
    int code = run_job(&order, signals, daemon);
    run_bind_free(&order.bind);
    return code;
}

static int run_private(const struct run_arguments *arguments, int signals, const sigset_t *mask)
{
    struct run_daemon daemon = {.output = -1};
    const char *name = arguments->name ? arguments->name : OPTIONS_NAME_DEFAULT;
    int code = -1;

    if (run_daemon_start(&daemon, name, arguments->serve, arguments->serve_count, mask))
        return -1;
    int ready = run_daemon_wait_ready(&daemon, signals);
    if (ready > 0)
        code = 128 + ready;
    else if (ready == 0)
        code = run_there(arguments, &daemon.paths, signals, mask, &daemon);
    run_daemon_stop(&daemon);
    return code;
}

static int run(const struct run_arguments *arguments)
{
    struct run_daemon none = {.output = -1};
    struct options_paths paths;
    sigset_t mask;
    int found = arguments->alone ? 0 : supervisor_find(arguments, &paths);

    if (found < 0)
        return -1;
    int signals = signals_take(&mask);
    if (signals < 0) {
        perror("tesup run: signals");
        return -1;
    }
    int code = found ? run_there(arguments, &paths, signals, &mask, &none)
                     : run_private(arguments, signals, &mask);
    close(signals);
    return code;
}

int cmd_run(int argc, char **argv)
{
    static const struct argp argp = {
        .options = run_options,
        .parser = run_parse,
        .args_doc = "-- COMMAND [ARG...]",
        .doc = "Run COMMAND with TESUP_SOCKET set to the supervisor of this host. If there is "
               "none, a private one is started and ends with COMMAND.\v"
               "Exit code: that of COMMAND, 128 + N when signal N ended it, 127 when it was not "
               "found, 126 when it could not be run, 125 when tesup failed, 2 for wrong usage.",
        .children = cmd_argp_children,
    };
    struct run_arguments arguments = {0};
    int code = cmd_argp_parse(&argp, "tesup run", argc, argv, ARGP_IN_ORDER, &arguments);

    if (code == 0)
        code = run(&arguments);
    free(arguments.pair);
    return code < 0 ? RUN_EXIT_FAILED : code;
}
