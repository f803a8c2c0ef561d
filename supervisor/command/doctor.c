/* `tesup doctor`: what of this host is wrong, and the command that mends it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "supervisor/command/argp.h"
#include "supervisor/command/cmd.h"
#include "supervisor/doctor/doctor.h"

enum option_key { KEY_JSON = 'j' };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "print JSON; default: a line for each finding", 0},
    {0},
};

static error_t args_parse(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case KEY_JSON:
        *(bool *)state->input = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = args_parse,
    .doc =
        "Looks at limits, kernel settings, RDMA devices and GPUs of this host: what keeps tesup "
        "from working here, and the command that mends it.\v"
        "Run it as the supervisor runs: the same user, unit or container. It changes nothing. "
        "Exit code: 0 nothing is bad (notes are what could be better), 1 something is, 2 a wrong "
        "command line.",
    .children = cmd_argp_children,
};

int cmd_doctor(int argc, char **argv)
{
    static struct doctor doctor;
    bool json = false;
    int rc = cmd_argp_parse(&argp, "tesup doctor", argc, argv, 0, &json);

    if (rc)
        return rc;
    doctor_init(&doctor);
    doctor_run(&doctor);
    rc = json ? doctor_print_json(&doctor, stdout) : doctor_print_text(&doctor, stdout);
    if (rc < 0) {
        fprintf(stderr, "tesup doctor: cannot print: no memory, or standard output is closed\n");
        return EXIT_FAILURE;
    }
    return doctor_worst(&doctor) == DOCTOR_BAD ? EXIT_FAILURE : EXIT_SUCCESS;
}
