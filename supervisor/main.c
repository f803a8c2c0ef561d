/* `tesup COMMAND ...`: finds the command and hands over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/command/cmd.h"

struct command {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {"serve", cmd_serve, "run the supervisor of this host and its workers"},
    {"status", cmd_status, "show the supervisor, workers, sessions, endpoints and errors"},
    {"topology", cmd_topology, "show NUMA nodes, NICs, GPUs and the plan of workers"},
    {"doctor", cmd_doctor, "look for what is wrong with this host, and how to mend it"},
    {"run", cmd_run, "run a job next to a supervisor, starting a private one if there is none"},
    {"bench", cmd_bench, "measure and verify transfers and notifications"},
};

static void commands_print(FILE *out)
{
    fprintf(out, "Usage: tesup COMMAND [OPTION...]\n\n"
                 "Moves memory and notifications between jobs, through pinned workers.\n\n"
                 "Commands:\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n`tesup COMMAND --help` shows the options of a command.\n");
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* Output that did not reach a full disk or a closed pipe is not a success. */
static int output_finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    perror("tesup: standard output");
    return code ? code : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        commands_print(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        commands_print(stdout);
        return output_finish(0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tesup %s\n", TESUP_VERSION);
        return output_finish(0);
    }

    const struct command *command = command_find(argv[1]);
    if (!command) {
        fprintf(stderr, "tesup: unknown command '%s'\n\n", argv[1]);
        commands_print(stderr);
        return 2;
    }
    return output_finish(command->main(argc - 1, argv + 1));
}
