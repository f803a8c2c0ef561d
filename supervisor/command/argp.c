#include "supervisor/command/argp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_KEY_USAGE 0x81

static const struct argp_option help_options[] = {
    {"help", 'h', NULL, 0, "show this text and exit", -1},
    {"usage", HELP_KEY_USAGE, NULL, 0, "show the options in short and exit", -1},
    {0},
};

/* argp's own --help cannot be told apart from success once argp may not exit on errors. */
static error_t help_parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != 'h' && key != HELP_KEY_USAGE)
        return ARGP_ERR_UNKNOWN;
    argp_state_help(state, stdout, key == 'h' ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE);
    exit(EXIT_SUCCESS);
}

static const struct argp help_argp = {.options = help_options, .parser = help_parse};

const struct argp_child cmd_argp_children[] = {
    {&help_argp, 0, NULL, -1},
    {0},
};

int cmd_argp_parse(const struct argp *argp, const char *name, int argc, char **argv, unsigned flags,
                   void *input)
{
    char title[64];
    char *own = argv[0];

    snprintf(title, sizeof(title), "%s", name);
    argv[0] = title;
    error_t err = argp_parse(argp, argc, argv, flags | ARGP_NO_EXIT | ARGP_NO_HELP, NULL, input);
    argv[0] = own;
    return err ? CMD_EXIT_USAGE : 0;
}
