/* What every command's argument parser shares: --help, exit code 2, and its name in messages. */
#ifndef TESUP_SUPERVISOR_COMMAND_ARGP_H
#define TESUP_SUPERVISOR_COMMAND_ARGP_H

#include <argp.h>

#define CMD_EXIT_USAGE 2

/* Goes into `children` of a command's argp: adds -h, --help (prints, exits 0). */
extern const struct argp_child cmd_argp_children[];

/* Parses; `name` ("tesup status") leads every message. 0, or 2 after an error was printed. */
int cmd_argp_parse(const struct argp *argp, const char *name, int argc, char **argv, unsigned flags,
                   void *input);

#endif
