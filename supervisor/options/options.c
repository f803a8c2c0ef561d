/* Command line, environment, config file and defaults, in their order of precedence. */
#include "supervisor/options/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/command/argp.h"
#include "supervisor/options/help.h"
#include "supervisor/options/table.h"

/* What the command line said; applied last, read first as it names the config file. */
struct given {
    const char *value[OPTIONS_COUNT];
    bool reference;
};

static error_t argument_parse(int key, char *arg, struct argp_state *state)
{
    struct given *given = state->input;

    if (key == ARGP_KEY_ARG) {
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    }
    if (key == OPTIONS_HELP_KEY_REFERENCE) {
        given->reference = true;
        return 0;
    }
    if (key < OPTIONS_HELP_KEY || key >= OPTIONS_HELP_KEY + OPTIONS_COUNT)
        return ARGP_ERR_UNKNOWN;
    given->value[key - OPTIONS_HELP_KEY] = arg ? arg : "1";
    return 0;
}

static int arguments_read(int argc, char **argv, struct given *given)
{
    struct argp_option *list = options_help_make();

    if (!list) {
        fprintf(stderr, "tesup serve: no memory\n");
        return -1;
    }
    const struct argp argp = {
        .options = list,
        .parser = argument_parse,
        .doc = "Run the supervisor of this host: it starts and watches the workers, lets jobs "
               "attach and speaks with other hosts.\v"
               "The command line goes over the environment, the environment over the config file. "
               "Times are written with ms or s, sizes with K, M or G.",
        .children = cmd_argp_children,
    };
    int err = cmd_argp_parse(&argp, "tesup serve", argc, argv, 0, given);
    options_help_free(list);
    return err ? -1 : 0;
}

void options_defaults(struct serve_options *o)
{
    char why[256];

    memset(o, 0, sizeof(*o));
    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        if (options_table[i].initial)
            (void)option_set(&options_table[i], options_table[i].initial, o, why, sizeof(why));
    o->rdma.gid_index = PROTO_GID_AUTO;
    o->allow_uids.uid[0] = geteuid();
    o->allow_uids.uid[1] = 0;
    o->allow_uids.count = geteuid() == 0 ? 1 : 2;
}

static int config_apply(const char *path, struct serve_options *o, char *text, size_t size)
{
    FILE *file = fopen(path, "re");

    if (!file) {
        snprintf(text, size, "config file %s: %s", path, strerror(errno));
        return -1;
    }
    int err = options_config_read(file, path, o, text, size);
    fclose(file);
    return err;
}

static int environment_apply(struct serve_options *o, char *text, size_t size)
{
    char why[512];

    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const char *name = options_table[i].env;
        const char *value = name ? getenv(name) : NULL;

        if (value && option_set(&options_table[i], value, o, why, sizeof(why))) {
            snprintf(text, size, "environment variable %s: %s", name, why);
            return -1;
        }
    }
    return 0;
}

static int given_apply(const struct given *given, struct serve_options *o, char *text, size_t size)
{
    char why[512];

    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        if (given->value[i] &&
            option_set(&options_table[i], given->value[i], o, why, sizeof(why))) {
            snprintf(text, size, "--%s: %s", options_table[i].flag, why);
            return -1;
        }
    return 0;
}

static bool host_is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* Values that follow from others or from the system. */
static int options_finish(struct serve_options *o, char *text, size_t size)
{
    struct options_paths paths;

    if (options_paths_default(o->name, o->runtime_dir, &paths, text, size))
        return -1;
    memcpy(o->runtime_dir, paths.runtime_dir, sizeof(o->runtime_dir));
    if (o->peer_auth == OPTION_PEER_AUTH_PSK && o->peer_key[0] == '\0' &&
        options_key_default(o->peer_key, sizeof(o->peer_key), text, size))
        return -1;
    if (option_address_split(o->listen, o->listen_host, sizeof(o->listen_host), &o->listen_port,
                             text, size))
        return -1;
    if (o->advertise[0])
        return 0;
    if (!host_is_wildcard(o->listen_host)) {
        memcpy(o->advertise, o->listen_host, sizeof(o->advertise));
        return 0;
    }
    if (gethostname(o->advertise, sizeof(o->advertise) - 1) || o->advertise[0] == '\0') {
        snprintf(text, size,
                 "this machine has no host name; give --advertise HOST with --listen %s",
                 o->listen);
        return -1;
    }
    return 0;
}

static int options_apply(const struct given *given, struct serve_options *o, char *text,
                         size_t size)
{
    const char *config = given->value[OPTIONS_TABLE_CONFIG];

    options_defaults(o);
    if (config && config_apply(config, o, text, size))
        return -1;
    if (environment_apply(o, text, size) || given_apply(given, o, text, size))
        return -1;
    return options_finish(o, text, size);
}

int options_parse(int argc, char **argv, struct serve_options *o)
{
    struct given given = {0};
    char text[OPTIONS_TEXT_MAX];

    if (arguments_read(argc, argv, &given))
        return CMD_EXIT_USAGE;
    if (given.reference) {
        options_reference_print(stdout);
        exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    if (options_apply(&given, o, text, sizeof(text))) {
        fprintf(stderr, "tesup serve: %s\n", text);
        return CMD_EXIT_USAGE;
    }
    return 0;
}
