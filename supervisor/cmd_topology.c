/* `tesup topology`: what is in this machine, or in an hwloc XML file, and which workers that gives.
 */
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "supervisor/cmd.h"
#include "supervisor/cmd_argp.h"
#include "supervisor/topology_show.h"

enum { TEXT_MAX = 4600 }; /* a sentence with a path of PATH_MAX in it */

enum option_key { KEY_XML = 'x', KEY_JSON = 'j', KEY_WORKERS = 'w' };

struct topology_args {
    const char *xml;
    bool json;
    unsigned workers;
};

static const struct argp_option options[] = {
    {"xml", KEY_XML, "FILE", 0,
     "read this hwloc XML file (`lstopo --of xml FILE`); default: this machine", 0},
    {"json", KEY_JSON, NULL, 0, "print JSON; default: a tree", 0},
    {"workers", KEY_WORKERS, "N", 0,
     "plan for N workers, 0 to 64; default: 0, one per NUMA node with usable CPUs", 0},
    {0},
};

static int workers_parse(const char *arg, unsigned *workers)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(arg, &end, 10);
    if (!isdigit((unsigned char)arg[0]) || *end || errno || value > TOPOLOGY_PAIRS_MAX)
        return -1;
    *workers = (unsigned)value;
    return 0;
}

static error_t args_parse(int key, char *arg, struct argp_state *state)
{
    struct topology_args *args = state->input;

    switch (key) {
    case KEY_XML:
        args->xml = arg;
        return 0;
    case KEY_JSON:
        args->json = true;
        return 0;
    case KEY_WORKERS:
        if (workers_parse(arg, &args->workers) == 0)
            return 0;
        argp_error(state, "--workers %s: a whole number from 0 to %d is needed", arg,
                   TOPOLOGY_PAIRS_MAX);
        return EINVAL;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'; a file is named with --xml FILE", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = args_parse,
    .doc = "Shows NUMA nodes, NICs, GPUs and the plan of workers, without a supervisor.",
    .children = cmd_argp_children,
};

int cmd_topology(int argc, char **argv)
{
    struct topology_args args = {0};
    struct topology_plan plan;
    struct topology *topology;
    char text[TEXT_MAX];

    int rc = cmd_argp_parse(&argp, "tesup topology", argc, argv, 0, &args);
    if (rc)
        return rc;
    if (topology_load(args.xml, &topology, text, sizeof(text)) < 0) {
        fprintf(stderr, "tesup topology: %s\n", text);
        return EXIT_FAILURE;
    }

    if (topology_plan_make(topology, NULL, args.workers, &plan, text, sizeof(text)) < 0) {
        fprintf(stderr, "tesup topology: %s\n", text);
        goto err_free;
    }
    setlocale(LC_CTYPE, ""); /* the tree is drawn with the lines that the terminal has */
    rc = args.json ? topology_show_json(topology, &plan) : topology_show_tree(topology, &plan);
    if (rc < 0) {
        fprintf(stderr, "tesup topology: cannot print: no memory, or standard output is closed\n");
        goto err_free;
    }
    topology_free(topology);
    return EXIT_SUCCESS;

err_free:
    topology_free(topology);
    return EXIT_FAILURE;
}
